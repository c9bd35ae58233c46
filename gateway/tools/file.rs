//! The `file` server: reads and changes files in configured folders. Each folder is held open, and
//! every access is relative to it, so that no path, link or rename leads outside. Executes nothing,
//! and never changes the roots themselves.

pub mod config;
mod entries;
mod list;
mod place;
mod read;
mod resources;
pub(crate) mod root;
mod search;
mod walk;
mod write;

use std::sync::Arc;

use crate::server::ServerDefinition;
use crate::tool::{AnyTool, Arguments, Client, Effect, Output, Tool, ToolError, ToolSpec};
use config::Config;
pub(crate) use place::media_type;
use place::{FileCall, Files};

type Work = fn(&FileCall<'_>) -> Result<Output, ToolError>;

/// A tool on the configured folders. Its work runs on a blocking thread.
struct FileTool {
    files: Arc<Files>,
    spec: ToolSpec,
    work: Work,
}

impl Tool for FileTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    async fn run(&self, arguments: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        client.progress(0, None, None);
        let files = Arc::clone(&self.files);
        let work = self.work;
        let run = self
            .files
            .blocking
            .run(move |stop| work(&FileCall { files: &files, arguments: &arguments, stop }));
        run.await
    }
}

/// Completes a spec with what all file tools share.
fn tool(files: &Arc<Files>, spec: fn(&Files) -> ToolSpec, work: Work) -> Box<dyn AnyTool> {
    let spec = spec(files).tags(&["files"]).timeout(files.config.timeout);
    let spec = match spec.effect {
        Effect::Reads => spec.permissions(&["file:read"]),
        Effect::Writes { .. } => spec.permissions(&["file:write"]),
    };
    Box::new(FileTool { files: Arc::clone(files), spec, work })
}

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
            tool(&files, read::spec, read::read),
            tool(&files, write::spec, write::write),
            tool(&files, list::list_spec, list::list),
            tool(&files, list::stat_spec, list::stat),
            tool(&files, search::spec, search::search),
            tool(&files, entries::move_spec, entries::relocate),
            tool(&files, entries::delete_spec, entries::delete),
        ],
        provider: Some(Arc::new(resources::Resources::new(files))),
        ..ServerDefinition::default()
    })
}

#[cfg(test)]
mod tests;
