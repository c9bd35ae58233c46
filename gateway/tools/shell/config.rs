//! Validated settings of the `shell` server: its programs, folders and limits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lockgate_policy::command::Spec;

/// Settings of the `shell` server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// At least one.
    pub roots: Vec<Root>,
    /// Programs and their permitted arguments; its own roots are replaced by these.
    pub rule: Spec,
    /// Folders in which programs are searched, once, at the start.
    pub search: Vec<PathBuf>,
    /// Files and folders outside of the roots that programs may also read, besides libraries.
    pub read: Vec<PathBuf>,
    /// Environment variables of programs, besides the fixed variables.
    pub environment: BTreeMap<String, String>,
    /// Names of environment variables that callers may set.
    pub caller_environment: Vec<String>,
    pub landlock: Landlock,
    pub limits: Limits,
    /// A program that calls [`super::confined`] first; the gateway itself, except in tests.
    pub launcher: PathBuf,
}

/// A folder that programs may work in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    pub path: PathBuf,
    /// Whether programs may change its contents.
    pub write: bool,
}

/// Whether programs are confined by Landlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landlock {
    /// The server fails without Landlock.
    Required,
    /// Use Landlock if the kernel supports it.
    BestEffort,
    Off,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Default and maximum time limit of a program.
    pub timeout: Duration,
    pub max_timeout: Duration,
    /// Maximum number of bytes kept of standard output and standard error, each.
    pub output_bytes: usize,
    /// Maximum number of concurrent programs.
    pub concurrent: usize,
    /// Per process.
    pub memory_bytes: u64,
    /// Maximum size of a file written by a program.
    pub file_bytes: u64,
    pub open_files: u64,
    /// Maximum number of processes of the gateway's user, in total, for programs that may run code.
    /// Other programs cannot start any.
    pub processes: u64,
}

impl Config {
    /// Returns the path of the gateway's program, as seen by its children.
    #[must_use]
    pub fn own_program() -> PathBuf {
        PathBuf::from("/proc/self/exe")
    }
}
