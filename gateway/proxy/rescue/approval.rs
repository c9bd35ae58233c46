//! Errors for calls that were not approved.

use std::sync::Arc;

use http::StatusCode;
use lockgate_protocol::code;
use lockgate_protocol::revision::Era;
use lockgate_telemetry::Denial;
use serde_json::json;

use super::RequestError;
use crate::approvals::bounds::NoRoom;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ApprovalError {
    #[error(
        "it needs an approval of the caller, and this client did not declare that it can be asked \
         (elicitation)"
    )]
    CannotAsk,
    #[error(
        "it needs an approval by others, and nobody can give one here: approvers come over HTTP to \
         `lockgate serve`, with a credential of their own"
    )]
    NobodyToAsk,
    #[error("a call that another tool makes cannot wait for an approval")]
    Nested,
    #[error("it cannot be asked about: {0}")]
    Unshowable(String),
    #[error("it was denied by {0}")]
    Denied(String),
    #[error("nobody approved it in time")]
    Expired,
    #[error("its client has left")]
    Left,
    #[error("request state expired: nobody approved it in time")]
    StateExpired,
    #[error(
        "its approval is not known: it was used already, has expired, made room for others, or the \
         gateway was restarted"
    )]
    Unknown,
    #[error("it is not the call that was asked about")]
    Other,
    #[error("what it was approved under has changed meanwhile: {0}")]
    Changed(&'static str),
    #[error("the gateway shuts down, and nobody has approved it")]
    Stopping,
    #[error("too many calls wait for an approval ({})", reason(*.0))]
    NoRoom(NoRoom),
}

fn reason(no_room: NoRoom) -> &'static str {
    match no_room {
        NoRoom::All => "limits.approvals",
        NoRoom::OfOrganisation => "half of limits.approvals of one organisation",
        NoRoom::OfPrincipal => "limits.approvals_per_principal",
    }
}

impl RequestError {
    /// Returns the error for an unapproved call: a result for the model to read, unless the client
    /// made a mistake or a limit was reached.
    pub(crate) fn unapproved(error: &ApprovalError, rule: Option<&Arc<str>>, era: Era) -> Self {
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
            _ => Self::tool_error(words, era),
        };
        let rule = match rule {
            Some(rule) => Arc::clone(rule),
            None => "approval".into(),
        };
        problem.denied(rule).because(Denial::Approval)
    }
}
