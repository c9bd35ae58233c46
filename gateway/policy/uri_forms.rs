//! Alternative forms of a resource's URI, which are matched against `deny` policies. The gateway
//! forwards canonical URIs, and URIs that a server lists. Servers differ in how they treat escapes,
//! the query, a trailing slash, the user, port and case of a host, and the slashes after the
//! scheme. An `allow` policy is matched against the URI as written.

use std::borrow::Cow;
use std::collections::BTreeSet;

use lockgate_text::percent;

use crate::Target;
use crate::target::TargetKind;

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
