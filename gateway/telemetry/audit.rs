//! The audit trail: one record per decision and one per outcome, as JSON lines in a hash chain.
//!
//! The request path queues records, and a single thread writes them. The request path never waits
//! for a disk, memory is bounded, and arguments are written only if configured, in redacted form.
//! In addition, [`Record`] is a line in the log.

mod chain;
mod change;
mod config;
mod counters;
mod cursor;
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

pub use change::{Change, ChangePlace};
pub use config::{
    ClientFiles, Config, Facility, Forward, OnFull, Output, Redact, Sender, Syslog, Webhook,
};
pub use counters::{AuditCounters, ForwardCounters};
pub use cursor::{Cursor, Saved};
pub use event::{
    Approval, Arguments, Asked, Decision, DryRunDenial, MAX_TEXT, Refused, RefusedToken,
};
pub use line::{Record, TARGET};
pub use search::{Members, Search, SearchResult, search};
pub use tail::{Records, Tail};
pub use trail::{RecordError, StartError, Ticket, Trail};

#[cfg(test)]
mod tests;
