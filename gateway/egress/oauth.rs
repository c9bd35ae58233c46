//! What the clients of OAuth share: the URLs of an issuer's metadata, and the client secret.

use http::HeaderValue;
use url::Url;
use url::form_urlencoded::byte_serialize;

use crate::proxy::basic;

/// Returns the well-known URLs of an issuer's metadata in the order of the specification: RFC 8414,
/// then OpenID Connect.
pub fn metadata_urls(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut urls = vec![
        at_path(issuer, &format!("/.well-known/oauth-authorization-server{path}")),
        at_path(issuer, &format!("/.well-known/openid-configuration{path}")),
    ];
    if !path.is_empty() {
        urls.push(at_path(issuer, &format!("{path}/.well-known/openid-configuration")));
    }
    urls
}

/// Returns the URL of this path at the same origin.
pub fn at_path(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// Returns the value of `Authorization` with a client's id and secret, each encoded as a form field
/// (RFC 6749, section 2.3.1); `None` if it is too long.
pub fn client_secret_basic(id: &str, secret: &str) -> Option<HeaderValue> {
    basic(&encode_field(id), &encode_field(secret))
}

fn encode_field(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}
