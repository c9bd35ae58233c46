//! The audit trail: one record for each decision and one for each outcome, as JSON lines in a chain of hashes.
//!
//! The request path hands over what it knows and goes on; one thread writes. It never waits for a disk, never keeps more than
//! its bounds, and never writes an argument, unless it was asked for redacted ones. Beside it, [`Record`] is a line in the log.

mod chain;
mod counters;
mod event;
mod file;
mod line;
mod pieces;
mod queue;
mod sink;
mod trail;
pub mod verify;
mod writer;

use std::path::PathBuf;
use std::time::Duration;

pub use counters::AuditCounters;
pub use event::{Arguments, Asked, Decision, MAX_TEXT, Refused, Would};
pub use line::{Record, TARGET};
pub use trail::{Redact, StartError, Ticket, Trail, Unwritable};

/// Where the trail goes and what happens when it cannot.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    pub output: Output,
    /// Keys every hash, so that only who has it can write a chain that holds.
    pub key: Option<String>,
    pub on_full: OnFull,
    /// Records that wait for the writer; at least 16.
    pub queue: usize,
    /// A file beyond this many bytes is set aside.
    pub rotate_bytes: u64,
    /// So is one that is older than this.
    pub rotate_age: Duration,
    /// Files set aside that are kept; older ones are removed.
    pub keep: usize,
    /// How often an anchor is written, also when nothing happens.
    pub anchor: Duration,
    pub arguments: Arguments,
}

/// Where records are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Stdout,
    Stderr,
    /// A file of mode 0600, which goes on with the chain that it finds.
    File(PathBuf),
}

/// What happens to calls that cannot be recorded: the disk is full, or the writer cannot keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// They are refused.
    Deny,
    /// They go on; how many records are missing is counted, and written into the chain as soon as possible.
    Drop,
}

/// Never shows the key.
impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("output", &self.output)
            .field("key", &self.key.as_ref().map(|_| "…"))
            .field("on_full", &self.on_full)
            .field("queue", &self.queue)
            .field("rotate_bytes", &self.rotate_bytes)
            .field("rotate_age", &self.rotate_age)
            .field("keep", &self.keep)
            .field("anchor", &self.anchor)
            .field("arguments", &self.arguments)
            .finish()
    }
}

#[cfg(test)]
mod tests;
