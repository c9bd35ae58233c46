//! What a client is told of a call that its server did not answer.

use std::borrow::Cow;

use http::StatusCode;
use lockgate_protocol::code;
use lockgate_telemetry::Outcome;
use lockgate_upstream::{Failure, FailureKind};
use serde_json::json;

use super::RequestError;

impl RequestError {
    /// A server gave no answer.
    pub(crate) fn failed(slug: &str, failure: &Failure) -> Self {
        let mut data = json!({"upstream": slug, "reason": reason(failure.kind)});
        if let Some(wait) = failure.retry_after {
            data["retryAfterMs"] = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).into();
        }
        let outcome = if failure.sent && failure.kind != FailureKind::NoMemory {
            "; the outcome is unknown"
        } else {
            ""
        };
        let mut problem =
            Self::new(code::INTERNAL, format!("server {slug}: {}{outcome}", words(failure)));
        if failure.kind == FailureKind::Busy {
            // Not the server's doing: whoever spreads requests over gateways can send this one
            // elsewhere.
            problem.code = code::OVERLOADED;
            problem.status = Some(StatusCode::SERVICE_UNAVAILABLE);
        }
        problem.data = Some(data);
        if failure.kind == FailureKind::NoMemory {
            problem.code = code::OVERLOADED;
            // Without `Retry-After`: the call was made.
            problem.status = Some(StatusCode::SERVICE_UNAVAILABLE);
        }
        problem.outcome = match failure.kind {
            FailureKind::Timeout => Outcome::Timeout,
            FailureKind::Garbage | FailureKind::TooLarge => Outcome::ProtocolError,
            _ => Outcome::Unavailable,
        };
        problem.retry_after = failure.retry_after;
        problem
    }

    /// The gateway ends before the server has answered.
    pub(crate) fn cut_off(slug: &str) -> Self {
        let words = format!(
            "server {slug}: the gateway shuts down before it has answered; the outcome is unknown"
        );
        let mut problem =
            Self::new(code::INTERNAL, words).data(json!({"upstream": slug, "reason": "shutdown"}));
        problem.outcome = Outcome::Unavailable;
        problem
    }
}

fn reason(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Unavailable => "unavailable",
        FailureKind::Lost => "connection_lost",
        FailureKind::Timeout => "timeout",
        FailureKind::Garbage => "bad_response",
        FailureKind::TooLarge => "too_large",
        FailureKind::NoMemory => "memory",
        FailureKind::Overloaded => "overloaded",
        FailureKind::Stalled => "stalled",
        FailureKind::Busy => "gateway_overloaded",
        FailureKind::NeedsAuth => "needs_auth",
        FailureKind::SessionLost => "session_lost",
        FailureKind::NotFound => "not_found",
    }
}

/// What a client may read of a failure: no addresses, no commands.
fn words(failure: &Failure) -> Cow<'static, str> {
    match failure.kind {
        FailureKind::Unavailable => "not available at the moment".into(),
        FailureKind::Lost => "the connection to the server was lost during the call".into(),
        FailureKind::NeedsAuth => {
            "the server wants credentials that the gateway does not have".into()
        }
        _ => failure.words.clone(),
    }
}
