//! The audit trail: one record for each decision and one for each outcome, as JSON lines in a chain
//! of hashes.
//!
//! The request path hands over what it knows and goes on; one thread writes. It never waits for a
//! disk, never keeps more than its bounds, and never writes an argument, unless it was asked for
//! redacted ones. Beside it, [`Record`] is a line in the log.

mod chain;
mod change;
mod config;
mod counters;
mod cursor;
mod event;
mod file;
mod forward_counters;
mod line;
mod pieces;
mod queue;
mod search;
mod sink;
mod syslog;
mod tail;
mod trail;
pub mod verify;
mod writer;

pub use change::{Change, ChangePlace};
pub use config::{ClientFiles, Config, Forward, OnFull, Output, Redact, Syslog, Webhook};
pub use counters::AuditCounters;
pub use cursor::{Cursor, Saved};
pub use event::{
    Approval, Arguments, Asked, Decision, DryRunDenial, MAX_TEXT, Refused, RefusedToken,
};
pub use forward_counters::ForwardCounters;
pub use line::{Record, TARGET};
pub use search::{Found, Members, Search, search};
pub use syslog::{Facility, Sender};
pub use tail::{Records, Tail};
pub use trail::{RecordError, StartError, Ticket, Trail};

#[cfg(test)]
mod tests;
