//! Errors for requests that policy denies.

use std::sync::Arc;
use std::time::Duration;

use lockgate_authn::AuthnError;
use lockgate_policy::{Limited, Reached};
use lockgate_protocol::code;
use lockgate_protocol::method::Method;
use lockgate_telemetry::{Denial, Outcome};
use serde_json::json;

use super::RequestError;

/// The rule name in records of calls denied for missing scopes.
const SCOPES: &str = "scopes";

/// Formats a wait for a message, in milliseconds below a second, so that it is never "0.0 s".
fn describe_wait(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        _ => format!("{:.1} s", Duration::from_millis(ms).as_secs_f64()),
    }
}

impl RequestError {
    /// Returns the error for a visible item that requires scopes which the caller's credential
    /// lacks.
    pub(crate) fn insufficient_scope(why: AuthnError, challenge: &str) -> Self {
        let mut problem = Self::unauthenticated(why, challenge);
        problem.message = match why {
            AuthnError::Missing => {
                "this call requires a credential with scopes, all listed in WWW-Authenticate"
            }
            _ => {
                "the credential lacks a scope that this call requires, all listed in \
                    WWW-Authenticate"
            }
        }
        .into();
        problem.denied(SCOPES.into()).because(Denial::Scopes)
    }

    pub(crate) fn limited(method: Method, limited: &Limited) -> Self {
        let wait = limited.reached.wait();
        let rule = &*limited.rule;
        // Rounded up, because an earlier request would be refused again.
        let ms = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let what = match method {
            Method::ToolsCall => "tool calls",
            Method::Complete => "completions",
            _ => "requests of this kind",
        };
        let trouble = match limited.reached {
            Reached::Rate(_) => format!("too many {what}"),
            Reached::Concurrency(_) => format!("too many {what} at the same time"),
            Reached::Unavailable(_) => {
                format!("{what} cannot be counted, because the store of shared rates is away")
            }
        };
        let words = format!("{trouble} (policy {rule}); wait {}", describe_wait(ms));
        let mut problem = Self::new(code::LIMITED, words).denied(Arc::clone(&limited.rule));
        problem.denial = Denial::Rate;
        problem.data = Some(json!({"retryAfter": wait.as_secs_f64().ceil(), "retryAfterMs": ms}));
        problem.retry_after = Some(wait);
        problem
    }

    /// Turns a refusal with a result into a plain error that names the policy, for transports
    /// without tool results.
    pub(crate) fn without_result(mut self) -> Self {
        let Some(rule) = self.rule.clone() else { return self };
        if self.result.take().is_some() {
            self.data = Some(json!({"reason": "policy", "rule": &*rule}));
            self.code = code::FORBIDDEN;
        }
        self
    }

    /// Sets the policy that decided, for the log.
    pub(crate) fn denied(mut self, rule: Arc<str>) -> Self {
        self.rule = Some(rule);
        self.outcome = Outcome::Denied;
        self
    }

    /// Sets the reason of the denial, for the metrics.
    pub(crate) fn because(mut self, denial: Denial) -> Self {
        self.denial = denial;
        self
    }
}

#[cfg(test)]
mod tests;
