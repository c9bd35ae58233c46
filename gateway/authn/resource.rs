//! Endpoints as OAuth protected resources (RFC 9728): their URLs, metadata documents and
//! challenges. URLs come from the configuration, never from a request. Reference:
//! basic/authorization (2026-07-28).

use std::borrow::Cow;

use serde_json::json;

use crate::config::Config;
use crate::principal::AuthnError;

/// The path of metadata documents, before the path of the resource.
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// An endpoint, which is a resource with its own audience.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource<'a> {
    /// `/mcp`
    All,
    /// `/{kind}/{name}/mcp`: of `servers` by slug, `agents` by id, or `endpoints` by name.
    Named { kind: &'a str, name: &'a str },
}

impl<'a> Resource<'a> {
    /// Returns the path of the endpoint's URL.
    pub fn path(self) -> Cow<'static, str> {
        match self {
            Self::All => Cow::Borrowed("/mcp"),
            Self::Named { kind, name } => Cow::Owned(format!("/{kind}/{name}/mcp")),
        }
    }

    fn parse(path: &'a str) -> Option<Self> {
        if path == "/mcp" {
            return Some(Self::All);
        }
        let (kind, name) = path.strip_prefix('/')?.strip_suffix("/mcp")?.split_once('/')?;
        Some(Self::Named { kind, name })
    }

    fn is_well_formed(self) -> bool {
        match self {
            Self::All => true,
            Self::Named { kind: "agents", name } => is_agent_id(name),
            Self::Named { kind, name } => matches!(kind, "servers" | "endpoints") && is_slug(name),
        }
    }
}

pub(crate) struct Names {
    /// Scheme, host and port in lower case, without a default port.
    origin: String,
    /// The path before `/mcp`: empty, or `/something`.
    prefix: String,
    issuers: Vec<String>,
    required: String,
    supported: Vec<String>,
}

impl Names {
    pub(crate) fn new(config: &Config) -> Option<Self> {
        if config.issuers.is_empty() {
            return None;
        }
        let url = config.public_url.as_ref()?;
        let issuers = config.issuers.values().map(|issuer| issuer.issuer.clone()).collect();
        let mut supported = config.scopes.required.clone();
        for rule in &config.scopes.tools {
            for scope in &rule.scopes {
                if !supported.contains(scope) {
                    supported.push(scope.clone());
                }
            }
        }
        Some(Self {
            origin: url.origin().ascii_serialization(),
            prefix: url.path().trim_end_matches('/').to_owned(),
            issuers,
            required: config.scopes.required.join(" "),
            supported,
        })
    }

    pub(crate) fn url(&self, resource: Resource<'_>) -> String {
        format!("{}{}{}", self.origin, self.prefix, resource.path())
    }

    /// Returns whether an audience is the URL of this endpoint. Does not allocate.
    pub(crate) fn is(&self, audience: &str, resource: Resource<'_>) -> bool {
        let Some((origin, rest)) = audience.split_at_checked(self.origin.len()) else {
            return false;
        };
        let Some(path) = rest.strip_prefix(&*self.prefix) else { return false };
        Resource::parse(path) == Some(resource) && origin.eq_ignore_ascii_case(&self.origin)
    }

    /// Returns the document at a path that begins with [`WELL_KNOWN`], with or without the public
    /// prefix. Every well-formed name has a document, so that the existence of servers and agents
    /// is not disclosed.
    pub(crate) fn document(&self, path: &str) -> Option<String> {
        let inner = path.strip_prefix(WELL_KNOWN)?;
        let inner = inner.strip_prefix(&*self.prefix).unwrap_or(inner);
        let resource = if inner.is_empty() { Some(Resource::All) } else { Resource::parse(inner) };
        let resource = resource.filter(|resource| resource.is_well_formed())?;
        let mut document = json!({
            "resource": self.url(resource),
            "authorization_servers": self.issuers,
            "bearer_methods_supported": ["header"],
        });
        if !self.supported.is_empty() {
            document["scopes_supported"] = json!(self.supported);
        }
        Some(document.to_string())
    }

    /// Returns the value of `WWW-Authenticate`, with the scopes that the request needs (RFC 6750,
    /// section 3).
    pub(crate) fn challenge(
        &self,
        error: Option<(&str, &str)>,
        scopes: Option<&str>,
        at: Resource<'_>,
    ) -> String {
        let metadata = format!("{}{WELL_KNOWN}{}{}", self.origin, self.prefix, at.path());
        write_challenge(error, scopes.unwrap_or(&self.required), Some(&metadata))
    }
}

/// Writes the value of `WWW-Authenticate`. Empty scopes are left out.
pub(crate) fn write_challenge(
    error: Option<(&str, &str)>,
    scopes: &str,
    metadata: Option<&str>,
) -> String {
    let mut parts = Vec::with_capacity(4);
    if let Some((error, words)) = error {
        parts.push(format!("error=\"{error}\""));
        parts.push(format!("error_description=\"{words}\""));
    }
    if !scopes.is_empty() {
        parts.push(format!("scope=\"{scopes}\""));
    }
    parts.extend(metadata.map(|url| format!("resource_metadata=\"{url}\"")));
    format!("Bearer {}", parts.join(", ")).trim_end().to_owned()
}

fn is_agent_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

fn is_slug(slug: &str) -> bool {
    (1..=64).contains(&slug.len())
        && slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Returns the error code of RFC 6750 for a refusal. There is none for missing credentials and for
/// unavailable keys.
pub(crate) fn error_of(unknown: AuthnError) -> Option<&'static str> {
    match unknown {
        AuthnError::Missing | AuthnError::Unavailable => None,
        AuthnError::Invalid | AuthnError::Expired | AuthnError::Revoked | AuthnError::Audience => {
            Some("invalid_token")
        }
        AuthnError::Scope => Some("insufficient_scope"),
    }
}

#[cfg(test)]
mod tests;
