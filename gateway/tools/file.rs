//! The `file` server: reads and changes files in configured folders. Each folder is held open, and
//! every access is relative to it, so that no path, link or rename leads outside. Executes nothing,
//! and never changes the roots themselves.

pub mod config;
mod delete;
mod encoding;
mod list;
mod media;
mod place;
mod read;
mod relocate;
mod resources;
mod root;
mod search;
mod stat;
mod walk;
mod write;

use std::sync::Arc;

use crate::server::ServerDefinition;
use config::Config;
use place::Files;

pub(crate) fn build(config: &Config) -> Result<ServerDefinition, String> {
    let files = Arc::new(Files::open(config)?);
    let mut roots = Vec::new();
    for root in &files.roots {
        let what = if root.write { "read and write" } else { "read only" };
        roots.push(format!("{} ({what})", root.path));
    }
    let instructions = format!(
        "Files in these folders: {}. Paths are absolute, or relative to the first folder. Call \
            `list` to look around and `search` to find something before you read.",
        roots.join(", ")
    );
    Ok(ServerDefinition {
        instructions,
        tools: vec![
            Box::new(read::Read(Arc::clone(&files))),
            Box::new(write::Write(Arc::clone(&files))),
            Box::new(list::List(Arc::clone(&files))),
            Box::new(stat::Stat(Arc::clone(&files))),
            Box::new(search::Search(Arc::clone(&files))),
            Box::new(relocate::Move(Arc::clone(&files))),
            Box::new(delete::Delete(Arc::clone(&files))),
        ],
        provider: Some(Arc::new(resources::Resources::new(files))),
        backing: None,
    })
}

#[cfg(test)]
mod tests;
