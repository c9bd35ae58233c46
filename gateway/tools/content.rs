//! The `content` server: resources and prompts declared in the operator's configuration. Callers'
//! values fill placeholders in texts and select files below one folder; they never become a
//! message, a role or a path.

mod argument;
mod compile;
mod config;
mod template;

pub use config::{
    Argument, ArgumentKind, Config, Message, Problem, Prompt, Resource, Role, Template,
};

use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use lockgate_admission::spawn;
use lockgate_protocol::capabilities::Offers;
use lockgate_upstream::{BoxFuture, ListKind};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use serde_json::{Map, Value, json};

use crate::file::root::{Mark, mark, reach, split_names};
use crate::provider::{
    ChangeNotifier, Changed, CompletionTarget, Contents, Provider, Watched, add_bytes, follow,
};
use crate::server::ServerDefinition;
use compile::{Compiled, ContentPlace, FoundContent};

/// Cache lifetime of configured content at clients.
const LASTING_MS: u64 = 5000;

pub(crate) fn build(config: &Config) -> Result<ServerDefinition, String> {
    let compiled = Compiled::new(config).map_err(|problem| problem.to_string())?;
    let folder =
        config.folder.as_ref().map(|path| Folder::open(path, config.file_size)).transpose()?;
    let content = Content(Arc::new(Shared { compiled, folder, watched: Arc::default() }));
    Ok(ServerDefinition {
        instructions: "Resources and prompts that the operator of this gateway provides.".into(),
        provider: Some(Arc::new(content)),
        ..ServerDefinition::default()
    })
}

struct Content(Arc<Shared>);

struct Shared {
    compiled: Compiled,
    folder: Option<Folder>,
    watched: Arc<Watched<Option<Mark>>>,
}

impl Provider for Content {
    fn offers(&self) -> Offers {
        let compiled = &self.0.compiled;
        let resources =
            !compiled.config.resources.is_empty() || !compiled.config.templates.is_empty();
        Offers {
            prompts: !compiled.config.prompts.is_empty(),
            resources,
            subscribe: resources,
            completions: true,
            ..Offers::default()
        }
    }

    fn attach(&self, teller: ChangeNotifier) {
        if self.0.folder.is_some() {
            let shared = Arc::downgrade(&self.0);
            let watched = Arc::clone(&self.0.watched);
            let interval = self.0.compiled.config.check_interval;
            spawn(follow(shared, watched, teller, interval, Shared::poll));
        }
    }

    fn items(&self, kind: ListKind) -> Vec<Value> {
        let config = &self.0.compiled.config;
        match kind {
            ListKind::Tools | ListKind::Skills => Vec::new(),
            ListKind::Resources => write_all(&config.resources, resource),
            ListKind::Templates => write_all(&config.templates, template),
            ListKind::Prompts => write_all(&config.prompts, prompt),
        }
    }

    fn prompt(&self, name: &str, arguments: &Map<String, Value>) -> Result<Value, String> {
        self.0.compiled.prompt(name, arguments)
    }

    fn read<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<Option<Contents>, String>> {
        Box::pin(async move {
            let Some(FoundContent { place, mime_type }) = self.0.compiled.find(uri) else {
                return Ok(None);
            };
            let mut item = json!({"uri": uri, "mimeType": mime_type});
            match place {
                ContentPlace::Text(text) => item["text"] = text.into(),
                ContentPlace::Base64(text) => item["blob"] = text.into(),
                ContentPlace::File(path) => {
                    let Some(bytes) = read_file(Arc::clone(&self.0), path).await? else {
                        return Ok(None);
                    };
                    add_bytes(&mut item, bytes);
                    return Ok(Some(Contents::fresh(json!([item]))));
                }
            }
            Ok(Some(Contents::lasting(json!([item]), LASTING_MS)))
        })
    }

    fn values(&self, target: CompletionTarget<'_>, argument: &str) -> Vec<String> {
        match target {
            CompletionTarget::Prompt(name) => self.0.compiled.prompt_values(name, argument),
            CompletionTarget::Resource(template) => {
                self.0.compiled.template_values(template, argument)
            }
        }
    }

