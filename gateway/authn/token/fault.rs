//! What is wrong with a token, for the log and the audit trail. Its sender is told that it is not
//! valid, and no more.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lockgate_text::json::{self, Reader};
use serde_json::Value;

use crate::refusal::{AuthnError, RefusedCaller, RefusedToken};

/// Most characters of a text of the token's own.
const MAX_TEXT: usize = 128;

/// What is wrong with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenFault {
    /// No three parts, no JSON, a member that stands twice, or too long.
    Form,
    /// A member of the header that changes what the rest means.
    Header,
    Type,
    /// The algorithm is unknown, or its issuer may not use it.
    Algorithm,
    /// No issuer of the configuration is named.
    Issuer,
    /// Its issuer has no such key for the algorithm.
    Key,
    /// The keys of its issuer are not available.
    NoKeys,
    Signature,
    /// A claim is missing or cannot be used.
    Claim(&'static str),
    /// Not in force yet, by this claim.
    Early(&'static str),
    /// Its sender does not hold what it is bound to.
    Binding,
}

impl TokenFault {
    fn as_str(self) -> &'static str {
        match self {
            Self::Form => "form",
            Self::Header => "header",
            Self::Type => "typ",
            Self::Algorithm => "alg",
            Self::Issuer => "issuer",
            Self::Key => "kid",
            Self::NoKeys => "no_keys",
            Self::Signature => "signature",
            Self::Claim(_) => "claim",
            Self::Early(_) => "early",
            Self::Binding => "binding",
        }
    }

    fn claim(self) -> Option<&'static str> {
        match self {
            Self::Issuer => Some("iss"),
            Self::Claim(claim) | Self::Early(claim) => Some(claim),
            Self::Binding => Some("cnf"),
            _ => None,
        }
    }

    /// Returns the refusal of a token; `token` is at least its header and claims.
    pub(super) fn refuse(self, token: &str) -> RefusedCaller {
        let why = match self {
            Self::NoKeys => AuthnError::Unavailable,
            _ => AuthnError::Invalid,
        };
        let mut parts = token.split('.');
        let token = RefusedToken {
            fault: self.as_str(),
            claim: self.claim(),
            kid: read_text(parts.next(), "kid"),
            issuer: read_text(parts.next(), "iss"),
        };
        RefusedCaller { why, who: None, token: Some(Box::new(token)) }
    }
}

/// Reads a text of a part of a token that nothing was verified of.
fn read_text(part: Option<&str>, name: &str) -> Option<Box<str>> {
    let bytes = URL_SAFE_NO_PAD.decode(part?).ok()?;
    let members: Value = Reader::exact(json::MAX_DEPTH).read(&bytes).ok()?;
    Some(members.get(name)?.as_str()?.chars().take(MAX_TEXT).collect())
}

#[cfg(test)]
mod tests;
