//! Saving a configuration file takes effect at once: only what differs changes. A broken file changes nothing, and the
//! log says why. Links are followed, and folders that come back. Other files in the same folders, such as an audit trail or
//! a database, cost nothing while they are read or written, and a look at the folder when they are closed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use inotify::{EventStream, Inotify, WatchDescriptor, WatchMask};
use lockgate_authn::key::Key;
use lockgate_config::{Config, Loaded, Place, Problem, Report, Severity, Sources};
use lockgate_telemetry::Guard;

use crate::app::App;

/// Writes within this time are read once.
const SETTLE: Duration = Duration::from_millis(200);

/// A look at the files without any event: network file systems tell nobody what happens elsewhere.
const ANYWAY: Duration = Duration::from_secs(30);

/// Most looks in a row at what changes while it is looked at.
const ROUNDS: usize = 4;

/// Most folders that are watched, and links followed on one way.
const FOLDERS: usize = 4096;
const LINKS: usize = 40;

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
        let (mut current, mut good, mut files) = (loaded.config, loaded.files.clone(), loaded.files);
        watcher.follow(&files);
        // What was changed between reading the files and watching them is seen at the first look.
        let (mut seen, mut told) = (Look::default(), None);
        while let Some(woken) = watcher.changed().await {
            // Other files than before are watched first and then read once more: they may have been changed in between.
            for _ in 0..ROUNDS {
                watcher.follow(&files);
                let look = Look::at(&files);
                let changed = look != seen;
                // What is wrong may be mended where nobody looks, but not each event beside it is worth a try.
                if !changed && (woken || told.is_none()) {
                    break;
                }
                seen = look;
                let read = sources.clone();
                // Compiling hundreds of policies takes long enough to keep calls waiting.
                let Ok(new) = tokio::task::spawn_blocking(move || lockgate_config::load(&read)).await else {
                    tracing::error!("the configuration stays as it was, because reading the new one failed");
                    break;
                };
                let next = match new {
                    Err(report) => {
                        let words = report.to_string();
                        if told.replace(words.clone()).is_none_or(|told| changed || told != words) {
                            say_what_is_wrong(&report);
                        }
                        take_keys_away(&app, &log, &mut current, &sources.cwd);
                        good.iter().cloned().chain(wrong(&report, &sources.cwd)).collect()
                    }
                    Ok(new) => {
                        say_what_is_good_again(&mut told);
                        if new.config != current && take_over(&app, &log, &current, &new.config) {
                            current = new.config;
                        }
                        good = new.files;
                        good.clone()
                    }
                };
                if files == next {
                    break;
                }
                files = next;
            }
        }
        tracing::warn!("configuration files are not watched any more; restart after a change");
    });
}

fn say_what_is_good_again(told: &mut Option<String>) {
    if told.take().is_some() {
        tracing::info!("the configuration has no mistakes any more");
    }
}

fn say_what_is_wrong(report: &Report) {
    tracing::error!("the configuration stays as it was, because the new one has mistakes");
    for problem in &report.problems {
        match problem.severity {
            Severity::Error => tracing::error!(mistake = %problem, "a mistake in the new configuration"),
            Severity::Warning => tracing::warn!(%problem, "beside the mistakes"),
        }
    }
}

/// Revoking a key does not wait until a policy is mended.
fn take_keys_away(app: &App, log: &Guard, current: &mut Config, cwd: &Path) {
    let fewer = taken_away(current, cwd).filter(|fewer| fewer != current);
    if let Some(fewer) = fewer.filter(|fewer| take_over(app, log, current, fewer)) {
        tracing::warn!("keys were taken out of force, and nothing else of the new configuration taken");
        *current = fewer;
    }
}

/// What is in force without what the keys file takes away. Nothing is added. Nothing when the file itself cannot be read.
fn taken_away(current: &Config, cwd: &Path) -> Option<Config> {
    let file = cwd.join(current.authn.keys_file.as_ref()?);
    let now = lockgate_config::keys::load(&file, cwd).ok()?;
    let left = |old: &Key| {
        let new = now.iter().find(|new| new.id == old.id && new.hash == old.hash)?;
        let expires = old.expires.into_iter().chain(new.expires).min();
        Some(Key { expires, revoked: old.revoked.or(new.revoked), ..old.clone() })
    };
    let mut fewer = current.clone();
    fewer.authn.keys = current.authn.keys.as_ref().map(|keys| keys.iter().filter_map(left).collect());
    Some(fewer)
}

