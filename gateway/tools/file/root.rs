//! A folder that is held open. Everything is opened relative to it, and the kernel ensures that no
//! `..`, symbolic link or rename leads outside. No decision here is based on the text of a path.

#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::config;

/// Maximum number of attempts to open a path while it is being renamed.
const MAX_ATTEMPTS: usize = 64;
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// For reading, without blocking on a pipe or device.
pub(super) const READ: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

pub(super) struct Root {
    folder: OwnedFd,
    /// The configured path.
    pub(super) path: String,
    pub(super) write: bool,
}

impl Root {
    /// Opens a configured folder. Only here is a path used as it is, because the operator wrote it.
    /// Returns `None` if the folder does not exist.
    pub(super) fn open(config: &config::Root) -> Result<Option<Self>, String> {
        let Some(path) = config.path.to_str() else {
            return Err("the path of a root is not UTF-8".into());
        };
        let folder = match fs::open(path, FOLDER, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::NOTDIR) => return Err(format!("the root {path} is not a folder")),
            Err(errno) => return Err(format!("the root {path} cannot be opened: {errno}")),
        };
        let path = if path.len() > 1 { path.trim_end_matches('/') } else { path };
        Ok(Some(Self { folder, path: path.to_owned(), write: config.write }))
    }

    /// Returns an identifier of the folder that does not depend on its name.
    pub(super) fn identity(&self) -> Result<(u64, u64), String> {
        fs::fstat(&self.folder).map(|stat| identity(&stat)).map_err(|errno| errno.to_string())
    }

    /// Opens a path. Symbolic links are followed while they stay inside the root.
    pub(super) fn reach(&self, names: &[String]) -> Result<OwnedFd, Errno> {
        reach(&self.folder, names)
    }

    /// Opens a folder without following links, so that its names are its real location.
    pub(super) fn folder(&self, names: &[String]) -> Result<OwnedFd, Errno> {
        folder(&self.folder, names)
    }

    /// Opens a folder like [`Self::folder`], and creates missing ones. Also returns their number.
    pub(super) fn make_folder(&self, names: &[String]) -> Result<(OwnedFd, usize), Errno> {
        let mut folder = fs::openat(&self.folder, ".", FOLDER, Mode::empty())?;
        let mut made = 0;
        for name in names {
            folder = match enter(&folder, name) {
                Err(Errno::NOENT) => {
                    match fs::mkdirat(&folder, name.as_str(), Mode::from_raw_mode(0o777)) {
                        Ok(()) => made += 1,
                        // Another process created it first.
                        Err(Errno::EXIST) => {}
                        Err(errno) => return Err(errno),
                    }
                    enter(&folder, name)?
                }
                other => other?,
            };
        }
        Ok((folder, made))
    }

    /// Returns the real names of an open file below the root; `None` if the system does not provide
    /// them.
    pub(super) fn names_of(&self, open: &OwnedFd) -> Option<Vec<String>> {
        let root = place(&self.folder)?;
        let open = place(open)?;
        let below = if root == "/" { open.strip_prefix('/')? } else { open.strip_prefix(&root)? };
        if !below.is_empty() && root != "/" && !below.starts_with('/') {
            return None;
        }
        Some(split_names(below))
    }
}

/// Opens a path below a folder that is held open, for reading.
pub(crate) fn reach(held: &OwnedFd, names: &[String]) -> Result<OwnedFd, Errno> {
    let path = if names.is_empty() { ".".to_owned() } else { names.join("/") };
    let resolve = fs::ResolveFlags::BENEATH | fs::ResolveFlags::NO_MAGICLINKS;
    match open_beneath(held, &path, READ, resolve) {
        // An old kernel, or a seccomp filter that rejects the system call.
        Err(Errno::NOSYS | Errno::PERM) => reach_step_by_step(held, names),
        other => other,
    }
}

/// Opens a path, which the kernel resolves below a folder.
pub(crate) fn open_beneath(
    held: &OwnedFd,
    path: &str,
    flags: OFlags,
    resolve: fs::ResolveFlags,
) -> Result<OwnedFd, Errno> {
    for _ in 0..MAX_ATTEMPTS {
        match fs::openat2(held, path, flags, Mode::empty(), resolve) {
            // A part of the path was renamed concurrently.
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens a path without following any link. Rejects `..`, as the kernel does for the whole path.
fn reach_step_by_step(held: &OwnedFd, names: &[String]) -> Result<OwnedFd, Errno> {
    if names.iter().any(|name| name == "..") {
        return Err(Errno::XDEV);
    }
    let Some((leaf, parents)) = names.split_last() else {
        return fs::openat(held, ".", READ, Mode::empty());
    };
    let parent = folder(held, parents)?;
    fs::openat(&parent, leaf.as_str(), READ | OFlags::NOFOLLOW, Mode::empty())
}

fn folder(held: &OwnedFd, names: &[String]) -> Result<OwnedFd, Errno> {
    let mut folder = fs::openat(held, ".", FOLDER, Mode::empty())?;
    for name in names {
        folder = enter(&folder, name)?;
    }
    Ok(folder)
}

pub(crate) fn split_names(below: &str) -> Vec<String> {
    let names = below.split('/').filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// Opens a folder inside another, unless it is a link.
pub(super) fn enter(folder: impl AsFd, name: &str) -> Result<OwnedFd, Errno> {
    match fs::openat(&folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
        // With both flags, a link yields `NOTDIR`. Return the more precise error.
        Err(Errno::NOTDIR) if is_link(&folder, name) => Err(Errno::LOOP),
        other => other,
    }
}

/// Returns the attributes of an entry, without following links.
pub(super) fn look(folder: impl AsFd, name: &str) -> Result<Stat, Errno> {
    fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
}

fn is_link(folder: impl AsFd, name: &str) -> bool {
    look(folder, name)
        .is_ok_and(|stat| fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::Symlink)
}

/// Returns the device and inode of a file.
pub(crate) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Returns attributes that change with the file.
pub(crate) fn mark(stat: &Stat) -> Mark {
    (identity(stat), stat.st_size, stat.st_mtime, stat.st_mtime_nsec)
}

pub(crate) type Mark = ((u64, u64), i64, i64, u64);

fn place(open: &OwnedFd) -> Option<String> {
    use std::os::fd::AsRawFd;
    let link = fs::readlink(format!("/proc/self/fd/{}", open.as_raw_fd()), Vec::new()).ok()?;
    link.into_string().ok()
}
