//! What a provider says of itself, as far as signing in needs it.

use serde_json::Value;
use url::Url;

use crate::discovery::read_address;

/// See the module.
pub(super) struct Metadata {
    pub(super) authorization: Url,
    pub(super) token: Url,
    /// Where it signs people out (OpenID Connect RP-Initiated Logout 1.0), if it does.
    pub(super) end_session: Option<Url>,
    /// It says that each of its answers has `iss` (RFC 9207).
    pub(super) announces_issuer: bool,
    pub(super) secret_place: SecretPlace,
}

/// Where the token endpoint wants the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecretPlace {
    /// `client_secret_basic`
    Header,
    /// `client_secret_post`
    Body,
    /// Neither: this gateway has no other way to show who it is.
    Nowhere,
}

impl Metadata {
    /// # Errors
    /// What is missing, or weaker than it has to be. A provider that lists no methods of PKCE may
    /// know them all the same: it is sent, and the nonce stands behind it.
    pub(super) fn read(document: &Value, issuer: &str) -> Result<Self, String> {
        if !offers(document, "code_challenge_methods_supported", "S256").unwrap_or(true) {
            return Err("the provider does not take PKCE with S256".into());
        }
        if !offers(document, "response_types_supported", "code").unwrap_or(true) {
            return Err("the provider does not give codes".into());
        }
        let announced = document.get("authorization_response_iss_parameter_supported");
        Ok(Self {
            authorization: read_address(document, "authorization_endpoint", issuer)?,
            token: read_address(document, "token_endpoint", issuer)?,
            end_session: read_address(document, "end_session_endpoint", issuer).ok(),
            announces_issuer: announced == Some(&Value::Bool(true)),
            secret_place: find_secret_place(document),
        })
    }
}

/// `client_secret_basic` is what a provider takes that says nothing (RFC 8414, section 2).
fn find_secret_place(document: &Value) -> SecretPlace {
    let list = "token_endpoint_auth_methods_supported";
    let takes_header = offers(document, list, "client_secret_basic");
    match (takes_header, offers(document, list, "client_secret_post")) {
        (None | Some(true), _) => SecretPlace::Header,
        (_, Some(true)) => SecretPlace::Body,
        _ => SecretPlace::Nowhere,
    }
}

/// Whether a list has a word; `None` where there is no list.
fn offers(document: &Value, list: &str, word: &str) -> Option<bool> {
    let list = document.get(list)?.as_array()?;
    Some(list.iter().any(|item| item == word))
}

#[cfg(test)]
mod tests;
