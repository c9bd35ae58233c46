//! Finds the authorization server of a server (RFC 9728) and its endpoints (RFC 8414, OpenID
//! Connect Discovery). Pages: basic/authorization/authorization-server-discovery.mdx (2026-07-28).

use std::time::Duration;

use lockgate_egress::{at_path, metadata_urls};
use serde_json::Value;
use url::Url;

use crate::challenge::Challenge;
use crate::error::{AccountError, Result};
use crate::fetch::{Fetched, Fetcher, LIFETIME, check_scheme, shown};

/// Maximum number of authorization servers that are tried.
const MAX_ISSUERS: usize = 4;

/// A protected resource, and the first of its authorization servers that can be used.
#[derive(Clone, Debug)]
pub(crate) struct Discovered {
    /// The value of the parameter `resource`.
    pub(crate) resource: String,
    /// The scopes that the resource announces.
    pub(crate) scopes: Option<Vec<String>>,
    /// All authorization servers that may issue tokens.
    pub(crate) issuers: Vec<String>,
    pub(crate) server: AuthorizationServer,
    /// The time for which this may be cached.
    pub(crate) lifetime: Duration,
}

/// The metadata of an authorization server.
#[derive(Clone, Debug)]
pub(crate) struct AuthorizationServer {
    pub(crate) issuer: String,
    pub(crate) authorization: Option<Url>,
    pub(crate) token: Url,
    pub(crate) registration: Option<Url>,
    pub(crate) revocation: Option<Url>,
    /// Whether PKCE with S256 is announced.
    pub(crate) has_s256: bool,
    /// Whether authorization responses carry `iss`.
    pub(crate) announces_issuer: bool,
    /// Whether Client ID Metadata Documents are accepted.
    pub(crate) takes_documents: bool,
    pub(crate) scopes: Vec<String>,
    /// `None` if not announced, which means `client_secret_basic`.
    pub(crate) token_authentication: Option<Vec<String>>,
    /// The time for which the metadata may be cached.
    pub(crate) lifetime: Duration,
}

/// The metadata of a protected resource.
struct Resource {
    resource: String,
    issuers: Vec<String>,
    scopes: Option<Vec<String>>,
    lifetime: Duration,
}

impl Resource {
    fn without_document(url: &Url) -> Self {
        Self { resource: canonical(url), issuers: Vec::new(), scopes: None, lifetime: LIFETIME }
    }
}

/// Finds the authorization server of the server at `url`. `issuer` is the only one permitted by the
/// operator, if any.
pub(crate) async fn discover(
    fetcher: &Fetcher,
    url: &Url,
    challenge: Option<&Challenge>,
    issuer: Option<&str>,
) -> Result<Discovered> {
    let found = find_resource(fetcher, url, challenge).await?;
    let has_document = found.is_some();
    let found = found.unwrap_or_else(|| Resource::without_document(url));
    let Resource { resource, issuers, scopes, lifetime } = found;
    let issuers = match issuer {
        Some(wanted) if issuers.is_empty() || issuers.iter().any(|issuer| issuer == wanted) => {
            vec![wanted.to_owned()]
        }
        Some(wanted) => {
            return Err(AccountError::Setup(format!(
                "the server names the authorization server {:.200}, but `auth.issuer` is {wanted}",
                issuers.join(", ")
            )));
        }
        None if issuers.is_empty() && has_document => {
            let words = "the resource metadata names no authorization server";
            return Err(AccountError::Invalid(words.into()));
        }
        // Servers before 2025-06-18 are their own authorization server.
        None if issuers.is_empty() => {
            let origin = origin_of(url);
            tracing::warn!("{origin} has no resource metadata, and is used as its own issuer");
            vec![origin]
        }
        None => issuers,
    };
    let mut fault = AccountError::Invalid("the server names no authorization server".into());
    for issuer in issuers.iter().take(MAX_ISSUERS) {
        match find_server(fetcher, issuer).await {
            Ok(server) => {
                let lifetime = lifetime.min(server.lifetime);
                return Ok(Discovered { resource, scopes, issuers, server, lifetime });
            }
            Err(error) => fault = error,
        }
    }
    Err(fault)
}

/// Fetches the metadata of the protected resource: from the URL in the challenge, else from the
/// well-known URLs.
async fn find_resource(
    fetcher: &Fetcher,
    url: &Url,
    challenge: Option<&Challenge>,
) -> Result<Option<Resource>> {
    if let Some(place) = challenge.and_then(|challenge| challenge.resource_metadata.as_deref()) {
        let Ok(place) = Url::parse(place) else {
            return Err(AccountError::Invalid("`resource_metadata` is not a URL".into()));
        };
        return match fetcher.get(&place).await? {
            Some(fetched) => read_resource(&fetched, url).map(Some),
            None => {
                Err(AccountError::Invalid(format!("there is no document at {}", shown(&place))))
            }
        };
    }
    let path = url.path().trim_end_matches('/');
    let mut paths = vec![format!("/.well-known/oauth-protected-resource{path}")];
    if !path.is_empty() {
        paths.push("/.well-known/oauth-protected-resource".to_owned());
    }
    for path in paths {
        if let Some(fetched) = fetcher.get(&at_path(url, &path)).await? {
            return read_resource(&fetched, url).map(Some);
        }
    }
    Ok(None)
}

