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
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lockgate_admission::spawn;
use lockgate_protocol::capabilities::Offers;
use lockgate_upstream::{BoxFuture, ListKind};
use parking_lot::Mutex;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;

use crate::file::root::{Mark, mark, reach, split_names};
use crate::provider::{
    ChangeNotifier, CompletionRequest, CompletionTarget, Contents, Provider, Watched,
};
use crate::server::ServerDefinition;
use crate::tool::Client;
use compile::{Compiled, ContentPlace, FoundContent};

/// Cache lifetime of configured content at clients.
const LASTING_MS: u64 = 5000;

pub(crate) fn build(config: &Config) -> Result<ServerDefinition, String> {
    let compiled = Compiled::new(config).map_err(|problem| problem.to_string())?;
    let folder =
        config.folder.as_ref().map(|path| Folder::open(path, config.file_size)).transpose()?;
    let content = Content {
        shared: Arc::new(Shared { compiled, folder, watched: Watched::default() }),
        teller: OnceLock::new(),
        watching: Mutex::default(),
        interval: config.check_interval,
    };
    Ok(ServerDefinition {
        instructions: "Resources and prompts that the operator of this gateway provides.".into(),
        provider: Some(Arc::new(content)),
        ..ServerDefinition::default()
    })
}

struct Content {
    shared: Arc<Shared>,
    teller: OnceLock<ChangeNotifier>,
    /// The task that polls files while there are subscribers.
    watching: Mutex<Option<JoinHandle<()>>>,
    interval: Duration,
}

struct Shared {
    compiled: Compiled,
    folder: Option<Folder>,
    watched: Watched<Option<Mark>>,
}

impl Drop for Content {
    fn drop(&mut self) {
        if let Some(task) = self.watching.lock().take() {
            task.abort();
        }
    }
}

impl Provider for Content {
    fn offers(&self) -> Offers {
        let compiled = &self.shared.compiled;
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
        let _ = self.teller.set(teller);
    }

    fn items(&self, kind: ListKind) -> Vec<Value> {
        let config = &self.shared.compiled.config;
        match kind {
            ListKind::Tools | ListKind::Skills => Vec::new(),
            ListKind::Resources => write_all(&config.resources, resource),
            ListKind::Templates => write_all(&config.templates, template),
            ListKind::Prompts => write_all(&config.prompts, prompt),
        }
    }

    fn prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a Map<String, Value>,
        _: Client<'a>,
    ) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move { self.shared.compiled.prompt(name, arguments) })
    }

    fn read<'a>(
        &'a self,
        uri: &'a str,
        _: Client<'a>,
    ) -> BoxFuture<'a, Result<Option<Contents>, String>> {
        Box::pin(async move {
            let Some(FoundContent { place, mime_type }) = self.shared.compiled.find(uri) else {
                return Ok(None);
            };
            let (part, lasting) = match place {
                ContentPlace::Text(text) => (("text", text), true),
                ContentPlace::Base64(text) => (("blob", text), true),
                ContentPlace::File(path) => {
                    match read_file(Arc::clone(&self.shared), path).await? {
                        Some(bytes) => (part(bytes), false),
                        None => return Ok(None),
                    }
                }
            };
            let mut item = json!({"uri": uri, "mimeType": mime_type});
            item[part.0] = part.1.into();
            let contents = Value::Array(vec![item]);
            Ok(Some(if lasting {
                Contents::lasting(contents, LASTING_MS)
            } else {
                Contents::fresh(contents)
            }))
        })
    }

    fn complete(&self, wanted: &CompletionRequest<'_>) -> Vec<String> {
        let mut values = match wanted.target {
            CompletionTarget::Prompt(name) => {
                self.shared.compiled.prompt_values(name, wanted.argument)
            }
            CompletionTarget::Resource(template) => {
                self.shared.compiled.template_values(template, wanted.argument)
            }
        };
        let typed = wanted.typed.to_lowercase();
        values.retain(|value| value.to_lowercase().starts_with(&typed));
        values
    }

    fn subscribe(&self, uri: &str) -> Result<(), String> {
        let Some(found) = self.shared.compiled.find(uri) else {
            return Err("resource not found".into());
        };
        // Configured content changes only with the configuration, which replaces the server.
        if !matches!(found.place, ContentPlace::File(_)) {
            return Ok(());
        }
        self.shared.watched.add(uri);
        let mut watching = self.watching.lock();
        let is_watching = matches!(&*watching, Some(task) if !task.is_finished());
        if !is_watching && let Some(teller) = self.teller.get() {
            *watching = Some(spawn(watch(Arc::clone(&self.shared), teller.clone(), self.interval)));
        }
        Ok(())
    }

    fn unsubscribe(&self, uri: &str) {
        if self.shared.watched.remove(uri)
            && let Some(task) = self.watching.lock().take()
        {
            task.abort();
        }
    }
}

impl Shared {
    /// Returns the attributes of a resource's file; `None` if there is no such file.
    fn mark(&self, uri: &str) -> Option<Mark> {
        let ContentPlace::File(path) = self.compiled.find(uri)?.place else { return None };
        let file = self.folder.as_ref()?.file(&path).ok()??;
        Some(mark(&fstat(&file).ok()?))
    }
}

/// Polls subscribed files, and notifies of changes.
async fn watch(shared: Arc<Shared>, teller: ChangeNotifier, interval: Duration) {
    let mut turns = tokio::time::interval(interval);
    turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        turns.tick().await;
        let looking = Arc::clone(&shared);
        let looked = tokio::task::spawn_blocking(move || {
            looking.watched.find_changed(|uri| looking.mark(uri))
        });
        let Ok(changed) = looked.await else { continue };
        let Some(server) = teller.upgrade() else { return };
        for uri in &changed {
            server.resource_updated(uri);
        }
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

/// Returns bytes as a member of `contents`: text if they are UTF-8, otherwise a blob.
fn part(bytes: Vec<u8>) -> (&'static str, String) {
    match String::from_utf8(bytes) {
        Ok(text) => ("text", text),
        Err(error) => ("blob", STANDARD.encode(error.as_bytes())),
    }
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
    let mut arguments = Vec::new();
    for argument in &prompt.arguments {
        let words = argument::described(argument);
        let mut item = json!({"name": argument.name, "required": argument.required});
        described(&mut item, argument.title.as_deref(), Some(&words));
        arguments.push(item);
    }
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
        match open(path, flags, Mode::empty()) {
            Ok(descriptor) => Ok(Self { descriptor, most }),
            Err(error) => Err(format!("folder: `{}`: {error}", path.display())),
        }
    }

    /// Returns a file's bytes; `None` if there is no such file.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        let Some(file) = self.file(path)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let file = std::fs::File::from(file);
        let bound = u64::try_from(self.most).unwrap_or(u64::MAX).saturating_add(1);
        if let Err(error) = file.take(bound).read_to_end(&mut bytes) {
            return Err(format!("the file cannot be read: {}", error.kind()));
        }
        if bytes.len() > self.most {
            return Err(format!("the file has more than {} bytes", self.most));
        }
        Ok(Some(bytes))
    }

    fn file(&self, path: &str) -> Result<Option<OwnedFd>, String> {
        let file = match reach(&self.descriptor, &split_names(path), OFlags::RDONLY) {
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
