//! Why a caller is not let in. What the caller is told of it is made elsewhere.

use crate::principal::Principal;

/// Why a caller is nobody, or not let in.
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

/// What is wrong with a token, and what it says of itself, of which nothing was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedToken {
    /// A code of docs/troubleshooting.md.
    pub fault: &'static str,
    /// The claim that is wrong or missing.
    pub claim: Option<&'static str>,
    pub issuer: Option<Box<str>>,
    /// The id of the key that it names.
    pub kid: Option<Box<str>>,
}

/// A caller who is not let in, and who that is: known when the credential was proved, and only
/// something else is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCaller {
    pub why: AuthnError,
    /// For records, never for a decision.
    pub who: Option<Principal>,
    /// For records too.
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
