//! Finds and verifies the metadata of an issuer. URLs in the metadata must be as secure as the
//! issuer's own, and may lead to an internal address only at the issuer's own origin.

use lockgate_egress::Policy;
use serde_json::Value;
use url::Url;

use crate::fetch::Outside;

/// Returns the result of `read` for the first usable metadata document: RFC 8414, then OpenID
/// Connect, in the order of the specification.
pub(crate) async fn find<T>(
    issuer: &str,
    outside: &Outside,
    read: impl Fn(&Value) -> Result<T, String>,
) -> Result<T, String> {
    let mut faults = Vec::new();
    for place in places(issuer)? {
        let fault = match outside.get(&place, Policy::Operator).await {
            Ok(document) if !is_of(&document, issuer) => {
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
    let Some(url) = read_url(document, name) else {
        return Err(format!("the metadata has no `{name}`"));
    };
    let is_secure =
        url.scheme() == "https" || url.scheme() == "http" && issuer.starts_with("http:");
    if is_secure { Ok(url) } else { Err(format!("`{name}` is not https")) }
}

fn read_url(document: &Value, name: &str) -> Option<Url> {
    Url::parse(document.get(name)?.as_str()?).ok()
}

/// Returns the egress policy for a URL in an issuer's metadata. The operator did not configure the
/// URL, so only the issuer's own origin may be internal.
pub(crate) fn policy_for(url: &Url, issuer: &str) -> Policy {
    match Url::parse(issuer) {
        Ok(issuer) if issuer.origin() == url.origin() => Policy::Operator,
        _ => Policy::Public,
    }
}

fn is_of(document: &Value, issuer: &str) -> bool {
    matches!(document.get("issuer"), Some(Value::String(named)) if named == issuer)
}

pub(crate) fn places(issuer: &str) -> Result<Vec<Url>, String> {
    let base = Url::parse(issuer).map_err(|error| error.to_string())?;
    let path = base.path().trim_end_matches('/');
    let mut places = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{path}/.well-known/openid-configuration"));
    }
    let mut urls = Vec::new();
    for path in places {
        let mut url = base.clone();
        url.set_path(&path);
        url.set_query(None);
        urls.push(url);
    }
    Ok(urls)
}

#[cfg(test)]
mod tests;
