//! The authorization request and its response: PKCE, `resource`, scopes, and the check of `iss`
//! (RFC 9207). Page: basic/authorization/index.mdx (2026-07-28).

use url::Url;

use crate::challenge::StepUp;
use crate::discovery::{AuthorizationServer, Discovered};
use crate::error::{AccountError, Result, shown_code};
use crate::random::pkce_challenge;

/// Scope for refresh tokens, requested only where the authorization server lists it.
const OFFLINE_ACCESS: &str = "offline_access";

/// The variable parts of an authorization request.
pub(crate) struct AuthorizationRequest<'a> {
    pub(crate) client_id: &'a str,
    pub(crate) redirect: &'a Url,
    pub(crate) scopes: &'a [String],
    pub(crate) state: &'a str,
    pub(crate) verifier: &'a str,
    pub(crate) step_up: Option<&'a StepUp>,
}

/// Returns the endpoint for authorization requests, of a server that supports PKCE with S256.
pub(crate) fn authorization_endpoint(server: &AuthorizationServer) -> Result<&Url> {
    let issuer = &server.issuer;
    if !server.has_s256 {
        return Err(AccountError::Invalid(format!(
            "{issuer:.200} does not announce PKCE with S256 (code_challenge_methods_supported)"
        )));
    }
    server.authorization.as_ref().ok_or_else(|| {
        AccountError::Invalid(format!("{issuer:.200} has no authorization endpoint"))
    })
}

/// Returns the URL at which the user authorizes the gateway.
pub(crate) fn authorization_url(
    found: &Discovered,
    request: &AuthorizationRequest<'_>,
) -> Result<Url> {
    let mut url = authorization_endpoint(&found.server)?.clone();
    let mut query = url.query_pairs_mut();
    query
        .append_pair("response_type", "code")
        .append_pair("client_id", request.client_id)
        .append_pair("redirect_uri", request.redirect.as_str())
        .append_pair("state", request.state)
        .append_pair("code_challenge", &pkce_challenge(request.verifier))
        .append_pair("code_challenge_method", "S256")
        .append_pair("resource", &found.resource);
    if !request.scopes.is_empty() {
        query.append_pair("scope", &request.scopes.join(" "));
    }
    if request.scopes.iter().any(|scope| scope == OFFLINE_ACCESS) {
        // Required for refresh tokens (OpenID Connect Core, section 11).
        query.append_pair("prompt", "consent");
    }
    if let Some(StepUp { acr_values, max_age }) = request.step_up {
        if let Some(values) = acr_values {
            query.append_pair("acr_values", values);
        }
        if let Some(seconds) = max_age {
            query.append_pair("max_age", &seconds.to_string());
        }
    }
    drop(query);
    Ok(url)
}

/// Returns the scopes to request: those needed now and granted before, else those that the resource
/// announces, within the cap of the configuration.
pub(crate) fn choose_scopes(
    needed: &[String],
    found: &Discovered,
    cap: Option<&[String]>,
) -> Vec<String> {
    let announced = found.scopes.as_deref().or(cap).unwrap_or_default();
    let wanted = if needed.is_empty() { announced } else { needed };
    let mut scopes: Vec<String> = Vec::with_capacity(wanted.len() + 1);
    for scope in wanted {
        let is_permitted = cap.is_none_or(|cap| cap.contains(scope));
        if is_permitted && !scopes.contains(scope) {
            scopes.push(scope.clone());
        }
    }
    let offline = OFFLINE_ACCESS.to_owned();
    if found.server.scopes.contains(&offline) && !scopes.contains(&offline) {
        scopes.push(offline);
    }
    scopes
}

/// Returns the code in an authorization response. Before `iss` is verified, neither an error nor
/// its description is used.
pub(crate) fn check_response<'a>(
    issuer: &str,
    announces_issuer: bool,
    (iss, code, error): (Option<&str>, Option<&'a str>, Option<&str>),
) -> Result<&'a str> {
    match iss {
        Some(iss) if iss == issuer => {}
        Some(_) => {
            let words = "the response is from another issuer than the one it was requested from";
            return Err(AccountError::Invalid(words.into()));
        }
        None if announces_issuer => {
            let words = "the response has no `iss`, which the authorization server announces";
            return Err(AccountError::Invalid(words.into()));
        }
        None => {}
    }
    if let Some(error) = error {
        return Err(AccountError::Refused(shown_code(error).into_owned()));
    }
    code.ok_or_else(|| AccountError::Invalid("the response has no code".into()))
}

#[cfg(test)]
mod tests;
