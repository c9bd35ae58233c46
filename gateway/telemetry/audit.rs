//! The audit trail: one record per decision and one per outcome, as JSON lines in a hash chain.
//!
//! The request path queues records, and a single thread writes them. The request path never waits
//! for a disk, memory is bounded, and arguments are written only if configured, in redacted form.
//! In addition, [`log`] writes a line to the log.

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

pub use config::{Config, Facility, OnFull, Output, OutputKind, Redact, Syslog, Webhook};
pub use event::{
    Approval, Arguments, Asked, Decision, DryRunDenial, MAX_TEXT, Refused, RefusedToken,
};
pub use pieces::{Members, list_files};
pub use queue::{AuditCounters, ForwardCounters};
pub use search::{Search, SearchResult, search};
pub use tail::{Cursor, Records, Saved, Tail};
pub use trail::{Change, ChangePlace, RecordError, Ticket, Trail};

use crate::labels::Outcome;
use crate::trace::TraceContext;

// A log line per decision, with the caller, the target and the deciding rule, never arguments. The
// line is for readers of the log, in addition to the verifiable trail. Denials are logged at
// `info`, other decisions at `debug`, all with the target `audit`; `info,audit=debug` shows both.

/// The log target of all audit records.
pub const TARGET: &str = "audit";

/// Returns whether [`log`] would write, so that callers can avoid the cost of a record.
pub fn is_logged(allowed: bool) -> bool {
    if allowed {
        tracing::enabled!(target: TARGET, tracing::Level::DEBUG)
    } else {
        tracing::enabled!(target: TARGET, tracing::Level::INFO)
    }
}

/// Logs a decision and the outcome of the request, if the level is enabled. Members of the trail's
/// record without a part in the line, such as the server, are ignored.
pub fn log(
    asked: &Asked<'_>,
    decision: Decision<'_>,
    (outcome, duration): (Outcome, Duration),
    trace: Option<&TraceContext>,
) {
    let (rule, reason) = match decision {
        Decision::Allow(rule, _) => (rule, None),
        Decision::Deny(rule, reason) => (rule, Some(reason)),
    };
    let who = format!("{}:{}", asked.issuer, asked.subject);
    let trace = trace.map(TraceContext::traceparent);
    macro_rules! record {
        ($level:ident, $decision:literal) => {
            tracing::$level!(
                target: TARGET,
                decision = $decision,
                who = who.as_str(),
                key = asked.key,
                method = asked.method,
                name = asked.name.as_deref(),
                rule,
                reason,
                outcome = outcome.as_str(),
                duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
                trace = trace.as_ref().map(|text| text.as_str()),
            )
        };
    }
    if reason.is_none() {
        record!(debug, "allow");
    } else {
        record!(info, "deny");
    }
}

#[cfg(test)]
mod tests;
