//! Fetches JSON documents from an issuer, through egress and bounded in size and time, and finds
//! and verifies its metadata. Redirects are not followed. URLs in the metadata must be as secure as
//! the issuer's own, and may lead to an internal address only at the issuer's own origin.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use lockgate_egress::{Connector, Origin, Payload, Policy, metadata_urls};
use lockgate_text::json;
use serde_json::Value;
use url::Url;

use crate::claims::text;

/// Returns the result of `read` for the first usable metadata document: RFC 8414, then OpenID
/// Connect, in the order of the specification.
pub(crate) async fn find<T>(
    issuer: &str,
    connector: &Arc<Connector>,
    read: impl Fn(&Value) -> Result<T, String>,
) -> Result<T, String> {
    let mut faults = Vec::new();
    let base = Url::parse(issuer).map_err(|error| error.to_string())?;
    for place in metadata_urls(&base) {
        let fault = match fetch_json(connector, &place, Policy::Operator).await {
            Ok(document) if text(&document, "issuer") != Some(issuer) => {
                "the metadata is for another issuer".into()
            }
            // The RFC 8414 document may be incomplete where that of OpenID Connect is not.
            Ok(document) => match read(&document) {
                Ok(found) => return Ok(found),
                Err(fault) => fault,
            },
            Err(fault) => fault,
        };
        faults.push(format!("{}: {fault}", place.path()));
    }
    Err(format!("no usable metadata ({})", faults.join("; ")))
}

/// Reads a URL from the issuer's metadata, which must be as secure as the issuer's own.
pub(crate) fn read_address(document: &Value, name: &str, issuer: &str) -> Result<Url, String> {
    let url = text(document, name).and_then(|url| Url::parse(url).ok());
    let url = url.ok_or_else(|| format!("the metadata has no `{name}`"))?;
    let is_secure =
        url.scheme() == "https" || url.scheme() == "http" && issuer.starts_with("http:");
    if is_secure { Ok(url) } else { Err(format!("`{name}` is not https")) }
}

/// Returns the egress policy for a URL in an issuer's metadata. The operator did not configure the
/// URL, so only the issuer's own origin may be internal.
pub(crate) fn policy_for(url: &Url, issuer: &str) -> Policy {
    let is_own = Url::parse(issuer).is_ok_and(|issuer| issuer.origin() == url.origin());
    if is_own { Policy::Operator } else { Policy::Public }
}

/// Maximum size of a document, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// Fetches a document. `policy` is `Policy::Operator` for a URL that the operator configured.
///
/// # Errors
/// A description of why there is no document.
pub async fn fetch_json(
    connector: &Arc<Connector>,
    url: &Url,
    policy: Policy,
) -> Result<Value, String> {
    match ask(connector, url, policy, Request::new(Bytes::new().into())).await? {
        (StatusCode::OK, bytes) => read(&bytes),
        (status, _) => Err(format!("the response status is {status}")),
    }
}

/// Posts a form and returns the response, which must be JSON.
pub(crate) async fn post_form(
    connector: &Arc<Connector>,
    url: &Url,
    policy: Policy,
    headers: HeaderMap,
    form: String,
) -> Result<(StatusCode, Value), String> {
    let mut request = Request::new(Bytes::from(form).into());
    *request.method_mut() = Method::POST;
    *request.headers_mut() = headers;
    let (status, bytes) = ask(connector, url, policy, request).await?;
    match read(&bytes) {
        Err(_) if status != StatusCode::OK => Err(format!("the response status is {status}")),
        answer => Ok((status, answer?)),
    }
}

async fn ask(
    connector: &Arc<Connector>,
    url: &Url,
    policy: Policy,
    request: Request<Payload>,
) -> Result<(StatusCode, Bytes), String> {
    let origin = Origin::new(Arc::clone(connector), url, policy);
    let origin = origin.map_err(|error| error.to_string())?;
    let response = origin.fetch(request, MAX_BYTES).await?;
    Ok((response.status(), response.into_body()))
}

fn read(bytes: &[u8]) -> Result<Value, String> {
    json::from_slice(bytes).map_err(|error| format!("the response is not JSON: {error}"))
}

#[cfg(test)]
mod tests;
