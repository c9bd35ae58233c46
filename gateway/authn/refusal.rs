//! Refusals of callers. The responses to them are made elsewhere.

use crate::principal::Principal;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthnError {
    #[error("credentials are required: send `Authorization: Bearer …`")]
    Missing,
    #[error("the bearer credential is not valid")]
    Invalid,
    #[error("the credential has expired")]
    Expired,
    #[error("the key was revoked")]
    Revoked,
    #[error("the token is not meant for this endpoint")]
    Audience,
    #[error("the credential lacks a scope that every request needs")]
    Scope,
    #[error("the token cannot be verified at the moment: its issuer's keys are not available")]
    Unavailable,
}

/// The fault of a rejected token, with unverified details from the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedToken {
    /// A code listed in docs/troubleshooting.md.
    pub fault: &'static str,
    pub claim: Option<&'static str>,
    pub issuer: Option<Box<str>>,
    pub kid: Option<Box<str>>,
}

/// The refusal of a caller, and its principal if the credential itself was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCaller {
    pub why: AuthnError,
    /// For records only, never for a decision.
    pub who: Option<Principal>,
    /// For records only.
    pub token: Option<Box<RefusedToken>>,
}

impl RefusedCaller {
    pub(crate) fn known(why: AuthnError, who: &Principal) -> Self {
        Self { why, who: Some(who.clone()), token: None }
    }
}

impl From<AuthnError> for RefusedCaller {
    fn from(why: AuthnError) -> Self {
        Self { why, who: None, token: None }
    }
}