/// The files that have mistakes. They may be new ones.
fn wrong(report: &Report, cwd: &Path) -> BTreeSet<PathBuf> {
    let file = |problem: &Problem| match &problem.place {
        Place::File { path, .. } => Some(cwd.join(path.as_path())),
        _ => None,
    };
    report.problems.iter().filter_map(file).collect()
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
struct Watcher {
    events: EventStream<[u8; 4096]>,
    watched: BTreeMap<PathBuf, WatchDescriptor>,
    /// What was told to be not watched.
    told: BTreeSet<PathBuf>,
}

impl Watcher {
    /// Needs a runtime.
    fn new() -> io::Result<Self> {
        let events = Inotify::init()?.into_event_stream([0; 4096])?;
        Ok(Self { events, watched: BTreeMap::new(), told: BTreeSet::new() })
    }

    /// Watches where these files are, also those that are not there yet, and nothing else any more.
    fn follow(&mut self, files: &[PathBuf]) {
        let mut ways = Ways::of(files);
        for _ in 0..ROUNDS {
            self.watch(&ways);
            // What was changed before it was watched.
            let now = Ways::of(files);
            if now == ways {
                break;
            }
            ways = now;
        }
    }

    fn watch(&mut self, ways: &Ways) {
        // Opening, reading and writing are left out: each use of a database beside the configuration would wake somebody.
        let names = WatchMask::CLOSE_WRITE
            | WatchMask::CREATE
            | WatchMask::DELETE
            | WatchMask::MOVED_FROM
            | WatchMask::MOVED_TO
            | WatchMask::ATTRIB;
        let itself = WatchMask::MOVE_SELF | WatchMask::DELETE_SELF | WatchMask::ONLYDIR | WatchMask::MASK_ADD;
        let mut watched = BTreeMap::new();
        for (folder, matters) in &ways.folders {
            // One that is watched already stays as it is.
            match self.events.watches().add(folder, if *matters { names | itself } else { itself }) {
                Ok(watch) => {
                    self.told.remove(folder);
                    watched.insert(folder.clone(), watch);
                }
                Err(error) if *matters && self.told.len() < FOLDERS && self.told.insert(folder.clone()) => {
                    tracing::warn!(folder = %folder.display(), %error, "this folder is not watched");
                }
                // A folder on the way, which may be closed to us.
                Err(_) => {}
            }
        }
        for old in self.watched.values().filter(|old| !watched.values().any(|new| new == *old)) {
            // The kernel has forgotten it already when the folder is gone.
            let _ = self.events.watches().remove(old.clone());
        }
        self.watched = watched;
    }

    /// Waits until something has changed, and a little longer, or until it is time to look anyway; says whether something
    /// has. Whatever happened, the folders have to be looked at.
    async fn changed(&mut self) -> Option<bool> {
        match tokio::time::timeout(ANYWAY, self.events.next()).await {
            Ok(event) => drop(event?.ok()?),
            Err(_) => return Some(false),
        }
        tokio::time::sleep(SETTLE).await;
        while let Some(Some(Ok(_))) = self.events.next().now_or_never() {}
        Some(true)
    }
}

/// The folders on the way to files, through every link; whether the names in them matter, or only that they stay.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ways {
    folders: BTreeMap<PathBuf, bool>,
}

impl Ways {
    fn of(files: &[PathBuf]) -> Self {
        let mut ways = Self::default();
        files.iter().for_each(|file| ways.walk(file));
        ways
    }

    /// As the kernel walks an absolute path: the folder of each link matters, that of the file, and of what is missing the
    /// nearest one that is there.
    fn walk(&mut self, path: &Path) {
        let steps = |path: &Path| path.iter().rev().map(OsString::from).collect::<Vec<_>>();
        let (mut left, mut links) = (steps(path), 0);
        let mut at = PathBuf::from("/");
        while let Some(step) = left.pop() {
            match step.as_bytes() {
                b"." => continue,
                b".." => {
                    at.pop();
                    continue;
                }
                _ => {}
            }
            let next = at.join(&step);
            let folder = next == Path::new("/") || next.symlink_metadata().is_ok_and(|data| data.is_dir());
            let matters = !folder || left.is_empty();
            if self.folders.len() < FOLDERS || self.folders.contains_key(&at) {
                *self.folders.entry(at.clone()).or_default() |= matters;
            }
            match next.read_link() {
                Ok(target) if links < LINKS => {
                    links += 1;
                    left.extend(steps(&target));
                }
                _ if folder => at = next,
                // The file, or where the way ends.
                _ => return,
            }
        }
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
    fn at(files: &[PathBuf]) -> Self {
        let folders: BTreeSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
        let state = |path: &PathBuf| {
            let data = std::fs::metadata(path).ok()?;
            let (inode, changed) = ((data.dev(), data.ino()), (data.ctime(), data.ctime_nsec()));
            Some(State { inode, size: data.size(), changed })
        };
        let names = |folder: &Path| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| (folder.to_owned(), entry.file_name())).collect::<Vec<_>>()
        };
        Self {
            files: files.iter().map(|path| (path.clone(), state(path))).collect(),
            names: folders.into_iter().flat_map(names).collect(),
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
