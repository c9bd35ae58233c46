//! The target of a request (a tool, prompt or resource of a server, or a completion for one), and
//! its caller as policies see it: the result of authentication, borrowed, without anything that the
//! client declares about itself.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use lockgate_text::{json, percent};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

lockgate_text::words! {
    /// The kind of a target, with its name in conditions and messages.
    pub enum TargetKind {
        Tool = "tool",
        Prompt = "prompt",
        /// A resource or a resource template.
        Resource = "resource",
        /// Values for the arguments of a prompt.
        PromptCompletion = "completion",
        /// Values for the variables of a resource template.
        ResourceCompletion = "completion",
    }
}

impl TargetKind {
    /// Returns the kind of the completed item.
    pub(crate) fn completed(self) -> Option<Self> {
        match self {
            Self::PromptCompletion => Some(Self::Prompt),
            Self::ResourceCompletion => Some(Self::Resource),
            Self::Tool | Self::Prompt | Self::Resource => None,
        }
    }
}

/// The target of a request.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub kind: TargetKind,
    /// The slug of the server.
    pub server: &'a str,
    /// The organisation that owns the server; `None` for servers of the operator. Policies do not
    /// match on it, but rates by server count by it.
    pub organisation: Option<&'a str>,
    /// The name or URI at `/mcp`.
    pub exposed: &'a str,
    /// The name or URI at the server.
    pub own: &'a str,
    /// The category of a built-in server (`file`, `shell`, `web`, …); `None` for every other
    /// server.
    pub category: Option<&'a str>,
    pub annotations: Annotations,
}

/// The annotations that a server declares for a tool. Missing ones have the defaults of the
/// specification: the tool may change and destroy things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default, rename_all = "snake_case")]
pub struct Annotations {
    pub read_only: bool,
    pub destructive: bool,
    pub idempotent: bool,
    pub open_world: bool,
}

impl Default for Annotations {
    fn default() -> Self {
        Self { read_only: false, destructive: true, idempotent: false, open_world: true }
    }
}

impl Annotations {
    /// Reads the annotations of a tool's definition (JSON text). A missing or invalid annotation
    /// has the default of the specification.
    pub fn of_tool(definition: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Definition {
            annotations: Claims,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Claims {
            read_only_hint: Option<bool>,
            destructive_hint: Option<bool>,
            idempotent_hint: Option<bool>,
            open_world_hint: Option<bool>,
        }
        let default = Self::default();
        let Ok(Definition { annotations: claims }) = json::from_slice(definition) else {
            return default;
        };
        let read_only = claims.read_only_hint.unwrap_or(default.read_only);
        Self {
            read_only,
            // The hint applies only to tools that are not read-only.
            destructive: !read_only && claims.destructive_hint.unwrap_or(default.destructive),
            idempotent: claims.idempotent_hint.unwrap_or(default.idempotent),
            open_world: claims.open_world_hint.unwrap_or(default.open_world),
        }
    }
}

impl Target<'_> {
    /// Returns the spellings of the target in patterns, without duplicates.
    pub(crate) fn spellings(&self) -> Vec<Cow<'_, str>> {
        let mut all =
            vec![Cow::Borrowed(self.exposed), Cow::Owned(format!("{}/{}", self.server, self.own))];
        let third = match self.kind {
            TargetKind::Resource | TargetKind::ResourceCompletion => Cow::Borrowed(self.own),
            _ => Cow::Owned(format!("{}__{}", self.server, self.own)),
        };
        if third != self.exposed {
            all.push(third);
        }
        all
    }
}

/// The issuer of callers without a credential.
pub const ANONYMOUS: &str = "anonymous";

/// An authenticated caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subject<'a> {
    /// A hash of the principal. Not read by this crate.
    pub key: u64,
    pub issuer: &'a str,
    pub subject: &'a str,
    pub organisation: Option<&'a str>,
    pub roles: &'a [Arc<str>],
    pub scopes: &'a [Arc<str>],
    /// The software that acts for the subject, as named by the credential.
    pub agent: Option<&'a str>,
    pub certificate: Option<Certificate<'a>>,
}

