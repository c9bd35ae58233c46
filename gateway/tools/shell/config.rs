//! What the `shell` server may run, where and within which bounds; already validated.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lockgate_policy::command::Spec;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// At least one.
    pub roots: Vec<Root>,
    /// Programs and how they may be called; its own roots are replaced by these.
    pub rule: Spec,
    /// Where programs are looked for, once, at the start.
    pub search: Vec<PathBuf>,
    /// Files and folders outside of the roots that programs may read as well, besides libraries.
    pub read: Vec<PathBuf>,
    /// What programs find in their environment besides what is always there.
    pub environment: BTreeMap<String, String>,
    /// Names of variables that callers may set.
    pub caller_environment: Vec<String>,
    pub landlock: Landlock,
    pub limits: Limits,
    /// A program that begins with [`super::confined`]; this very program outside of tests.
    pub launcher: PathBuf,
}

/// A folder that programs may work in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    pub path: PathBuf,
    /// Programs may change what is in it.
    pub write: bool,
}

/// Whether programs are confined by Landlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landlock {
    /// The server fails without it.
    Required,
    /// Where the kernel has it.
    BestEffort,
    Off,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a program may run when the caller says nothing, and at most.
    pub timeout: Duration,
    pub max_timeout: Duration,
    /// Kept of standard output and of standard error, each.
    pub output_bytes: usize,
    /// Programs that run at the same time.
    pub concurrent: usize,
    /// Of one process.
    pub memory_bytes: u64,
    /// Size of a file that a program writes.
    pub file_bytes: u64,
    pub open_files: u64,
    /// Processes of the gateway's user, counted together, for programs that may run code; others
    /// start none.
    pub processes: u64,
}

impl Config {
    /// The program itself, as a child of it finds it.
    #[must_use]
    pub fn own_program() -> PathBuf {
        PathBuf::from("/proc/self/exe")
    }
}
