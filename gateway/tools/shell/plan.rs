//! What the launcher has to do before it becomes the program: passed to it as its argument, in JSON.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// See the module. It holds no secret: other processes of the user can read it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    /// The file to become, by an absolute path.
    pub(super) program: PathBuf,
    /// How the program is called.
    pub(super) name: String,
    pub(super) landlock: bool,
    pub(super) roots: Vec<Held>,
    /// What it may read besides the roots.
    pub(super) read: Vec<PathBuf>,
    /// What it may execute.
    pub(super) execute: Vec<PathBuf>,
    /// It may start other processes.
    pub(super) children: bool,
    pub(super) cpu_seconds: u64,
    pub(super) memory_bytes: u64,
    pub(super) file_bytes: u64,
    pub(super) open_files: u64,
    pub(super) processes: u64,
}

/// A root, and which folder was found there at the start: another one is not the root.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Held {
    pub(super) path: PathBuf,
    pub(super) write: bool,
    pub(super) device: u64,
    pub(super) inode: u64,
}