/// The verified client certificate of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Certificate<'a> {
    /// All names of the holder, prefixed with their kind, such as `dns:ci.example.com`.
    pub names: &'a [Box<str>],
    /// SHA-256 in hexadecimal digits.
    pub fingerprint: &'a str,
}

impl Subject<'_> {
    /// Returns the caller's name in policies and logs: `issuer|subject`.
    pub fn principal(&self) -> String {
        format!("{}|{}", self.issuer, self.subject)
    }

    pub fn is_anonymous(&self) -> bool {
        self.issuer == ANONYMOUS
    }

    /// Returns the names and the fingerprint of the certificate; empty without a certificate.
    pub(crate) fn certificates(&self) -> Vec<String> {
        let Some(certificate) = self.certificate else { return Vec::new() };
        let names = certificate.names.iter().map(ToString::to_string);
        names.chain([format!("sha256:{}", certificate.fingerprint)]).collect()
    }
}

// Alternative forms of a resource's URI, which are matched against `deny` policies. The gateway
// forwards canonical URIs, and URIs that a server lists. Servers differ in how they treat escapes,
// the query, a trailing slash, the user, port and case of a host, and the slashes after the scheme.
// An `allow` policy is matched against the URI as written.

/// Slashes between scheme and rest, for servers that do not separate host and path.
const SLASHES: [&str; 4] = ["", "/", "//", "///"];

impl Target<'_> {
    /// Returns the other forms of a resource, exposed and own; empty for targets with names.
    pub(crate) fn denied_forms(&self) -> Vec<(String, String)> {
        if !matches!(self.kind, TargetKind::Resource | TargetKind::ResourceCompletion) {
            return Vec::new();
        }
        let mut all = forms(self.own);
        all.remove(self.own);
        all.into_iter().map(|own| (self.exposes(&own), own)).collect()
    }

    /// Returns the exposed URI for a form of the server's own URI, with the mark of the server in
    /// its current position.
    fn exposes(&self, form: &str) -> String {
        if let Some(mark) = self.exposed.strip_suffix(self.own) {
            return [mark, form].concat();
        }
        if let Some((_, exposed)) = self.exposed.split_once("://")
            && let Some((_, own)) = self.own.split_once("://")
            && let Some(mark) = exposed.strip_suffix(own)
            && let Some((scheme, rest)) = form.split_once("://")
        {
            return [scheme, "://", mark, rest].concat();
        }
        form.to_owned()
    }
}

/// Decodes a single layer of escapes.
pub(crate) fn decoded(text: &str) -> Cow<'_, str> {
    match percent::decode(text.as_bytes()) {
        Some(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        None => Cow::Borrowed(text),
    }
}

fn forms(uri: &str) -> BTreeSet<String> {
    let uri = decoded(uri);
    let colon = uri.find(':').map_or(0, |at| at + 1);
    let (scheme, rest) = uri.split_at(colon);
    let scheme = scheme.to_ascii_lowercase();
    let below = rest.trim_start_matches('/');
    let has_host = rest.len() - below.len() == "//".len();
    let path = below.split(['?', '#']).next().unwrap_or("");
    let mut all = BTreeSet::new();
    for tail in [below, path, path.trim_end_matches('/')] {
        let (authority, rest) = tail.split_at(tail.find(['/', '?', '#']).unwrap_or(tail.len()));
        let lower = authority.to_ascii_lowercase();
        let authorities =
            if has_host { &[authority, &lower, host(&lower)][..] } else { &[authority] };
        for authority in authorities {
            for slashes in SLASHES {
                all.insert([&scheme, slashes, authority, rest].concat());
            }
        }
    }
    all
}

/// Returns an authority without user and port.
fn host(authority: &str) -> &str {
    let host = authority.rsplit('@').next().unwrap_or("");
    match host.split_once(']') {
        Some((address, _)) => &host[..=address.len()],
        None => host.split(':').next().unwrap_or(""),
    }
}
