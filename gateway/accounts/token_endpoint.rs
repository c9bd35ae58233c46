//! Requests to a token endpoint, and their responses (RFC 6749, section 5). A request is sent once.
//! The gateway authenticates with a secret, `private_key_jwt` (RFC 7523), or not at all.

use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use lockgate_egress::client_secret_basic;
use lockgate_store::Secret;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use crate::config::{Authentication, PreRegistered};
use crate::discovery::AuthorizationServer;
use crate::error::{AccountError, Result, shown_code};
use crate::fetch::{FORM, Fetcher};

/// The grant type of assertions (RFC 7523).
pub(crate) const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// Longest token that is accepted, in bytes.
const MAX_TOKEN: usize = 16 * 1024;
/// Longest lifetime that is believed.
const MAX_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// The response of a token endpoint.
#[derive(Clone)]
pub(crate) struct Tokens {
    /// The value of `Authorization`.
    pub(crate) header: HeaderValue,
    pub(crate) lifetime: Option<Duration>,
    pub(crate) refresh: Option<Secret>,
    /// `None` if the granted scopes are those requested.
    pub(crate) scopes: Option<Vec<String>>,
}

// Shows no token.
lockgate_text::debug_fields!(Tokens: lifetime);

/// Requests tokens with the parameters of a grant type.
pub(crate) async fn request_tokens(
    fetcher: &Fetcher,
    server: &AuthorizationServer,
    client: &ClientIdentity,
    parameters: &[(&str, &str)],
) -> Result<Tokens> {
    read_tokens(&request_answer(fetcher, server, client, parameters).await?)
}

/// Requests tokens, and returns the successful answer.
pub(crate) async fn request_answer(
    fetcher: &Fetcher,
    server: &AuthorizationServer,
    client: &ClientIdentity,
    parameters: &[(&str, impl AsRef<str>)],
) -> Result<Value> {
    let (headers, form) = write_form(client, server, parameters)?;
    let (status, answer) = fetcher.post(&server.token, FORM, headers, form).await?;
    if status == StatusCode::OK { Ok(answer) } else { Err(read_error(status, &answer)) }
}

/// Revokes a token, where the server offers it (RFC 7009).
pub(crate) async fn revoke_token(
    fetcher: &Fetcher,
    server: &AuthorizationServer,
    client: &ClientIdentity,
    parameters: &[(&str, &str)],
) -> Result<()> {
    let Some(endpoint) = &server.revocation else { return Ok(()) };
    let (headers, form) = write_form(client, server, parameters)?;
    let (status, answer) = fetcher.post(endpoint, FORM, headers, form).await?;
    if status.is_success() { Ok(()) } else { Err(read_error(status, &answer)) }
}

/// Reads the tokens of a successful answer.
pub(crate) fn read_tokens(answer: &Value) -> Result<Tokens> {
    let Some(token) = text(answer, "access_token") else {
        return Err(AccountError::Invalid("the token response has no access token".into()));
    };
    if !text(answer, "token_type").unwrap_or("").eq_ignore_ascii_case("bearer") {
        return Err(AccountError::Invalid("the token is not a bearer token".into()));
    }
    let header = write_header(token)?;
    let refresh = text(answer, "refresh_token").filter(|token| token.len() <= MAX_TOKEN);
    let scopes = text(answer, "scope").map(read_scopes);
    let refresh = refresh.map(|token| Secret::new(token.to_owned()));
    Ok(Tokens { header, lifetime: read_lifetime(answer), refresh, scopes })
}

fn read_scopes(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Returns the value of `Authorization` with a token.
pub(crate) fn write_header(token: &str) -> Result<HeaderValue> {
    let is_sendable = token.len() <= MAX_TOKEN && token.bytes().all(|b| b.is_ascii_graphic());
    let header = HeaderValue::from_str(&format!("Bearer {token}")).ok();
    let Some(mut header) = header.filter(|_| is_sendable) else {
        return Err(AccountError::Invalid("the access token cannot be sent in a header".into()));
    };
    header.set_sensitive(true);
    Ok(header)
}

fn read_error(status: StatusCode, answer: &Value) -> AccountError {
    let code = text(answer, "error");
    // A 401 without a code is the response of a proxy.
    let is_proxy = status == StatusCode::UNAUTHORIZED && code.is_none();
    match code {
        _ if is_proxy || status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            let status = status.as_u16();
            AccountError::Unreachable(format!(
                "the token endpoint answered with HTTP status {status}"
            ))
        }
        Some("invalid_grant") => AccountError::InvalidGrant,
        Some("invalid_client") => AccountError::InvalidClient,
        Some(code) => AccountError::Refused(shown_code(code).into_owned()),
        None => AccountError::Refused(format!("HTTP status {}", status.as_u16())),
    }
}

/// Reads `expires_in`, which some servers send as text.
fn read_lifetime(answer: &Value) -> Option<Duration> {
    let seconds = match answer.get("expires_in")? {
        Value::String(text) => text.parse().ok()?,
        number => number.as_u64()?,
    };
    Some(Duration::from_secs(seconds).min(MAX_LIFETIME))
}

fn text<'a>(answer: &'a Value, name: &str) -> Option<&'a str> {
    answer.get(name)?.as_str()
}

#[cfg(test)]
mod tests;

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// A client that is known to one authorization server.
pub(crate) type ClientIdentity = PreRegistered;

/// Writes the form of a request for the token endpoint, and its headers, with the client's
/// authentication.
pub(crate) fn write_form(
    client: &ClientIdentity,
    server: &AuthorizationServer,
    parameters: &[(&str, impl AsRef<str>)],
) -> Result<(HeaderMap, String)> {
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
            let value = client_secret_basic(&client.id, secret.expose());
            let unfit = AccountError::Internal("the client secret cannot be sent");
            headers.insert(AUTHORIZATION, value.ok_or(unfit)?);
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
