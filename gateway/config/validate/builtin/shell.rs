//! `builtin.shell`: compiles its rule, and checks folders and variables. Programs are looked up at
//! the server's start, not here.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use lockgate_policy::command::{Command, ModelSpec, Spec, Style};
use lockgate_tools::{Landlock, Shell, ShellLimits, ShellRoot};

use super::super::Check;
use crate::expand::is_variable_name;
use crate::raw::builtin::shell as raw;
use crate::raw::given::{list_or, texts_of};
use crate::raw::leaf::Text;
use crate::source::node::{Node, Value};

const MAX_ROOTS: usize = 64;
const SEARCH: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];
/// Variables that select executed programs or loaded code.
const REFUSED: [&str; 9] = [
    "PATH",
    "ENV",
    "BASH_ENV",
    "IFS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "SSH_ASKPASS",
    "GCONV_PATH",
    "LOCPATH",
];
const REFUSED_BEGINNINGS: [&str; 4] = ["LD_", "DYLD_", "GIT_", "npm_config_"];

impl Check<'_> {
    pub(super) fn shell(&mut self, raw: &raw::Shell) -> Option<Shell> {
        let roots = self.shell_roots(&raw.roots);
        let mut search = self.shell_folders("search", &list_or(&raw.search, &[]));
        let read = self.shell_folders("read", &raw.read.0);
        let environment = self.shell_environment(&raw.environment);
        for (at, name) in raw.caller_environment.0.iter().enumerate() {
            self.shell_variable(&["builtin", "shell", "caller_environment", &at.to_string()], name);
        }
        self.check_shell_timeouts(raw);
        let rule = self.shell_rule(raw, &roots);
        if search.is_empty() {
            search = SEARCH.map(PathBuf::from).to_vec();
        }
        Some(Shell {
            roots,
            rule,
            search,
            read,
            environment,
            caller_environment: raw.caller_environment.0.clone(),
            landlock: landlock(raw),
            limits: limits(raw),
            launcher: Shell::own_program(),
        })
    }

    fn check_shell_timeouts(&mut self, raw: &raw::Shell) {
        if raw.timeout.get() > raw.max_timeout.get() {
            let what = "must not be more than `max_timeout`";
            let hint = "raise `max_timeout`, or lower this";
            self.error(&["builtin", "shell", "timeout"], what, hint);
        }
    }

    /// Returns the rule for permitted programs, and checks that it compiles.
    fn shell_rule(&mut self, raw: &raw::Shell, roots: &[ShellRoot]) -> Spec {
        let mut rule =
            Spec { allow_code_execution: raw.allow_code_execution.0.clone(), ..Spec::default() };
        for root in roots {
            rule.roots.push(root.path.display().to_string());
        }
        for (name, model) in &raw.models {
            rule.models.insert(name.clone(), ModelSpec::from(model));
        }
        if let Some(programs) = &raw.programs {
            rule.programs.clone_from(&programs.0);
        }
        if let Err(words) = Command::compile(&rule) {
            let key = ["builtin", "shell"];
            // The message quotes values, which may come from a reference to a secret.
            let words = match self.layers.get(&key) {
                Some(node) if !referenced(node) => words,
                _ => "has an invalid program, model or root".into(),
            };
            self.error(&key, words, "docs/tools.md explains the settings");
        }
        rule
    }

    fn shell_roots(&mut self, raw: &[raw::Root]) -> Vec<ShellRoot> {
        if raw.is_empty() || raw.len() > MAX_ROOTS {
            let what = format!("requires 1 to {MAX_ROOTS} folders");
            self.error(
                &["builtin", "shell", "roots"],
                what,
                "such as: roots: [{ path: ./project }]",
            );
        }
        let mut roots = Vec::new();
        for (at, root) in raw.iter().enumerate() {
            let at = at.to_string();
            let key = ["builtin", "shell", "roots", &at, "path"];
            let mut path = PathBuf::from(&root.path.0);
            // The configuration file's folder may have been named through `..`, but the rule
            // requires plain folders.
            if goes_up(&path)
                && let Ok(plain) = path.canonicalize()
            {
                path = plain;
            }
            if !path.is_absolute() || goes_up(&path) {
                self.error(
                    &key,
                    "must be the path of a folder, without `..`",
                    "it may be relative to the configuration file",
                );
                continue;
            }
            if !path.is_dir() {
                self.warning(
                    &key,
                    "there is no such folder",
                    "create it; until then the server fails",
                );
            }
            roots.push(ShellRoot { path, write: root.write.0 });
        }
        roots
    }

    fn shell_folders(&mut self, name: &str, list: &[String]) -> Vec<PathBuf> {
        let key = ["builtin", "shell", name];
        let mut paths = Vec::new();
        for (at, path) in list.iter().enumerate() {
            if !Path::new(path).is_absolute() || path.contains(':') {
                self.item_error(
                    &key,
                    at,
                    "must be an absolute path without `:`",
                    "such as /opt/tools/bin",
                );
            }
            paths.push(PathBuf::from(path));
        }
        paths
    }

    fn shell_environment(&mut self, raw: &BTreeMap<String, Text>) -> BTreeMap<String, String> {
        for (name, value) in raw {
            let key = ["builtin", "shell", "environment", name];
            if self.shell_variable(&key, name) && value.0.contains('\0') {
                self.error(&key, "must not contain NUL", "remove it");
            }
        }
        texts_of(raw)
    }

    /// Checks the name of a variable for programs. Returns whether it may be set.
    fn shell_variable(&mut self, key: &[&str], name: &str) -> bool {
        if !is_variable_name(name) {
            self.error(key, "is not a variable name", "use letters, digits and _");
            return false;
        }
        if REFUSED.contains(&name) || REFUSED_BEGINNINGS.iter().any(|begin| name.starts_with(begin))
        {
            let what = "would change which code programs run or load";
            self.error(key, what, "remove it; use `search` for the folders of programs");
            return false;
        }
        true
    }
}

