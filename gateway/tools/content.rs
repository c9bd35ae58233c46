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

use std::collections::BTreeMap;
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

use crate::provider::{ChangeNotifier, CompletionRequest, CompletionTarget, Contents, Provider};
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
        shared: Arc::new(Shared { compiled, folder, watched: Mutex::default() }),
        teller: OnceLock::new(),
        watching: Mutex::default(),
        interval: config.check_interval,
    };
    Ok(ServerDefinition {
        instructions: "Resources and prompts that the operator of this gateway provides.".into(),
        tools: Vec::new(),
        provider: Some(Arc::new(content)),
        backing: None,
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
    /// Subscribed files by URI, with their attributes at the last poll.
    watched: Mutex<BTreeMap<String, (String, Option<Print>)>>,
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
        let ContentPlace::File(path) = found.place else { return Ok(()) };
        self.shared.watched.lock().insert(uri.to_owned(), (path, None));
        let mut watching = self.watching.lock();
        let is_watching = matches!(&*watching, Some(task) if !task.is_finished());
        if !is_watching && let Some(teller) = self.teller.get() {
            *watching = Some(spawn(watch(Arc::clone(&self.shared), teller.clone(), self.interval)));
        }
        Ok(())
    }

    fn unsubscribe(&self, uri: &str) {
        let mut watched = self.shared.watched.lock();
        watched.remove(uri);
        if watched.is_empty()
            && let Some(task) = self.watching.lock().take()
        {
            task.abort();
        }
    }
}

/// Polls subscribed files, and notifies of changes.
async fn watch(shared: Arc<Shared>, teller: ChangeNotifier, interval: Duration) {
    let mut turns = tokio::time::interval(interval);
    turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        turns.tick().await;
        let mut files = Vec::new();
        for (uri, (path, _)) in shared.watched.lock().iter() {
            files.push((uri.clone(), path.clone()));
        }
        let looking = Arc::clone(&shared);
        let looked = tokio::task::spawn_blocking(move || {
            let mut looked = Vec::new();
            for (uri, path) in files {
                let print = match &looking.folder {
                    Some(folder) => folder.print(&path),
                    None => Print::default(),
                };
                looked.push((uri, print));
            }
            looked
        });
        let Ok(looked) = looked.await else { continue };
        let mut changed = Vec::new();
        {
            let mut watched = shared.watched.lock();
            for (uri, print) in looked {
                // The first poll only records the current state.
                if let Some((_, seen)) = watched.get_mut(&uri)
                    && let Some(before) = seen.replace(print)
                    && before != print
                {
                    changed.push(uri);
                }
            }
        }
        for uri in &changed {
            teller.updated(uri);
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

/// Maximum number of attempts while the tree changes during the lookup.
#[cfg(target_os = "linux")]
const MAX_TRIES: usize = 8;

struct Folder {
    descriptor: OwnedFd,
    most: usize,
}

/// A file's attributes, which differ for another file or changed content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Print {
    there: bool,
    inode: u64,
    size: i64,
    seconds: i64,
    nanoseconds: i64,
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

    /// Returns the attributes of a file; the default for missing files.
    fn print(&self, path: &str) -> Print {
        let Ok(Some(file)) = self.file(path) else { return Print::default() };
        let Ok(stat) = fstat(&file) else { return Print::default() };
        Print {
            there: true,
            inode: stat.st_ino,
            size: stat.st_size,
            seconds: stat.st_mtime,
            #[allow(clippy::useless_conversion, reason = "its type differs between systems")]
            nanoseconds: i64::try_from(stat.st_mtime_nsec).unwrap_or(0),
        }
    }

    fn file(&self, path: &str) -> Result<Option<OwnedFd>, String> {
        let file = match self.find(path) {
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

    /// Opens a file. Never blocks on a pipe or device.
    #[cfg(target_os = "linux")]
    fn find(&self, path: &str) -> Result<OwnedFd, Errno> {
        use rustix::fs::{ResolveFlags, openat2};
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..MAX_TRIES {
            match openat2(&self.descriptor, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other,
            }
        }
        Err(Errno::AGAIN)
    }

    /// Opens a file. Without `openat2`, links are not followed.
    #[cfg(not(target_os = "linux"))]
    fn find(&self, path: &str) -> Result<OwnedFd, Errno> {
        use rustix::fs::openat;
        let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
        let Ok(mut here) = self.descriptor.try_clone() else { return Err(Errno::MFILE) };
        while let Some(part) = parts.next() {
            if matches!(part, "." | "..") {
                return Err(Errno::XDEV);
            }
            let last = parts.peek().is_none();
            let kind = if last { OFlags::NONBLOCK | OFlags::NOCTTY } else { OFlags::DIRECTORY };
            here = openat(
                &here,
                part,
                OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | kind,
                Mode::empty(),
            )?;
        }
        Ok(here)
    }
}

#[cfg(test)]
mod tests;
