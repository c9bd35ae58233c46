//! Which folders the `file` server may use, and within which bounds; already validated.

use std::path::PathBuf;
use std::time::Duration;

/// Names that other programs take orders from: whoever may write them may run programs there.
pub const ORDERS: [&str; 4] = [".git", ".npmrc", ".yarnrc*", "**/node_modules/.bin"];

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// At least one; none lies in another. Relative paths start from the first one.
    pub roots: Vec<Root>,
    /// Globs of what is neither read nor changed, as in the `path` rule.
    pub deny: Vec<String>,
    /// Globs of what is not changed.
    pub deny_write: Vec<String>,
    pub limits: Limits,
}

/// A folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Absolute, without `..`.
    pub path: PathBuf,
    pub write: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Read of one file at once.
    pub read_bytes: usize,
    /// Written to one file at once.
    pub write_bytes: usize,
    /// Entries that one call looks at, or deletes.
    pub entries: usize,
    /// Files that are offered as resources.
    pub resources: usize,
    /// Read of one file as a resource, which MCP gives as a whole.
    pub resource_bytes: usize,
    /// Calls that touch files at the same time.
    pub concurrent: usize,
    pub timeout: Duration,
}
