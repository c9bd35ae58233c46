//! Which files to look at again: folders that the kernel watches, every link on the way to a file,
//! and what tells a change of the configuration from writes to other files beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use inotify::{EventStream, Inotify, WatchDescriptor, WatchMask};

/// Writes within this time are read once.
const SETTLE: Duration = Duration::from_millis(200);

/// A look at the files without any event: network file systems tell nobody what happens elsewhere.
const ANYWAY: Duration = Duration::from_secs(30);

/// Most looks in a row at what changes while it is looked at.
pub(super) const ROUNDS: usize = 4;

/// Most folders that are watched, and links followed on one way.
const FOLDERS: usize = 4096;
const LINKS: usize = 40;

/// Folders that the kernel watches: editors and Kubernetes replace files rather than writing into
/// them.
pub(super) struct Watcher {
    events: EventStream<[u8; 4096]>,
    watched: BTreeMap<PathBuf, WatchDescriptor>,
    /// What was told to be not watched.
    told: BTreeSet<PathBuf>,
}

impl Watcher {
    /// Needs a runtime.
    pub(super) fn new() -> io::Result<Self> {
        let events = Inotify::init()?.into_event_stream([0; 4096])?;
        Ok(Self { events, watched: BTreeMap::new(), told: BTreeSet::new() })
    }

    /// Watches where these files are, also those that are not there yet, and nothing else any more.
    pub(super) fn follow(&mut self, files: &[PathBuf]) {
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
        // Opening, reading and writing are left out: each use of a database beside the
        // configuration would wake somebody.
        let names = WatchMask::CLOSE_WRITE
            | WatchMask::CREATE
            | WatchMask::DELETE
            | WatchMask::MOVED_FROM
            | WatchMask::MOVED_TO
            | WatchMask::ATTRIB;
        let itself = WatchMask::MOVE_SELF
            | WatchMask::DELETE_SELF
            | WatchMask::ONLYDIR
            | WatchMask::MASK_ADD;
        let mut watched = BTreeMap::new();
        for (folder, matters) in &ways.folders {
            // One that is watched already stays as it is.
            match self.events.watches().add(folder, if *matters { names | itself } else { itself })
            {
                Ok(watch) => {
                    self.told.remove(folder);
                    watched.insert(folder.clone(), watch);
                }
                Err(error)
                    if *matters
                        && self.told.len() < FOLDERS
                        && self.told.insert(folder.clone()) =>
                {
                    let folder = folder.display();
                    tracing::warn!(%folder, %error, "this folder is not watched");
                }
                // A folder on the way, which may be closed to us.
                Err(_) => {}
            }
        }
        for old in self.watched.values() {
            if !watched.values().any(|new| new == old) {
                // The kernel has forgotten it already when the folder is gone.
                let _ = self.events.watches().remove(old.clone());
            }
        }
        self.watched = watched;
    }

    /// Waits until something has changed, and a little longer, or until it is time to look anyway;
    /// says whether something has. Whatever happened, the folders have to be looked at.
    pub(super) async fn changed(&mut self) -> Option<bool> {
        match tokio::time::timeout(ANYWAY, self.events.next()).await {
            Ok(event) => drop(event?.ok()?),
            Err(_) => return Some(false),
        }
        tokio::time::sleep(SETTLE).await;
        while let Some(Some(Ok(_))) = self.events.next().now_or_never() {}
        Some(true)
    }
}

/// The folders on the way to files, through every link; whether the names in them matter, or only
/// that they stay.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ways {
    folders: BTreeMap<PathBuf, bool>,
}

impl Ways {
    fn of(files: &[PathBuf]) -> Self {
        let mut ways = Self::default();
        for file in files {
            ways.walk(file);
        }
        ways
    }

    /// As the kernel walks an absolute path: the folder of each link matters, that of the file, and
    /// of what is missing the nearest one that is there.
    fn walk(&mut self, path: &Path) {
        let mut left = Vec::new();
        put_steps(&mut left, path);
        let mut links = 0;
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
            let folder = next == Path::new("/")
                || matches!(next.symlink_metadata(), Ok(data) if data.is_dir());
            let matters = !folder || left.is_empty();
            if self.folders.len() < FOLDERS || self.folders.contains_key(&at) {
                *self.folders.entry(at.clone()).or_default() |= matters;
            }
            match next.read_link() {
                Ok(target) if links < LINKS => {
                    links += 1;
                    put_steps(&mut left, &target);
                }
                _ if folder => at = next,
                // The file, or where the way ends.
                _ => return,
            }
        }
    }
}

/// What tells a change of the configuration from writes to other files beside it: the state of each
/// file that was read, and the names in each folder, where new files may belong to the
/// configuration.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    files: BTreeMap<PathBuf, Option<State>>,
    names: BTreeSet<(PathBuf, OsString)>,
}

/// Which file it is, its size in bytes, and when its inode was last changed, which also tells a
/// write of the same size.
#[derive(Debug, PartialEq, Eq)]
struct State {
    inode: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl State {
    fn of(path: &Path) -> Option<Self> {
        let data = std::fs::metadata(path).ok()?;
        let inode = (data.dev(), data.ino());
        let changed = (data.ctime(), data.ctime_nsec());
        Some(Self { inode, size: data.size(), changed })
    }
}

impl Look {
    #[allow(
        clippy::disallowed_methods,
        reason = "the names beside the configuration, to see new ones"
    )]
    pub(super) fn at(files: &[PathBuf]) -> Self {
        let mut look = Self::default();
        let mut folders = BTreeSet::new();
        for file in files {
            look.files.insert(file.clone(), State::of(file));
            folders.extend(file.parent());
        }
        for folder in folders {
            let Ok(entries) = std::fs::read_dir(folder) else { continue };
            for entry in entries.flatten() {
                look.names.insert((folder.to_owned(), entry.file_name()));
            }
        }
        look
    }
}

/// Puts the parts of a path on top of what is left to walk, the first one last.
fn put_steps(left: &mut Vec<OsString>, path: &Path) {
    for step in path.iter().rev() {
        left.push(step.to_owned());
    }
}

#[cfg(test)]
mod tests;