    fn subscribe(&self, uri: &str) -> Result<(), String> {
        let found = self.0.compiled.find(uri).ok_or("resource not found")?;
        // Configured content changes only with the configuration, which replaces the server.
        if matches!(found.place, ContentPlace::File(_)) {
            self.0.watched.add(uri);
        }
        Ok(())
    }

    fn unsubscribe(&self, uri: &str) {
        self.0.watched.remove(uri);
    }
}

impl Shared {
    fn poll(&self) -> Changed {
        Changed { resources: self.watched.find_changed(|uri| self.mark(uri)), lists: false }
    }

    /// Returns the attributes of a resource's file; `None` if there is no such file.
    fn mark(&self, uri: &str) -> Option<Mark> {
        let ContentPlace::File(path) = self.compiled.find(uri)?.place else { return None };
        let file = self.folder.as_ref()?.file(&path).ok()??;
        Some(mark(&fstat(&file).ok()?))
    }
}

/// Reads a file on a blocking thread; `None` if there is no such file.
async fn read_file(shared: Arc<Shared>, path: String) -> Result<Option<Vec<u8>>, String> {
    let reading = tokio::task::spawn_blocking(move || match &shared.folder {
        Some(folder) => folder.read(&path),
        None => Ok(None),
    });
    reading.await.unwrap_or_else(|_| Err("the resource cannot be read".into()))
}

fn write_all<T>(all: &[T], write: fn(&T) -> Value) -> Vec<Value> {
    all.iter().map(write).collect()
}

fn resource(resource: &Resource) -> Value {
    let mut item =
        json!({"uri": resource.uri, "name": resource.name, "mimeType": resource.mime_type()});
    described(&mut item, resource.title.as_deref(), resource.description.as_deref());
    item
}

fn template(template: &Template) -> Value {
    let mut item = json!({
        "uriTemplate": template.template,
        "name": template.name,
        "mimeType": template.mime_type(),
    });
    described(&mut item, template.title.as_deref(), template.description.as_deref());
    item
}

fn prompt(prompt: &Prompt) -> Value {
    let arguments = write_all(&prompt.arguments, |argument| {
        let words = argument::described(argument);
        let mut item = json!({"name": argument.name, "required": argument.required});
        described(&mut item, argument.title.as_deref(), Some(&words));
        item
    });
    let mut item = json!({"name": prompt.name, "arguments": arguments});
    described(&mut item, prompt.title.as_deref(), prompt.description.as_deref());
    item
}

fn described(item: &mut Value, title: Option<&str>, description: Option<&str>) {
    for (key, words) in [("title", title), ("description", description)] {
        if let Some(words) = words
            && !words.is_empty()
        {
            item[key] = words.into();
        }
    }
}

// Files below a folder that is held open. No path leads outside: not through `..`, a link, or a
// concurrent change. Access is read-only, by path only.

struct Folder {
    descriptor: OwnedFd,
    most: usize,
}

impl Folder {
    fn open(path: &Path, most: usize) -> Result<Self, String> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let descriptor = open(path, flags, Mode::empty())
            .map_err(|error| format!("folder: `{}`: {error}", path.display()))?;
        Ok(Self { descriptor, most })
    }

    /// Returns a file's bytes; `None` if there is no such file.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        let Some(file) = self.file(path)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let file = std::fs::File::from(file);
        let bound = u64::try_from(self.most).unwrap_or(u64::MAX).saturating_add(1);
        let read = file.take(bound).read_to_end(&mut bytes);
        read.map_err(|error| format!("the file cannot be read: {}", error.kind()))?;
        if bytes.len() > self.most {
            return Err(format!("the file has more than {} bytes", self.most));
        }
        Ok(Some(bytes))
    }

    fn file(&self, path: &str) -> Result<Option<OwnedFd>, String> {
        let file = match reach(&self.descriptor, &split_names(path)) {
            Ok(file) => file,
            // A path that leads outside is reported as missing.
            Err(
                Errno::NOENT
                | Errno::NOTDIR
                | Errno::XDEV
                | Errno::LOOP
                | Errno::NAMETOOLONG
                | Errno::INVAL,
            ) => {
                return Ok(None);
            }
            Err(error) => return Err(format!("the file cannot be opened: {error}")),
        };
        let stat =
            fstat(&file).map_err(|error| format!("the file cannot be inspected: {error}"))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Some(file)),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
