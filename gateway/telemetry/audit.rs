//! The audit trail: one record per decision and one per outcome, as JSON lines in a hash chain.
//!
//! The request path queues records, and a single thread writes them. The request path never waits
//! for a disk, memory is bounded, and arguments are written only if configured, in redacted form.
//! In addition, [`Record`] is a line in the log.

mod chain;
mod config;
mod event;
mod file;
mod pieces;
mod queue;
mod search;
mod tail;
mod trail;
pub mod verify;
mod writer;

use std::time::Duration;

pub use config::{ClientFiles, Config, Facility, Forward, OnFull, Output, Redact, Syslog, Webhook};
pub use event::{
    Approval, Arguments, Asked, Decision, DryRunDenial, MAX_TEXT, Refused, RefusedToken,
};
pub use pieces::{Members, list_files};
pub use queue::{AuditCounters, ForwardCounters};
pub use search::{Search, SearchResult, search};
pub use tail::{Cursor, Records, Saved, Tail};
pub use trail::{Change, ChangePlace, RecordError, StartError, Ticket, Trail};

use crate::labels::Outcome;
use crate::trace::{TraceContext, TraceParent};

// A log line per decision, with the caller, the target and the deciding rule, never arguments. The
// line is for readers of the log, in addition to the verifiable trail. Denials are logged at
// `info`, other decisions at `debug`, all with the target `audit`; `info,audit=debug` shows both.

/// The log target of all audit records.
pub const TARGET: &str = "audit";

/// A decision, and the outcome of the request.
#[derive(Debug)]
pub struct Record<'a> {
    /// The principal, such as `key:ci` or `https://issuer.example|subject`; never a credential.
    pub who: &'a str,
    /// The display name of the caller's key.
    pub key: Option<&'a str>,
    /// JSON-RPC method.
    pub method: &'a str,
    /// The name or URI that the client used, if the method has one.
    pub name: Option<&'a str>,
    pub allowed: bool,
    /// The deciding rule; `None` if there was nothing to decide on.
    pub rule: Option<&'a str>,
    /// The reason sent to the caller, for a denial.
    pub reason: Option<&'a str>,
    pub outcome: Outcome,
    pub duration: Duration,
    /// The trace of the request.
    pub trace: Option<&'a TraceContext>,
}

impl Record<'_> {
    /// Returns whether [`Record::log`] would write, so that callers can avoid the cost of a record.
    pub fn wanted(allowed: bool) -> bool {
        if allowed {
            tracing::enabled!(target: TARGET, tracing::Level::DEBUG)
        } else {
            tracing::enabled!(target: TARGET, tracing::Level::INFO)
        }
    }

    /// Logs the record, if its level is enabled.
    pub fn log(&self) {
        macro_rules! record {
            ($level:ident, $decision:literal) => {
                tracing::$level!(
                    target: TARGET,
                    decision = $decision,
                    who = self.who,
                    key = self.key,
                    method = self.method,
                    name = self.name,
                    rule = self.rule,
                    reason = self.reason,
                    outcome = self.outcome.as_str(),
                    duration_us = u64::try_from(self.duration.as_micros()).unwrap_or(u64::MAX),
                    trace = self.traceparent().as_ref().map(|text| text.as_str()),
                )
            };
        }
        if self.allowed {
            record!(debug, "allow");
        } else {
            record!(info, "deny");
        }
    }

    fn traceparent(&self) -> Option<TraceParent> {
        self.trace.map(TraceContext::traceparent)
    }
}

#[cfg(test)]
mod tests;
