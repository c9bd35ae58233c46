//! ID tokens: identities that have signed in at an issuer, for a single client and attempt.
//! Signature, times and claims are checked as for access tokens; an access token of RFC 9068 is
//! rejected. Reference: OpenID Connect Core 1.0, section 3.1.3.7.

use serde_json::Value;

use super::audiences;
use super::parts::{Parts, TokenFault};
use crate::claims::{self, text};
use crate::identity::Identity;
use crate::jwks::Issuer;
use crate::provider::SignInError;
use crate::scope::Needs;

pub(crate) struct Expected<'a> {
    pub(crate) client_id: &'a str,
    pub(crate) nonce: &'a str,
    /// The scopes granted along with the token, for a token without a scope claim.
    pub(crate) granted: &'a str,
}

/// Verifies an ID token, and returns the identity that has signed in.
///
/// # Errors
/// The token is invalid, not for this client, or not for this attempt.
pub(crate) async fn verify(
    token: &str,
    issuer: &Issuer,
    expected: &Expected<'_>,
    needs: &Needs,
) -> Result<Identity, SignInError> {
    let Ok(parts) = Parts::read(token, is_id_token) else { return Err(SignInError::Token) };
    if text(&parts.claims, "iss") != Some(&issuer.config.issuer) {
        return Err(SignInError::Issuer);
    }
    match parts.check_signature(issuer).await {
        Ok(_) => {}
        Err(TokenFault::NoKeys) => return Err(SignInError::NoKeys),
        Err(_) => return Err(SignInError::Token),
    }
    match parts.check_times(issuer) {
        Ok(_) => {}
        Err(TokenFault::Expired | TokenFault::Early(_)) => return Err(SignInError::Clock),
        Err(_) => return Err(SignInError::Token),
    }
    if parts.claims.get("iat").is_none() {
        return Err(SignInError::Token);
    }
    check_audience(&parts.claims, expected.client_id)?;
    if text(&parts.claims, "nonce") != Some(expected.nonce) {
        return Err(SignInError::Nonce);
    }
    read_identity(parts.claims, issuer, expected.granted, needs)
}

/// Accepts `JWT`; the type is optional.
fn is_id_token(typ: &str) -> bool {
    typ.eq_ignore_ascii_case("jwt")
}

/// Checks that the token is for this client. `azp`, if present, must name this client; it is
/// required with several audiences.
fn check_audience(claims: &Value, client_id: &str) -> Result<(), SignInError> {
    let Some(all) = audiences(claims.get("aud")) else { return Err(SignInError::Audience) };
    let is_meant = all.iter().any(|one| one == client_id);
    let has_asked = match claims.get("azp") {
        Some(azp) => azp.as_str() == Some(client_id),
        None => all.len() == 1,
    };
    if is_meant && has_asked { Ok(()) } else { Err(SignInError::Audience) }
}

/// Reads the identity as from an access token with these claims. If an organisation claim is
/// configured, an account without an organisation is rejected instead of joining the default
/// organisation.
fn read_identity(
    mut claims: Value,
    issuer: &Issuer,
    granted: &str,
    needs: &Needs,
) -> Result<Identity, SignInError> {
    let places = &issuer.config.claims;
    let mut own = places.scopes.iter();
    if !own.any(|place| claims::find(&claims, place).is_some()) {
        claims["scope"] = granted.into();
    }
    let identity = claims::identity(&claims, &issuer.config.issuer, places, needs);
    let Some(identity) = identity else { return Err(SignInError::NoSubject) };
    match &places.organisation {
        Some(claim) if identity.named_organisation().is_none() => {
            Err(SignInError::NoOrganisation(claim.clone()))
        }
        _ => Ok(identity),
    }
}

#[cfg(test)]
mod tests;
