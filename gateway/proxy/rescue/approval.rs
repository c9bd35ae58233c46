//! Errors for calls that were not approved.

use std::sync::Arc;

use http::StatusCode;
use lockgate_protocol::code;
use lockgate_telemetry::Denial;
use serde_json::json;

use super::RequestError;
use crate::approvals::asked::NoRoom;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ApprovalError {
    #[error(
        "it requires the caller's approval, and this client did not declare the elicitation \
            capability"
    )]
    CannotAsk,
    #[error(
        "it requires approval by others, which is not available here: approvers connect to \
            `lockgate serve` over HTTP, with their own credential"
    )]
    NobodyToAsk,
    #[error("a call made by another tool cannot wait for an approval")]
    Nested,
    #[error("it cannot be shown for approval: {0}")]
    Unshowable(String),
    #[error("it was denied by {0}")]
    Denied(String),
    #[error("it was not approved in time")]
    Expired,
    #[error("its client is gone")]
    Left,
    #[error("request state expired: it was not approved in time")]
    StateExpired,
    #[error(
        "its approval was not found: it was already used, expired or evicted, or the gateway was \
            restarted"
    )]
    Unknown,
    #[error("it is not the call that was shown for approval")]
    Other,
    #[error("a condition of its approval has changed: {0}")]
    Changed(&'static str),
    #[error("the gateway is shutting down before its approval")]
    Stopping,
    #[error("too many calls are waiting for approval ({})", reason(*.0))]
    NoRoom(NoRoom),
}

fn reason(no_room: NoRoom) -> &'static str {
    match no_room {
        NoRoom::All => "limits.approvals",
        NoRoom::OfOrganisation => "half of limits.approvals for one organisation",
        NoRoom::OfPrincipal => "limits.approvals_per_principal",
    }
}

impl RequestError {
    /// Returns the error for an unapproved call: a result for the model to read, unless the client
    /// made a mistake or a limit was reached.
    pub(crate) fn unapproved(error: &ApprovalError, rule: Option<&Arc<str>>) -> Self {
        let words = match rule {
            Some(rule) => format!("the call was not made, refused by policy {rule}: {error}"),
            None => format!("the call was not made, refused: {error}"),
        };
        let problem = match error {
            ApprovalError::Unknown | ApprovalError::Other | ApprovalError::StateExpired => {
                Self::invalid(words)
            }
            ApprovalError::NoRoom(no_room) => {
                let name = match no_room {
                    NoRoom::All => "approvals",
                    NoRoom::OfOrganisation => "approvals_of_organisation",
                    NoRoom::OfPrincipal => "approvals_per_principal",
                };
                Self::new(code::OVERLOADED, words)
                    .status(StatusCode::SERVICE_UNAVAILABLE)
                    .data(json!({"reason": name}))
            }
            _ => Self::tool_error(words),
        };
        let rule = rule.map_or_else(|| "approval".into(), Arc::clone);
        problem.denied(rule).because(Denial::Approval)
    }
}
