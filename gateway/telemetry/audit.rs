//! The audit trail: one record per decision and one per outcome, as JSON lines in a hash chain.
//!
//! The request path queues records, and a single thread writes them. The request path never waits
//! for a disk, memory is bounded, and arguments are written only if configured, in redacted form.
//! In addition, [`Record`] is a line in the log.

mod chain;
mod config;
mod event;
mod file;
mod line;
mod pieces;
mod queue;
mod search;
mod tail;
mod trail;
pub mod verify;
mod writer;

pub use config::{
    ClientFiles, Config, Facility, Forward, OnFull, Output, Redact, Sender, Syslog, Webhook,
};
pub use event::{
    Approval, Arguments, Asked, Decision, DryRunDenial, MAX_TEXT, Refused, RefusedToken,
};
pub use line::{Record, TARGET};
pub use queue::{AuditCounters, ForwardCounters};
pub use search::{Members, Search, SearchResult, search};
pub use tail::{Cursor, Records, Saved, Tail};
pub use trail::{Change, ChangePlace, RecordError, StartError, Ticket, Trail};

#[cfg(test)]
mod tests;
