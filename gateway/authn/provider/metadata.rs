//! The part of a provider's metadata that sign-in needs.

use serde_json::Value;
use url::Url;

use crate::discovery::read_address;

pub(super) struct Metadata {
    pub(super) authorization: Url,
    pub(super) token: Url,
    /// The sign-out endpoint (OpenID Connect RP-Initiated Logout 1.0), if any.
    pub(super) end_session: Option<Url>,
    /// Whether the provider includes `iss` in every answer (RFC 9207).
    pub(super) announces_issuer: bool,
    pub(super) secret_place: SecretPlace,
}

/// The location of the client secret in a token request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecretPlace {
    /// `client_secret_basic`
    Header,
    /// `client_secret_post`
    Body,
    /// Neither is accepted, and this gateway supports no other method.
    Nowhere,
}

impl Metadata {
    /// Reads the metadata of a provider. A provider without a list of PKCE methods is accepted: it
    /// may support PKCE, which is always sent, and the nonce protects the sign-in in any case.
    ///
    /// # Errors
    /// A member is missing, or weaker than required.
    pub(super) fn read(document: &Value, issuer: &str) -> Result<Self, String> {
        if !offers(document, "code_challenge_methods_supported", "S256").unwrap_or(true) {
            return Err("the provider does not support PKCE with S256".into());
        }
        if !offers(document, "response_types_supported", "code").unwrap_or(true) {
            return Err("the provider does not support the response type `code`".into());
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

/// Returns the location of the secret. The default is `client_secret_basic` (RFC 8414, section 2).
fn find_secret_place(document: &Value) -> SecretPlace {
    let list = "token_endpoint_auth_methods_supported";
    let takes_header = offers(document, list, "client_secret_basic");
    match (takes_header, offers(document, list, "client_secret_post")) {
        (None | Some(true), _) => SecretPlace::Header,
        (_, Some(true)) => SecretPlace::Body,
        _ => SecretPlace::Nowhere,
    }
}

/// Returns whether a list contains a word; `None` without a list.
fn offers(document: &Value, list: &str, word: &str) -> Option<bool> {
    let list = document.get(list)?.as_array()?;
    Some(list.iter().any(|item| item == word))
}

#[cfg(test)]
mod tests;
