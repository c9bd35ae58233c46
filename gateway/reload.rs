//! Saving a configuration file takes effect at once: only what differs changes. A broken file changes nothing, and the
//! log says why. Other files in the same folders, such as an audit trail or a database, cost nothing while they are read or
//! written, and a look at the folder when they are closed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use inotify::{EventStream, Inotify, WatchMask};
use lockgate_config::{Config, Loaded, Sources};
use lockgate_telemetry::Guard;

use crate::app::App;

/// Writes within this time are read once.
const SETTLE: Duration = Duration::from_millis(200);

/// Changed policies that are told one by one.
const CHANGES: usize = 50;

/// Watches the files that the configuration was read from, for as long as the process runs.
pub(crate) fn watch(app: Arc<App>, loaded: Loaded, mut sources: Sources, log: Guard) {
    // A file that was found must stay: without it there would be no keys and no policy.
    sources.config = loaded.file.clone().or(sources.config);
    if loaded.files.is_empty() {
        return;
    }
    tokio::spawn(async move {
        let mut watcher = match Watcher::new() {
            Ok(watcher) => watcher,
            Err(error) => return tracing::warn!(%error, "configuration files are not watched; restart after a change"),
        };
        let mut current = loaded.config;
        let mut files = loaded.files;
        let mut folders = watcher.follow(&files);
        // What was changed between reading the files and watching them is seen at the first event.
        let mut seen = Look::default();
        while watcher.changed().await.is_some() {
            let look = Look::at(&files, &folders);
            if look == seen {
                continue;
            }
            seen = look;
            let read = sources.clone();
            // Compiling hundreds of policies takes long enough to keep calls waiting.
            let Ok(new) = tokio::task::spawn_blocking(move || lockgate_config::load(&read)).await else {
                tracing::error!("the configuration stays as it was, because reading the new one failed");
                continue;
            };
            match new {
                Err(report) => {
                    tracing::error!("the configuration stays as it was, because the new one has mistakes");
                    for mistake in &report.problems {
                        tracing::error!(%mistake, "a mistake in the new configuration");
                    }
                }
                Ok(new) if new.config == current => {}
                Ok(new) if !take_over(&app, &log, &current, &new.config) => {}
                Ok(new) => {
                    folders = watcher.follow(&new.files);
                    if files != new.files {
                        files = new.files;
                        seen = Look::default();
                    }
                    current = new.config;
                }
            }
        }
        tracing::warn!("configuration files are not watched any more; restart after a change");
    });
}

/// Whether the new configuration is in force now; the log says what changed, or why nothing did.
fn take_over(app: &App, log: &Guard, old: &Config, new: &Config) -> bool {
    say_what_waits(old, new);
    let policies = lockgate_policy::differences(&old.policy, &new.policy);
    if let Err(error) = app.apply(new) {
        tracing::error!(%error, "the configuration stays as it was");
        return false;
    }
    if let Err(error) = log.set_level(&new.telemetry.level) {
        tracing::warn!(%error, "the log level stays as it was");
    }
    tracing::info!(servers = new.servers.len(), "configuration reloaded");
    for change in policies.iter().take(CHANGES) {
        tracing::info!(change, "policy changed");
    }
    if let Some(more) = policies.len().checked_sub(CHANGES).filter(|more| *more > 0) {
        tracing::info!(more, "more policies changed");
    }
    true
}

/// Folders that the kernel watches: editors and Kubernetes replace files rather than writing into them.
struct Watcher(EventStream<[u8; 4096]>);

impl Watcher {
    /// Needs a runtime.
    fn new() -> io::Result<Self> {
        Inotify::init()?.into_event_stream([0; 4096]).map(Self)
    }

    /// Watches the folders of these files, too.
    fn follow(&self, files: &[PathBuf]) -> BTreeSet<PathBuf> {
        // Opening, reading and writing are left out: each use of a database beside the configuration would wake somebody.
        let events = WatchMask::CLOSE_WRITE
            | WatchMask::CREATE
            | WatchMask::DELETE
            | WatchMask::MOVED_FROM
            | WatchMask::MOVED_TO
            | WatchMask::ATTRIB;
        let folders: BTreeSet<PathBuf> = files.iter().filter_map(|f| f.parent().map(Path::to_path_buf)).collect();
        for folder in &folders {
            // One that is watched already stays as it is.
            if let Err(error) = self.0.watches().add(folder, events) {
                tracing::warn!(folder = %folder.display(), %error, "this folder is not watched");
            }
        }
        folders
    }

    /// Waits until something has changed, and a little longer. Whatever happened, the folders have to be looked at.
    async fn changed(&mut self) -> Option<()> {
        self.0.next().await?.ok()?;
        tokio::time::sleep(SETTLE).await;
        while let Some(Some(Ok(_))) = self.0.next().now_or_never() {}
        Some(())
    }
}

/// What tells a change of the configuration from writes to other files beside it: the state of each file that was read, and
/// the names in each folder, where new files may belong to the configuration.
#[derive(Debug, Default, PartialEq, Eq)]
struct Look {
    files: BTreeMap<PathBuf, Option<State>>,
    names: BTreeSet<(PathBuf, OsString)>,
}

/// Which file it is, its size in bytes, and when its inode was last changed, which also tells a write of the same size.
#[derive(Debug, PartialEq, Eq)]
struct State {
    inode: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl Look {
    #[allow(clippy::disallowed_methods, reason = "the names beside the configuration, to see new ones")]
    fn at(files: &[PathBuf], folders: &BTreeSet<PathBuf>) -> Self {
        let state = |path: &PathBuf| {
            let data = std::fs::metadata(path).ok()?;
            let (inode, changed) = ((data.dev(), data.ino()), (data.ctime(), data.ctime_nsec()));
            Some(State { inode, size: data.size(), changed })
        };
        let names = |folder: &PathBuf| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| (folder.clone(), entry.file_name())).collect::<Vec<_>>()
        };
        Self {
            files: files.iter().map(|path| (path.clone(), state(path))).collect(),
            names: folders.iter().flat_map(names).collect(),
        }
    }
}

/// What a running process cannot change.
fn say_what_waits(old: &Config, new: &Config) {
    let waits = [
        (old.listener != new.listener, "listen, http"),
        (old.egress != new.egress, "egress"),
        (old.admin != new.admin, "admin"),
        (old.telemetry.audit != new.telemetry.audit, "audit"),
        (
            old.telemetry.otlp != new.telemetry.otlp || old.telemetry.format != new.telemetry.format,
            "log.format, telemetry",
        ),
    ];
    for (_, keys) in waits.iter().filter(|(changed, _)| *changed) {
        tracing::warn!("{keys}: this change takes effect at the next start");
    }
}

#[cfg(test)]
mod tests;