fn read_resource(fetched: &Fetched, url: &Url) -> Result<Resource> {
    let Fetched { document, lifetime } = fetched;
    let resource = text(document, "resource").unwrap_or("");
    if !is_same_or_parent(resource, url) {
        return Err(AccountError::Invalid(format!(
            "the resource metadata is for {resource:.200}, not for {}",
            canonical(url)
        )));
    }
    Ok(Resource {
        resource: resource.to_owned(),
        issuers: texts(document, "authorization_servers").unwrap_or_default(),
        scopes: texts(document, "scopes_supported"),
        lifetime: *lifetime,
    })
}

/// Returns whether a resource identifies this server, or a parent of it at the same origin.
pub(crate) fn is_same_or_parent(resource: &str, url: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let path = resource.path().trim_end_matches('/');
    let own = url.path().trim_end_matches('/');
    resource.origin() == url.origin()
        && resource.fragment().is_none()
        && (resource.query().is_none() || resource.query() == url.query())
        && (own == path || own.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
}

/// Returns the canonical URI of a server, without a trailing slash.
pub(crate) fn canonical(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    let text: String = url.into();
    text.trim_end_matches('/').to_owned()
}

fn origin_of(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Fetches the metadata of an authorization server from its well-known URLs, in the order of the
/// specification.
pub(crate) async fn find_server(fetcher: &Fetcher, issuer: &str) -> Result<AuthorizationServer> {
    let Ok(base) = Url::parse(issuer) else {
        return Err(AccountError::Invalid(format!("the issuer {issuer:.200} is not a URL")));
    };
    check_scheme(&base)?;
    let mut fault = None;
    for place in metadata_urls(&base) {
        match fetcher.get(&place).await {
            Ok(Some(fetched)) => match read_server(&fetched, issuer) {
                Ok(server) => return Ok(server),
                Err(error) => fault = Some(error),
            },
            Ok(None) => {}
            Err(error) => fault = Some(error),
        }
    }
    let none = format!("the authorization server {} has no metadata", shown(&base));
    Err(fault.unwrap_or(AccountError::Invalid(none)))
}

fn read_server(fetched: &Fetched, issuer: &str) -> Result<AuthorizationServer> {
    let Fetched { document, lifetime } = fetched;
    let named = text(document, "issuer").unwrap_or("");
    if named != issuer {
        return Err(AccountError::Invalid(format!(
            "the metadata of {issuer:.200} is for another issuer ({named:.200})"
        )));
    }
    let Some(token) = endpoint(document, "token_endpoint")? else {
        return Err(AccountError::Invalid(format!("{issuer:.200} has no token endpoint")));
    };
    let methods = texts(document, "code_challenge_methods_supported").unwrap_or_default();
    Ok(AuthorizationServer {
        issuer: issuer.to_owned(),
        authorization: endpoint(document, "authorization_endpoint")?,
        token,
        registration: endpoint(document, "registration_endpoint")?,
        revocation: endpoint(document, "revocation_endpoint")?,
        has_s256: methods.iter().any(|method| method == "S256"),
        announces_issuer: flag(document, "authorization_response_iss_parameter_supported"),
        takes_documents: flag(document, "client_id_metadata_document_supported"),
        scopes: texts(document, "scopes_supported").unwrap_or_default(),
        token_authentication: texts(document, "token_endpoint_auth_methods_supported"),
        lifetime: *lifetime,
    })
}

fn endpoint(document: &Value, name: &str) -> Result<Option<Url>> {
    let Some(text) = text(document, name) else { return Ok(None) };
    let url =
        Url::parse(text).map_err(|_| AccountError::Invalid(format!("`{name}` is not a URL")))?;
    check_scheme(&url)?;
    Ok(Some(url))
}

fn text<'a>(document: &'a Value, name: &str) -> Option<&'a str> {
    document.get(name)?.as_str()
}

fn texts(document: &Value, name: &str) -> Option<Vec<String>> {
    let items = document.get(name)?.as_array()?;
    let texts = items.iter().filter_map(Value::as_str);
    Some(texts.map(str::to_owned).collect())
}

fn flag(document: &Value, name: &str) -> bool {
    document.get(name) == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests;
