//! One line in the log for each decision, who asked for what and which rule said so. Never
//! arguments. The trail, which can be verified, is another thing: this line is for people who read
//! the log.
//!
//! Denials are logged at `info`, everything else at `debug`, all with the target `audit`;
//! `info,audit=debug` shows both.

use std::time::Duration;

use crate::labels::Outcome;
use crate::trace::{TraceContext, TraceParent};

/// The target of all audit records, for filters.
pub const TARGET: &str = "audit";

/// One decision, and how the request ended.
#[derive(Debug)]
pub struct Record<'a> {
    /// The principal, such as `key:ci` or `https://issuer.example|subject`; never a credential.
    pub who: &'a str,
    /// The name of its key, for people.
    pub key: Option<&'a str>,
    /// JSON-RPC method.
    pub method: &'a str,
    /// The name or URI that the client used, if the method has one.
    pub name: Option<&'a str>,
    pub allowed: bool,
    /// The rule that decided; none where there is nothing to decide on.
    pub rule: Option<&'a str>,
    /// What the caller was told, of a denial.
    pub reason: Option<&'a str>,
    pub outcome: Outcome,
    pub duration: Duration,
    /// Ties the record to a trace.
    pub trace: Option<&'a TraceContext>,
}

impl Record<'_> {
    /// Whether [`Record::log`] would write anything, for callers to whom making a record costs
    /// something.
    pub fn wanted(allowed: bool) -> bool {
        if allowed {
            tracing::enabled!(target: TARGET, tracing::Level::DEBUG)
        } else {
            tracing::enabled!(target: TARGET, tracing::Level::INFO)
        }
    }

    /// Writes the record, if its level is on.
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
}

impl Record<'_> {
    fn traceparent(&self) -> Option<TraceParent> {
        self.trace.map(TraceContext::traceparent)
    }
}

#[cfg(test)]
mod tests;
