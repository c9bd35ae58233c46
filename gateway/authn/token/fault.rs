//! Reasons to reject a token, for the log and the audit trail. The response to the sender states
//! only that the token is invalid, or that its issuer's keys are unavailable.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lockgate_text::json::{self, Reader};
use serde_json::Value;

use crate::principal::{AuthnError, RefusedCaller, RefusedToken};

/// Maximum length of a text copied from a token, in characters.
const MAX_TEXT: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenFault {
    /// Not three parts, not JSON, a duplicate member, or too long.
    Form,
    /// A header member that changes the meaning of the others.
    Header,
    Type,
    /// The algorithm is unknown, or not accepted for the issuer.
    Algorithm,
    Issuer,
    Key,
    NoKeys,
    Signature,
    Claim(&'static str),
    /// This claim has a future time.
    Early(&'static str),
    /// The sender does not hold the certificate that the token is bound to.
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

    /// Returns the refusal of a token, with its unverified key id and issuer if they are readable.
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

fn read_text(part: Option<&str>, name: &str) -> Option<Box<str>> {
    let bytes = URL_SAFE_NO_PAD.decode(part?).ok()?;
    let members: Value = Reader::exact(json::MAX_DEPTH).read(&bytes).ok()?;
    Some(members.get(name)?.as_str()?.chars().take(MAX_TEXT).collect())
}

#[cfg(test)]
mod tests;
