//! Validated settings of the `file` server: its folders and limits.

use std::path::PathBuf;
use std::time::Duration;

/// Names from which other programs take commands: write access to them allows running programs.
pub const ORDERS: [&str; 4] = [".git", ".npmrc", ".yarnrc*", "**/node_modules/.bin"];

/// Settings of the `file` server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// At least one, and none inside another. Relative paths start from the first.
    pub roots: Vec<Root>,
    /// Globs of paths that are neither read nor changed, as in the `path` rule.
    pub deny: Vec<String>,
    /// Globs of paths that are not changed.
    pub deny_write: Vec<String>,
    pub limits: Limits,
}

/// A folder that the tools may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Absolute, without `..`.
    pub path: PathBuf,
    pub write: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of bytes read from a file per call.
    pub read_bytes: usize,
    /// Maximum number of bytes written to a file per call.
    pub write_bytes: usize,
    /// Maximum number of entries that a call visits or deletes.
    pub entries: usize,
    /// Maximum number of files offered as resources.
    pub resources: usize,
    /// Maximum size of a file read as a resource, which MCP returns as a whole.
    pub resource_bytes: usize,
    /// Maximum number of concurrent calls that access files.
    pub concurrent: usize,
    pub timeout: Duration,
}
