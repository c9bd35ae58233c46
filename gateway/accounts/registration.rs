//! The gateway's client id at an authorization server: registered by the operator, a Client ID
//! Metadata Document, or registered dynamically (RFC 7591). Ids of one issuer are never used at
//! another. Page: basic/authorization/client-registration.mdx (2026-07-28).

use http::HeaderMap;
use lockgate_store::Secret;
use serde_json::{Value, json};
use url::Url;

use crate::config::Authentication;
use crate::discovery::AuthorizationServer;
use crate::error::{AccountError, Result, shown_code};
use crate::fetch::{Fetcher, check_scheme};
use crate::token_endpoint::ClientIdentity;

/// Path of the gateway's Client ID Metadata Document, below its public address.
pub(crate) const DOCUMENT_PATH: &str = "oauth/client.json";
/// Path of the redirect URI.
pub(crate) const CALLBACK_PATH: &str = "oauth/callback";
const CLIENT_NAME: &str = "Lockgate";
const JSON: &str = "application/json";

/// Returns a URL below the gateway's public address.
pub(crate) fn below(public_url: &Url, path: &str) -> Url {
    let mut url = public_url.clone();
    let base = url.path().trim_end_matches('/').to_owned();
    url.set_path(&format!("{base}/{path}"));
    url
}

/// Returns the Client ID Metadata Document.
pub(crate) fn document(public_url: &Url) -> Value {
    let mut document = description(public_url);
    document["client_id"] = below(public_url, DOCUMENT_PATH).as_str().into();
    document["client_uri"] = public_url.as_str().into();
    document
}

fn description(public_url: &Url) -> Value {
    json!({
        "client_name": CLIENT_NAME,
        "redirect_uris": [below(public_url, CALLBACK_PATH).as_str()],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    })
}

/// Returns the client id to use where the operator registered none.
pub(crate) async fn register(
    fetcher: &Fetcher,
    server: &AuthorizationServer,
    public_url: &Url,
    scopes: &[String],
) -> Result<ClientIdentity> {
    if server.takes_documents && public_url.scheme() == "https" {
        let id = below(public_url, DOCUMENT_PATH).into();
        return Ok(ClientIdentity { id, authentication: Authentication::None });
    }
    let Some(endpoint) = &server.registration else {
        return Err(AccountError::Setup(format!(
            "{:.200} offers no registration of clients: register one there with the redirect URI \
                {}, and write its id into `auth.client_id` of the server",
            server.issuer,
            below(public_url, CALLBACK_PATH),
        )));
    };
    let mut request = description(public_url);
    let method = choose_authentication(server);
    request["token_endpoint_auth_method"] = method.into();
    // Some servers grant a client no scope that it did not register.
    if !scopes.is_empty() {
        request["scope"] = scopes.join(" ").into();
    }
    // OpenID Connect Registration permits plain http and loopback only to native applications.
    let is_native = public_url.scheme() == "http" && check_scheme(public_url).is_ok();
    request["application_type"] = if is_native { "native" } else { "web" }.into();
    let sent = fetcher.post(endpoint, JSON, HeaderMap::new(), request.to_string());
    let (status, answer) = sent.await?;
    if !status.is_success() {
        let code = answer["error"].as_str().unwrap_or("no error code");
        return Err(AccountError::Refused(format!(
            "{:.200} refused to register the gateway: HTTP status {}, {}",
            server.issuer,
            status.as_u16(),
            shown_code(code),
        )));
    }
    read_client(&answer)
}

/// Returns the method of authentication with a secret that the server offers, or `none`. Servers on
/// the Python SDK accept `client_secret_basic` only with a `client_id` that others reject.
fn choose_authentication(server: &AuthorizationServer) -> &'static str {
    let Some(offered) = &server.token_authentication else { return "client_secret_basic" };
    let methods = ["client_secret_post", "client_secret_basic"];
    let found = methods.into_iter().find(|method| offered.iter().any(|offer| offer == method));
    found.unwrap_or("none")
}

fn read_client(answer: &Value) -> Result<ClientIdentity> {
    let Some(id) = answer["client_id"].as_str() else {
        return Err(AccountError::Invalid("the registration response has no client id".into()));
    };
    let secret = answer["client_secret"].as_str().map(|secret| Secret::new(secret.to_owned()));
    let authentication = secret.map_or(Authentication::None, Authentication::RegisteredSecret);
    Ok(ClientIdentity { id: id.to_owned(), authentication })
}