fn goes_up(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}

fn landlock(raw: &raw::Shell) -> Landlock {
    match raw.landlock {
        raw::Landlock::Required => Landlock::Required,
        raw::Landlock::BestEffort => Landlock::BestEffort,
        raw::Landlock::Off => Landlock::Off,
    }
}

fn limits(raw: &raw::Shell) -> ShellLimits {
    ShellLimits {
        timeout: raw.timeout.duration(),
        max_timeout: raw.max_timeout.duration(),
        output_bytes: raw.output_size.size(),
        concurrent: raw.concurrent.size(),
        memory_bytes: raw.memory.get(),
        file_bytes: raw.file_size.get(),
        open_files: raw.open_files.get(),
        processes: raw.processes.get(),
    }
}

/// Returns whether a value at or below this node came from a reference. Recursion is bounded by the
/// configuration's maximum nesting.
fn referenced(node: &Node) -> bool {
    node.reference.is_some()
        || match &node.value {
            Value::List(list) => list.iter().any(referenced),
            Value::Map(map) => map.values().any(|entry| referenced(&entry.node)),
            _ => false,
        }
}

/// Converts the fields shared by models and submodels.
macro_rules! model {
    ($raw:expr, $subcommands:expr) => {
        ModelSpec {
            style: match $raw.style {
                raw::Style::Gnu => Style::Gnu,
                raw::Style::Words => Style::Words,
                raw::Style::Plain => Style::Plain,
            },
            // Only used by other servers: here git gets its settings from the gateway.
            begins_with: Vec::new(),
            flags: $raw.flags.0.clone(),
            operands: $raw.operands.0.clone(),
            need: $raw.need.0.clone(),
            operands_need: $raw.operands_need.0.clone(),
            first_operand_unless: $raw.first_operand_unless.0.clone(),
            subcommands: $subcommands,
        }
    };
}

impl From<&raw::Model> for ModelSpec {
    fn from(raw: &raw::Model) -> Self {
        let mut subcommands = BTreeMap::new();
        for (name, subcommand) in &raw.subcommands {
            subcommands.insert(name.clone(), Self::from(subcommand));
        }
        model!(raw, subcommands)
    }
}

impl From<&raw::Submodel> for ModelSpec {
    fn from(raw: &raw::Submodel) -> Self {
        model!(raw, BTreeMap::new())
    }
}
