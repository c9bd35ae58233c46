//! Files as `file://` resources: a bounded list that is refreshed periodically, reads by URI, and
//! subscriptions based on polling.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use lockgate_admission::spawn;
use lockgate_protocol::capabilities::Offers;
use lockgate_text::{date, percent};
use lockgate_upstream::{BoxFuture, ListKind};
use parking_lot::Mutex;
use rustix::fs::{Stat, fstat};
use serde_json::{Value, json};

use super::place::{FilePlace, Files, media_type};
use super::read;
use super::root::{Mark, mark};
use super::walk::{Next, Walk};
use crate::blocking::CancellationToken;
use crate::provider::{ChangeNotifier, Changed, Contents, Provider, Watched, add_bytes, follow};
use crate::tool::ToolError;

/// Polling interval of subscribed files, and number of polls between two refreshes of the list.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const POLLS_PER_LIST: u32 = 15;

pub(super) struct Resources(Arc<Inner>);

struct Inner {
    files: Arc<Files>,
    listed: Mutex<Vec<Value>>,
    watched: Arc<Watched<Option<Mark>>>,
    polls: AtomicU32,
}

impl Resources {
    pub(super) fn new(files: Arc<Files>) -> Self {
        let listed = Mutex::default();
        let watched = Arc::default();
        Self(Arc::new(Inner { files, listed, watched, polls: AtomicU32::new(0) }))
    }
}

impl Provider for Resources {
    fn offers(&self) -> Offers {
        Offers { resources: true, subscribe: true, list_changed: true, ..Offers::default() }
    }

    fn attach(&self, teller: ChangeNotifier) {
        let watched = Arc::clone(&self.0.watched);
        spawn(follow(Arc::downgrade(&self.0), watched, teller, POLL_INTERVAL, Inner::poll));
    }

    fn items(&self, kind: ListKind) -> Vec<Value> {
        match kind {
            ListKind::Resources => self.0.listed.lock().clone(),
            ListKind::Templates => {
                self.0.files.roots.iter().map(|root| template(&root.path)).collect()
            }
            ListKind::Tools | ListKind::Prompts | ListKind::Skills => Vec::new(),
        }
    }

    fn read<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<Option<Contents>, String>> {
        Box::pin(async move {
            let Ok(place) = self.0.place(uri) else { return Ok(None) };
            let files = Arc::clone(&self.0.files);
            let uri = uri.to_owned();
            let blocking = &self.0.files.blocking;
            blocking.run(move |_| contents(&files, &place, &uri)).await.map_err(|error| error.0)
        })
    }

    fn subscribe(&self, uri: &str) -> Result<(), String> {
        // An unreadable file is reported as missing, regardless of the reason. The check is as
        // short as the start of any read, so it may block.
        self.0.open(uri).map_err(|error| error.0)?;
        self.0.watched.add(uri);
        Ok(())
    }

    fn unsubscribe(&self, uri: &str) {
        self.0.watched.remove(uri);
    }
}

fn template(root: &str) -> Value {
    let start = if root == "/" { String::new() } else { encoded(root) };
    json!({
        "uriTemplate": format!("file://{start}/{{+path}}"),
        "name": root,
        "title": format!("Files in {root}"),
        "description": "A file in this folder; `path` is its path below it, percent-encoded.",
    })
}

/// Reads a resource. Files that cannot be opened, or are not regular, are reported as missing.
fn contents(files: &Files, place: &FilePlace, uri: &str) -> Result<Option<Contents>, ToolError> {
    let Ok((file, stat)) = read::open(files, place) else { return Ok(None) };
    let limit = files.config.resource_size;
    let size = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
    if size > limit {
        let instead = "read it in parts with the tool `read`";
        let path = &place.path;
        return Err(ToolError(format!(
            "{path} has {size} bytes, more than a resource may have ({limit}): {instead}"
        )));
    }
    let bytes = place.explain(read::part(&file, 0, limit))?;
    let mut item = json!({"uri": uri, "mimeType": media_type(&place.path)});
    add_bytes(&mut item, bytes);
    Ok(Some(Contents::fresh(json!([item]))))
}

impl Inner {
    /// Resolves a `file:` URI. Bare paths are not resources.
    fn place(&self, uri: &str) -> Result<FilePlace, ToolError> {
        if uri.starts_with("file:///") {
            self.files.find(uri)
        } else {
            Err(ToolError::new("there is no such resource"))
        }
    }

    fn open(&self, uri: &str) -> Result<(OwnedFd, Stat), ToolError> {
        read::open(&self.files, &self.place(uri)?)
    }

    /// Returns the current attributes of a file; `None` if it cannot be opened.
    fn look(&self, uri: &str) -> Option<Mark> {
        let place = self.place(uri).ok()?;
        Some(mark(&fstat(self.files.reach(&place).ok()?).ok()?))
    }

    fn poll(&self) -> Changed {
        let lists = self.polls.fetch_add(1, Relaxed).is_multiple_of(POLLS_PER_LIST);
        let resources = self.watched.find_changed(|uri| self.look(uri));
        Changed { resources, lists: lists && self.list() }
    }

    /// Refreshes the list. Returns whether it has changed.
    fn list(&self) -> bool {
        let mut items = Vec::new();
        let most = self.files.config.resources;
        let stop = CancellationToken::default();
        for root in &self.files.roots {
            let place =
                FilePlace { root: Arc::clone(root), names: Vec::new(), path: root.path.clone() };
            // Enough entries to find files among folders, but few enough for a periodic walk.
            let mut walk = Walk::new(&stop, most.saturating_mul(4));
            let _ = walk.run(&place, &mut |found| {
                let path = place.below(found.names);
                if found.name().starts_with('.') || !self.files.is_readable(&path) {
                    return Ok(Next::Past);
                }
                if items.len() >= most {
                    return Ok(Next::End);
                }
                if found.is_file() && self.files.find(&path).is_ok() {
                    items.extend(self.item(&path, found.names, &found.stat));
                }
                Ok(Next::On)
            });
        }
        let mut listed = self.listed.lock();
        std::mem::replace(&mut *listed, items) != *listed
    }

    /// Returns an item of the list; `None` if no valid URI exists for the name.
    fn item(&self, path: &str, names: &[String], stat: &Stat) -> Option<Value> {
        let uri = format!("file://{}", encoded(path));
        self.files.find(&uri).ok()?;
        #[allow(
            clippy::unnecessary_cast,
            trivial_numeric_casts,
            reason = "the field has other types elsewhere"
        )]
        let modified = date::of_seconds(stat.st_mtime as i64);
        Some(json!({
            "uri": uri,
            "name": names.join("/"),
            "title": names.last(),
            "mimeType": media_type(path),
            "description": format!("The file {path}"),
            "size": stat.st_size,
            "annotations": {"lastModified": modified},
        }))
    }
}

fn encoded(path: &str) -> String {
    percent::encode(path, |byte| {
        byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=:@".contains(&byte)
    })
}
