//! The working folders of programs, held open from the start. The kernel decides whether a path
//! stays inside, because it resolves links as the program will. Paths that lead outside are
//! rejected before a program starts.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use lockgate_policy::command::join;
use rustix::fs::{Mode, OFlags, ResolveFlags, fstat, open};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::config::Root;
use crate::file::root::{identity, open_beneath};

/// A folder and its identity when it was checked. Another folder at the same path is rejected.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeldFolder {
    pub(super) path: PathBuf,
    /// Whether programs may change its contents.
    pub(super) write: bool,
    pub(super) device: u64,
    pub(super) inode: u64,
}

pub(super) struct Folders(Vec<Open>);

struct Open {
    path: String,
    folder: OwnedFd,
    held: HeldFolder,
}

/// A working folder. Open during the whole call, so that its inode number is not reused.
pub(super) struct Folder {
    descriptor: OwnedFd,
    /// Absolute path, without links.
    pub(super) path: String,
}

impl Folder {
    /// Returns the identity that the launcher checks.
    pub(super) fn held(&self) -> Result<HeldFolder, Errno> {
        let (device, inode) = identity(&fstat(&self.descriptor)?);
        Ok(HeldFolder { path: PathBuf::from(&self.path), write: false, device, inode })
    }
}

impl Open {
    fn new(root: &Root) -> io::Result<Self> {
        let path = root.path.canonicalize()?;
        let text = path.to_str().ok_or_else(|| io::Error::other("the path is not UTF-8"))?;
        let text = text.to_owned();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(&path, flags, Mode::empty())?;
        let (device, inode) = identity(&fstat(&folder)?);
        let held = HeldFolder { path, write: root.write, device, inode };
        Ok(Self { path: text, folder, held })
    }

    fn is_around(&self, path: &str) -> bool {
        if self.path == "/" {
            return true;
        }
        path.strip_prefix(&*self.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl Folders {
    pub(super) fn open(roots: &[Root]) -> Result<Self, String> {
        let opened = roots.iter().map(|root| {
            Open::new(root).map_err(|error| format!("roots: `{}`: {error}", root.path.display()))
        });
        Ok(Self(opened.collect::<Result<_, _>>()?))
    }

    pub(super) fn paths(&self) -> Vec<String> {
        self.0.iter().map(|root| root.path.clone()).collect()
    }

    pub(super) fn held(&self) -> Vec<HeldFolder> {
        self.0.iter().map(|root| root.held.clone()).collect()
    }

    /// Opens the working folder of a call: a path inside a root, relative to the first root by
    /// default.
    pub(super) fn enter(&self, path: Option<&str>) -> Result<Folder, String> {
        let path = path.unwrap_or(".");
        let Some(first) = self.0.first() else { return Err("there are no roots".into()) };
        let (root, rest) = if path.starts_with('/') { self.root(path)? } else { (first, path) };
        // Without links on the way, `..` means the same as in the text of the path.
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = look(root, rest, flags, resolve).map_err(|errno| {
            let what = match errno {
                Errno::NOENT => "does not exist",
                Errno::NOTDIR => "is not a folder",
                Errno::XDEV => "is outside of the roots",
                Errno::LOOP => "contains a link; name the folder itself",
                errno => &format!("cannot be entered: {errno}"),
            };
            format!("the working folder `{path}` {what}")
        })?;
        let full = join(&root.path, path);
        let path = full.ok_or_else(|| format!("the working folder `{path}` is above `/`"))?;
        Ok(Folder { descriptor, path })
    }

    /// Checks that a path of a command stays inside a root, following links. Missing files pass:
    /// the program reports them.
    pub(super) fn stays(&self, folder: &Folder, path: &str) -> Result<(), String> {
        let full =
            if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", folder.path) };
        let (root, rest) = self.root(&full)?;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match look(root, rest, OFlags::PATH | OFlags::CLOEXEC, resolve) {
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::NAMETOOLONG) => {
                Ok(())
            }
            Err(Errno::XDEV | Errno::LOOP) => Err(format!(
                "`{path}` leads through a link or `..` out of the folders that may be used"
            )),
            Err(error) => Err(format!("`{path}` cannot be inspected: {error}")),
        }
    }

    /// Returns the innermost root that contains a path, and the rest of the path as written.
    fn root<'a>(&self, path: &'a str) -> Result<(&Open, &'a str), String> {
        let around = self.0.iter().filter(|root| root.is_around(path));
        let root = around.max_by_key(|root| root.path.len()).ok_or_else(|| {
            let all = self.paths().join(", ");
            format!("`{path}` is outside of the folders that may be used: {all}")
        })?;
        let rest = if root.path == "/" { path } else { &path[root.path.len()..] };
        Ok((root, rest))
    }
}

fn look(root: &Open, path: &str, flags: OFlags, resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
    let path = path.trim_start_matches('/');
    let path = if path.is_empty() { "." } else { path };
    open_beneath(&root.folder, path, flags, resolve)
}
