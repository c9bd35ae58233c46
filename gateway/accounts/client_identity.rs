//! The gateway as a client of an authorization server, and its authentication at the token
//! endpoint: a secret, `private_key_jwt` (RFC 7523), or none.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use url::form_urlencoded::{Serializer, byte_serialize};

use crate::config::{Authentication, PreRegistered};
use crate::discovery::AuthorizationServer;
use crate::error::AccountError;

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// A client that is known to one authorization server.
pub(crate) type ClientIdentity = PreRegistered;

/// Writes the form of a request for the token endpoint, and its headers, with the client's
/// authentication.
pub(crate) fn write_form(
    client: &ClientIdentity,
    server: &AuthorizationServer,
    parameters: &[(&str, impl AsRef<str>)],
) -> Result<(HeaderMap, String), AccountError> {
    let mut headers = HeaderMap::new();
    let mut form = Serializer::new(String::new());
    form.extend_pairs(parameters.iter().map(|(name, value)| (name, value.as_ref())));
    match &client.authentication {
        Authentication::None if client.id.is_empty() => {}
        Authentication::None => {
            form.append_pair("client_id", &client.id);
        }
        Authentication::Secret(secret) | Authentication::RegisteredSecret(secret)
            if takes_secret_in_body(client, server) =>
        {
            form.append_pair("client_id", &client.id);
            form.append_pair("client_secret", secret.expose());
        }
        Authentication::Secret(secret) | Authentication::RegisteredSecret(secret) => {
            let pair = format!("{}:{}", form_encoded(&client.id), form_encoded(secret.expose()));
            let value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair)));
            let Ok(mut value) = value else {
                return Err(AccountError::Internal("the client secret cannot be sent"));
            };
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Authentication::Key(key) => {
            form.append_pair("client_id", &client.id);
            form.append_pair("client_assertion_type", ASSERTION_TYPE);
            form.append_pair("client_assertion", &key.sign(&client.id, &server.issuer)?);
        }
    }
    Ok((headers, form.finish()))
}

/// Returns whether the secret is sent in the body: as registered where the server offers it, else
/// where the server offers nothing else.
fn takes_secret_in_body(client: &ClientIdentity, server: &AuthorizationServer) -> bool {
    let is_registered = matches!(client.authentication, Authentication::RegisteredSecret(_));
    offers(server, "client_secret_post")
        && (is_registered || !offers(server, "client_secret_basic"))
}

fn offers(server: &AuthorizationServer, method: &str) -> bool {
    let methods = server.token_authentication.as_deref().unwrap_or_default();
    methods.iter().any(|offered| offered == method)
}

fn form_encoded(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}
