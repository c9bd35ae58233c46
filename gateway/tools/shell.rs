//! The `shell` server: runs an allowed program with an argument vector, never a shell, in folders
//! held by descriptor. The kernel confines programs (Landlock, a system call filter, limits),
//! independently of the rule over their arguments. Linux only.

mod config;
mod confine;
mod execute;
mod folder;
mod launch;
mod program;
mod run;

pub use config::{Config, Landlock, Root};
pub use confine::confined;

use std::collections::BTreeMap;
use std::sync::Arc;

use lockgate_policy::command::{Command, Spec};
use lockgate_text::list::JsonList;
use tokio::sync::Semaphore;

use crate::server::ServerDefinition;
use folder::Folders;
use launch::Launchers;
use program::Program;

/// State shared by all calls.
struct Shell {
    rule: Command,
    programs: BTreeMap<String, Program>,
    folders: Folders,
    landlock: bool,
    places: Arc<Semaphore>,
    launchers: Arc<Launchers>,
    config: Config,
}

/// Builds the server. Returns an error if it cannot run programs safely.
pub(crate) fn build(config: &Config) -> Result<ServerDefinition, String> {
    let landlock = confine::wanted(config.landlock, confine::found())?;
    let folders = Folders::open(&config.roots)?;
    let spec = Spec { roots: folders.paths(), ..config.rule() };
    let rule = Command::compile(&spec)?;
    let mut programs = BTreeMap::new();
    let mut missing = Vec::new();
    for name in rule.programs() {
        match Program::find(name, &config.search, &spec.allow_code_execution) {
            Some(program) => {
                programs.insert(name.to_owned(), program);
            }
            None => missing.push(name),
        }
    }
    if programs.is_empty() {
        return Err("none of the programs is installed in the folders of `search`".into());
    }
    if !landlock {
        tracing::warn!(
            "builtin.shell: programs run without Landlock; a link that is replaced at the right \
                moment leads out of the roots"
        );
    }
    if !missing.is_empty() {
        tracing::info!(programs = %JsonList(&missing), "builtin.shell: not installed");
    }
    let places = Arc::new(Semaphore::new(config.concurrent));
    let launchers = Launchers::new(config.launcher.clone(), config.concurrent)
        .map_err(|error| format!("the thread for its launchers cannot be started: {error}"))?;
    let shell = Arc::new(Shell {
        rule,
        programs,
        folders,
        landlock,
        places,
        launchers: Arc::new(launchers),
        config: config.clone(),
    });
    Ok(ServerDefinition {
        instructions:
            "Runs allowed programs, such as grep, find and git, in the configured folders. There \
                is no shell: no pipes, no redirection, no wildcards, one program per call."
                .into(),
        tools: vec![Box::new(execute::Execute(shell))],
        ..ServerDefinition::default()
    })
}

#[cfg(test)]
pub(crate) mod tests;
