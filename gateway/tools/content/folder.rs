//! Files below a folder that is held open. No path leads outside: not through `..`, a link, or a
//! concurrent change. Access is read-only, by path only.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;

/// Maximum number of attempts while the tree changes during the lookup.
#[cfg(target_os = "linux")]
const MAX_TRIES: usize = 8;

pub(super) struct Folder {
    descriptor: OwnedFd,
    most: usize,
}

/// A file's attributes, which differ for another file or changed content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Print {
    there: bool,
    inode: u64,
    size: i64,
    seconds: i64,
    nanoseconds: i64,
}

impl Folder {
    pub(super) fn open(path: &Path, most: usize) -> Result<Self, String> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        match open(path, flags, Mode::empty()) {
            Ok(descriptor) => Ok(Self { descriptor, most }),
            Err(error) => Err(format!("folder: `{}`: {error}", path.display())),
        }
    }

    /// Returns a file's bytes; `None` if there is no such file.
    pub(super) fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
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
    pub(super) fn print(&self, path: &str) -> Print {
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
