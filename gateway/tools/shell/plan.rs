//! The launcher's instructions: the confinement and the program. Sent as a line of JSON on standard
//! input.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The instructions for a launcher.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    /// The process id of the gateway.
    pub(super) gateway: u32,
    /// The absolute path of the executable.
    pub(super) program: PathBuf,
    /// The program's `argv[0]`.
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    /// The working folder; `None` is `/`.
    pub(super) folder: Option<HeldFolder>,
    pub(super) landlock: bool,
    pub(super) roots: Vec<HeldFolder>,
    /// Paths that it may read, besides the roots.
    pub(super) read: Vec<PathBuf>,
    /// Paths that it may execute.
    pub(super) execute: Vec<PathBuf>,
    pub(super) children: bool,
    pub(super) cpu_seconds: u64,
    pub(super) memory_bytes: u64,
    pub(super) file_bytes: u64,
    pub(super) open_files: u64,
    pub(super) processes: u64,
}

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
