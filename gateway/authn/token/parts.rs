//! The parts of a token, the checks common to tokens of every use (form, signature and times), and
//! the reasons to reject a token, for the log and the audit trail. The response to the sender
//! states only that the token is invalid, or that its issuer's keys are unavailable.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use lockgate_text::date::now;
use lockgate_text::json::{self, Reader};
use serde_json::Value;

use crate::jwks;
use crate::jwks::Issuer;
use crate::principal::{AuthnError, RefusedCaller, RefusedToken};

/// Maximum length of a token, in bytes.
pub(super) const MAX_TOKEN: usize = 16 * 1024;

struct Header {
    alg: Algorithm,
    kid: Option<String>,
}

/// A parsed token. Nothing in it is verified.
pub(super) struct Parts<'a> {
    pub(super) signed: &'a str,
    signature: &'a str,
    header: Header,
    /// An object.
    pub(super) claims: Value,
}

impl Header {
    /// Reads a header. `is_type` accepts the `typ` of tokens for the intended use.
    fn read(members: &Value, is_type: fn(&str) -> bool) -> Result<Self, TokenFault> {
        // Each of these changes the meaning of the other members, regardless of its value.
        for name in ["crit", "enc", "zip", "b64"] {
            if members.get(name).is_some() {
                return Err(TokenFault::Header);
            }
        }
        match members.get("typ") {
            None => {}
            Some(Value::String(typ)) if is_type(bare_type(typ)) => {}
            Some(_) => return Err(TokenFault::Type),
        }
        let Some(Value::String(alg)) = members.get("alg") else {
            return Err(TokenFault::Algorithm);
        };
        let Ok(alg) = alg.parse() else { return Err(TokenFault::Algorithm) };
        let kid = match members.get("kid") {
            Some(Value::String(kid)) => Some(kid.clone()),
            Some(_) => return Err(TokenFault::Key),
            None => None,
        };
        Ok(Self { alg, kid })
    }
}

/// Splits off the signature of a token with three parts and an acceptable length.
fn split(token: &str) -> Option<(&str, &str)> {
    let (signed, signature) = token.rsplit_once('.')?;
    if token.len() > MAX_TOKEN || signed.matches('.').count() != 1 || signature.is_empty() {
        return None;
    }
    Some((signed, signature))
}

/// Decodes a JSON object. Rejects duplicate members, which parsers disagree about.
fn read_part(part: &str) -> Result<Value, TokenFault> {
    let Ok(bytes) = URL_SAFE_NO_PAD.decode(part) else { return Err(TokenFault::Form) };
    let part = Reader::exact(json::MAX_DEPTH).read(&bytes).ok();
    part.filter(Value::is_object).ok_or(TokenFault::Form)
}

impl<'a> Parts<'a> {
    pub(super) fn read(token: &'a str, is_type: fn(&str) -> bool) -> Result<Self, TokenFault> {
        let Some((signed, signature)) = split(token) else { return Err(TokenFault::Form) };
        let Some((header, claims)) = signed.split_once('.') else { return Err(TokenFault::Form) };
        let header = Header::read(&read_part(header)?, is_type)?;
        let claims = read_part(claims)?;
        Ok(Self { signed, signature, header, claims })
    }

    /// Checks that a key of the issuer signed the token, with an algorithm accepted for the issuer.
    /// Returns the generation of the issuer's keys.
    pub(super) async fn check_signature(&self, issuer: &Issuer) -> Result<u64, TokenFault> {
        let algorithm = self.header.alg;
        if !issuer.config.algorithms.contains(&algorithm) {
            return Err(TokenFault::Algorithm);
        }
        let mut may_ask = true;
        loop {
            // Read before the keys: if they change in between, the token is verified again.
            let generation = issuer.generation();
            let keys = issuer.keys();
            let id = self.header.kid.as_deref();
            let mut unknown = TokenFault::NoKeys;
            if let Some(keys) = &keys {
                unknown = TokenFault::Key;
                let fitting = jwks::fitting(keys, id, algorithm);
                if !fitting.is_empty() {
                    return if fitting.iter().any(|key| self.is_signed_by(key, algorithm)) {
                        Ok(generation)
                    } else {
                        Err(TokenFault::Signature)
                    };
                }
            }
            if !std::mem::take(&mut may_ask) || !issuer.refreshed().await {
                return Err(unknown);
            }
        }
    }

    /// Returns the expiry of a token in force, allowing for clock skew between the issuer and us.
    pub(super) fn check_times(&self, issuer: &Issuer) -> Result<u64, TokenFault> {
        let now = now();
        let skew = issuer.config.skew.as_secs();
        let expires = seconds(self.claims.get("exp")).ok_or(TokenFault::Claim("exp"))?;
        if expires.saturating_add(skew) <= now {
            return Err(TokenFault::Expired);
        }
        for later in ["nbf", "iat"] {
            if let Some(value) = self.claims.get(later) {
                let begins = seconds(Some(value)).ok_or(TokenFault::Claim(later))?;
                if begins > now.saturating_add(skew) {
                    return Err(TokenFault::Early(later));
                }
            }
        }
        Ok(expires)
    }

    fn is_signed_by(&self, key: &jwks::Key, algorithm: Algorithm) -> bool {
        let signed = self.signed.as_bytes();
        let verified = jsonwebtoken::crypto::verify(self.signature, signed, &key.key, algorithm);
        verified.unwrap_or(false)
    }
}

/// Removes the optional prefix `application/`.
fn bare_type(typ: &str) -> &str {
    match typ.split_at_checked("application/".len()) {
        Some((start, bare)) if start.eq_ignore_ascii_case("application/") => bare,
        _ => typ,
    }
}

/// Parses a NumericDate, rounded down.
fn seconds(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    if let Some(whole) = value.as_u64() {
        return Some(whole);
    }
    let real = value.as_f64()?;
    if !(0.0..9.0e15).contains(&real) {
        return None;
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within the range just checked"
    )]
    let whole = real as u64;
    Some(whole)
}

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
    /// This claim is missing or unreadable.
    Claim(&'static str),
    Expired,
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
            Self::Expired => "exp",
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
            Self::Expired => AuthnError::Expired,
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
