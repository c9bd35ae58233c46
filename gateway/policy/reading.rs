//! How else a server may read the URI of a resource: without its escapes, its doubled slashes and its query, in another case.
//! What is denied is denied however it is spelled. An `allow` is held against the URI as it stands.

use std::borrow::Cow;

use crate::Target;
use crate::target::Kind;

/// Servers that decode an escape decode it once; some are behind others that did it before.
const DECODINGS: usize = 3;

impl Target<'_> {
    /// Other readings of a resource, exposed and own; nothing for what has names.
    pub(crate) fn readings(&self) -> Vec<(String, String)> {
        if !matches!(self.kind, Kind::Resource | Kind::ResourceCompletion) {
            return Vec::new();
        }
        let mut pairs: Vec<_> = readings(self.exposed).into_iter().zip(readings(self.own)).collect();
        pairs.retain(|(exposed, own)| exposed != self.exposed || own != self.own);
        pairs.dedup();
        pairs
    }
}

/// The readings of a URI; as many for an exposed one as for the same one of its server.
fn readings(uri: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut text = Cow::Borrowed(uri);
    for _ in 0..=DECODINGS {
        let plain = plain(&text);
        let end = plain.find(['?', '#']).unwrap_or(plain.len());
        all.push(plain.get(..end).unwrap_or_default().to_owned());
        all.push(plain);
        match decoded(&text) {
            Some(decoded) => text = Cow::Owned(decoded),
            None => break,
        }
    }
    all
}

/// Scheme and host in lower case, and one slash where several stand.
fn plain(uri: &str) -> String {
    let (scheme, rest) = uri.split_once(':').unwrap_or(("", uri));
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len())),
        None => ("", rest),
    };
    let mut plain = scheme.to_ascii_lowercase();
    if rest.len() < uri.len() {
        plain.push(':');
    }
    if rest.starts_with("//") {
        plain.push_str("//");
        plain.push_str(&host.to_ascii_lowercase());
    }
    let mut slash = false;
    for c in path.chars().filter(|&c| !(std::mem::replace(&mut slash, c == '/') && c == '/')) {
        plain.push(c);
    }
    plain
}

/// The text without one layer of percent escapes; `None` when it has none.
fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest, mut found) = (Vec::with_capacity(text.len()), text.as_bytes(), false);
    while let [first, tail @ ..] = rest {
        let digit = |at: usize| tail.get(at).and_then(|b| char::from(*b).to_digit(16));
        let escaped = (*first == b'%').then(|| digit(0).zip(digit(1))).flatten();
        let byte = escaped.and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { tail.get(2..).unwrap_or_default() } else { tail };
        found |= byte.is_some();
    }
    found.then(|| String::from_utf8_lossy(&bytes).into_owned())
}
