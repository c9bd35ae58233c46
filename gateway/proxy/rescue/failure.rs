//! Errors for calls that policy denies, or that their server did not answer.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use lockgate_authn::AuthnError;
use lockgate_policy::{Limited, Reached};
use lockgate_protocol::code;
use lockgate_protocol::method::Method;
use lockgate_telemetry::{Denial, FailureType, Outcome};
use lockgate_upstream::{Status, Upstream, UpstreamError, UpstreamErrorKind, UpstreamState};
use serde_json::json;

use crate::rescue::RequestError;

impl RequestError {
    /// Returns the error for a failed call, with the server's state if that is the cause.
    pub(crate) fn of_call(server: &dyn Upstream, failure: &UpstreamError) -> Self {
        let problem = Self::failed(server.slug(), failure);
        let is_of_state =
            matches!(failure.kind, UpstreamErrorKind::Unavailable | UpstreamErrorKind::NeedsAuth);
        let status = server.status();
        match (status.state, failure.retry_after) {
            _ if failure.sent || !is_of_state => problem,
            // The circuit breaker is open.
            (UpstreamState::Connected, Some(wait)) => problem.with_advice(&format!(
                "; its circuit breaker is open after repeated failures, retry in {:.0} s",
                wait.as_secs_f64().ceil()
            )),
            (UpstreamState::Connected, None) => problem,
            _ => problem.with_status(&status),
        }
    }

    /// Returns the error for an unknown name while a server's lists are still unread.
    pub(crate) fn not_there_yet(server: &dyn Upstream) -> Self {
        let mut failure = UpstreamErrorKind::Unavailable.error("");
        failure.retry_after = Some(Duration::from_secs(1));
        Self::of_call(server, &failure)
    }

    /// Adds the server's state, its duration, and whether to retry.
    fn with_status(self, status: &Status) -> Self {
        let advice = if status.is_passing() {
            "the gateway retries automatically: try again in a moment"
        } else {
            "retries fail until its operator intervenes"
        };
        let state = status.state.as_str();
        let since = status.since_text();
        let mut told =
            self.with_advice(&format!(" ({state} since {since}: {}); {advice}", status.reason()));
        if let Some(data) = &mut told.data {
            if let Some(reason) = reason_of_status(status) {
                data["reason"] = reason.into();
            }
            data["state"] = state.into();
            data["since"] = since.into();
            data["retry"] = status.is_passing().into();
            if !status.is_passing()
                && let Some(data) = data.as_object_mut()
            {
                data.remove("retryAfterMs");
            }
        }
        told
    }

    fn with_advice(mut self, words: &str) -> Self {
        self.message = format!("{}{words}", self.message).into();
        self
    }

    /// Returns the error for a server that did not answer.
    pub(crate) fn failed(slug: &str, failure: &UpstreamError) -> Self {
        let mut data = json!({"upstream": slug, "reason": reason(failure.kind)});
        // Refused after a part of the work was done: a retry would repeat that part.
        let is_begun = failure.sent && failure.is_refusal();
        let retry_after = if is_begun { None } else { failure.retry_after };
        if let Some(wait) = retry_after {
            data["retryAfterMs"] = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).into();
        }
        let outcome = if failure.sent && failure.kind != UpstreamErrorKind::NoMemory {
            "; the outcome is unknown"
        } else {
            ""
        };
        let mut problem =
            Self::new(code::INTERNAL, format!("server {slug}: {}{outcome}", words(failure)));
        let is_gateways =
            matches!(failure.kind, UpstreamErrorKind::Busy | UpstreamErrorKind::ClientConnections);
        if is_gateways && !is_begun {
            // A limit of this gateway, so a load balancer may retry at another.
            problem.code = code::OVERLOADED;
            problem.status = Some(StatusCode::SERVICE_UNAVAILABLE);
        }
        problem.data = Some(data);
        if failure.kind == UpstreamErrorKind::NoMemory {
            problem.code = code::OVERLOADED;
            // Without `Retry-After`, because the call was made.
            problem.status = Some(StatusCode::SERVICE_UNAVAILABLE);
        }
        problem.outcome = match failure.kind {
            UpstreamErrorKind::Timeout => Outcome::Timeout,
            UpstreamErrorKind::Garbage | UpstreamErrorKind::TooLarge => Outcome::ProtocolError,
            _ => Outcome::Unavailable,
        };
        problem.retry_after = retry_after;
        problem
    }

    /// Returns the failure type, if it is more specific than the outcome.
    pub(crate) fn failure_type(&self) -> Option<FailureType> {
        if let Some(data) = &self.data
            && let Some(reason) = data["reason"].as_str()
        {
            return Some(classify_failure(reason));
        }
        if self.code == code::INVALID_PARAMS { Some(FailureType::Validation) } else { None }
    }

    /// Returns the error for a call that was interrupted by the gateway's shutdown.
    pub(crate) fn cut_off(slug: &str) -> Self {
        let words = format!(
            "server {slug}: the gateway shut down before the response; the outcome is unknown"
        );
        let mut problem =
            Self::new(code::INTERNAL, words).data(json!({"upstream": slug, "reason": "shutdown"}));
        problem.outcome = Outcome::Unavailable;
        problem
    }
}

/// Classifies a failure by the `reason` in its error's data.
pub fn classify_failure(reason: &str) -> FailureType {
    match reason {
        "needs_auth" | "needs_account" => FailureType::Authentication,
        "timeout" | "stalled" => FailureType::Timeout,
        "unavailable" | "connection_lost" | "session_lost" => FailureType::Connection,
        _ => FailureType::Execution,
    }
}

/// Returns a more specific reason than `unavailable` for a server that is not connected, if there
/// is one.
fn reason_of_status(status: &Status) -> Option<&'static str> {
    let kind = match (status.state, &status.trouble) {
        (UpstreamState::NeedsAuth, _) => UpstreamErrorKind::NeedsAuth,
        // The call waited for the connection until its own timeout.
        (UpstreamState::Pending, None) => UpstreamErrorKind::Timeout,
        (_, Some(trouble)) if trouble.is_timeout() => UpstreamErrorKind::Timeout,
        _ => return None,
    };
    Some(reason(kind))
}

/// Returns the reason in an error's data, which differs from the word in spans for some kinds.
fn reason(kind: UpstreamErrorKind) -> &'static str {
    match kind {
        UpstreamErrorKind::Garbage => "bad_response",
        UpstreamErrorKind::TooLarge => "too_large",
        UpstreamErrorKind::NoMemory => "memory",
        UpstreamErrorKind::Busy => "gateway_overloaded",
        UpstreamErrorKind::NeedsAuth => "needs_auth",
        other => other.as_str(),
    }
}

/// Returns the description of a failure for clients: no addresses, no commands.
fn words(failure: &UpstreamError) -> Cow<'static, str> {
    match failure.kind {
        UpstreamErrorKind::Unavailable => "not available at the moment".into(),
        UpstreamErrorKind::Lost => "the connection to the server was lost during the call".into(),
        UpstreamErrorKind::NeedsAuth => {
            "the server requires credentials that the gateway does not have".into()
        }
        _ => failure.words.clone(),
    }
}

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
