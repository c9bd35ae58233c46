//! What the launcher has to do before it becomes the program, and which one: a line of JSON on its
//! standard input.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    /// The process id of the gateway.
    pub(super) gateway: u32,
    /// The file to become, by an absolute path.
    pub(super) program: PathBuf,
    /// How the program is called.
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    /// The folder to work in; `/` when there is none.
    pub(super) folder: Option<Held>,
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

/// A folder, and which one it was when it was judged: another one at the same path is not meant.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Held {
    pub(super) path: PathBuf,
    /// Programs may change what is in it.
    pub(super) write: bool,
    pub(super) device: u64,
    pub(super) inode: u64,
}
