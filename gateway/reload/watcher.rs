//! Watches the configuration's files: the folders and links on the way to each file, and the
//! difference between a change of the configuration and writes to other files.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Writes within this time cause a single reload.
const SETTLE_DELAY: Duration = Duration::from_millis(200);

/// Interval of checks without any event: network file systems report no changes made elsewhere.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum number of consecutive checks while the files keep changing.
pub(super) const MAX_ROUNDS: usize = 4;

/// Change times lag behind the clock by a tick of the kernel, and on some file systems have whole
/// seconds.
pub(super) const MAX_CLOCK_LAG: Duration = Duration::from_secs(2);

/// Maximum number of watched folders, and of links followed on a path.
const MAX_FOLDERS: usize = 4096;
const MAX_LINKS: usize = 40;

/// A watcher of folders, because editors and Kubernetes replace files rather than writing into
/// them.
pub(super) struct Watcher {
    inotify: AsyncFd<OwnedFd>,
    watched: BTreeMap<PathBuf, i32>,
    /// The folders that were logged as not watched.
    told: BTreeSet<PathBuf>,
}

impl Watcher {
    /// Creates a watcher. Requires a runtime.
    #[allow(deprecated, reason = "the replacement is `unsafe`; an owned descriptor is sound here")]
    pub(super) fn new() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self {
            inotify: AsyncFd::new(inotify)?,
            watched: BTreeMap::new(),
            told: BTreeSet::new(),
        })
    }

    /// Watches the folders of these files, including missing files, and stops watching all others.
    pub(super) fn follow(&mut self, files: &[PathBuf]) {
        let mut ways = Ways::of(files);
        for _ in 0..MAX_ROUNDS {
            self.watch(&ways);
            // Detects changes made before the folders were watched.
            let now = Ways::of(files);
            if now == ways {
                break;
            }
            ways = now;
        }
    }

    fn watch(&mut self, ways: &Ways) {
        // Opening, reading and writing are left out: each use of a database beside the
        // configuration would cause a wakeup.
        let names = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ATTRIB;
        let itself = WatchFlags::MOVE_SELF
            | WatchFlags::DELETE_SELF
            | WatchFlags::ONLYDIR
            | WatchFlags::MASK_ADD;
        let mut watched = BTreeMap::new();
        for (folder, matters) in &ways.folders {
            let flags = if *matters { names | itself } else { itself };
            match inotify::add_watch(self.inotify.get_ref(), folder, flags) {
                Ok(watch) => {
                    self.told.remove(folder);
                    watched.insert(folder.clone(), watch);
                }
                Err(error)
                    if *matters
                        && self.told.len() < MAX_FOLDERS
                        && self.told.insert(folder.clone()) =>
                {
                    let folder = folder.display();
                    tracing::warn!(%folder, %error, "this folder is not watched");
                }
                // A folder on the way that cannot be read.
                Err(_) => {}
            }
        }
        for old in self.watched.values() {
            if !watched.values().any(|new| new == old) {
                // Fails if the folder is gone, because the kernel has removed the watch already.
                let _ = inotify::remove_watch(self.inotify.get_ref(), *old);
            }
        }
        self.watched = watched;
    }

    /// Waits for a change and for it to settle, or for the time of the next check. Returns whether
    /// an event occurred; the folders have to be checked in both cases.
    pub(super) async fn changed(&mut self) -> Option<bool> {
        match tokio::time::timeout(CHECK_INTERVAL, self.inotify.readable()).await {
            Ok(ready) => drop(ready.ok()?),
            Err(_) => return Some(false),
        }
        tokio::time::sleep(SETTLE_DELAY).await;
        self.discard_events().ok()?;
        Some(true)
    }

    /// Reads the events that have occurred. Their content is not of interest.
    fn discard_events(&self) -> io::Result<()> {
        let mut events = [0; 4096];
        loop {
            let read = self
                .inotify
                .try_io(Interest::READABLE, |inotify| Ok(rustix::io::read(inotify, &mut events)?));
            match read {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// The folders on the way to files, through every link, each with whether its entries matter or
/// only its existence.
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

    /// Follows an absolute path as the kernel does. The folders of links and of the file matter,
    /// and for a missing path the nearest existing folder.
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
            if self.folders.len() < MAX_FOLDERS || self.folders.contains_key(&at) {
                *self.folders.entry(at.clone()).or_default() |= matters;
            }
            match next.read_link() {
                Ok(target) if links < MAX_LINKS => {
                    links += 1;
                    put_steps(&mut left, &target);
                }
                _ if folder => at = next,
                // The file, or a missing component.
                _ => return,
            }
        }
    }
}

/// A snapshot that distinguishes a change of the configuration from writes to other files: the
/// state of each file that was read, and the names in each folder, where new files may belong to
/// the configuration.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    files: BTreeMap<PathBuf, Option<FileVersion>>,
    names: BTreeSet<(PathBuf, OsString)>,
}

/// A file's identity, its size in bytes, and its inode's change time, which also detects a write of
/// the same size.
#[derive(Debug, PartialEq, Eq)]
struct FileVersion {
    inode: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl FileVersion {
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
            look.files.insert(file.clone(), FileVersion::of(file));
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

/// Returns whether these files, and the folders with entries on the way to them, have not changed
/// since a time.
pub(super) fn are_unchanged_since(files: &[PathBuf], time: SystemTime) -> bool {
    let ways = Ways::of(files);
    let folders = ways.folders.iter().filter(|(_, matters)| **matters);
    let mut paths = folders.map(|(folder, _)| folder).chain(files);
    paths.all(|path| {
        let Ok(data) = std::fs::metadata(path) else { return !path.exists() };
        let seconds = Duration::from_secs(data.ctime().unsigned_abs());
        let nanoseconds = Duration::from_nanos(data.ctime_nsec().unsigned_abs());
        SystemTime::UNIX_EPOCH + seconds + nanoseconds < time
    })
}

/// Pushes the components of a path onto the stack, so that the first is popped first.
fn put_steps(left: &mut Vec<OsString>, path: &Path) {
    left.extend(path.iter().rev().map(|step| step.to_owned()));
}

#[cfg(test)]
mod tests;
