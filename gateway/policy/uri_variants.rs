//! How else a server may read the URI of a resource: without its escapes, its doubled slashes, its
//! query, the parameters of its segments, who uses it, by which port and the dot behind its host,
//! with its host as part of its path, in another case. What is denied is denied however it is
//! spelled. An `allow` is held against the URI as it stands.

use std::borrow::Cow;
use std::collections::BTreeSet;

use lockgate_text::percent;
use url::Url;

use crate::Target;
use crate::target::Kind;

/// Servers that decode an escape decode it once; some are behind others that did it before.
const DECODINGS: usize = 3;
/// What may stand between a scheme and the rest, for servers that do not tell host and path apart.
const SLASHES: [&str; 4] = ["", "/", "//", "///"];

impl Target<'_> {
    /// Other readings of a resource, exposed and own; nothing for what has names.
    pub(crate) fn uri_variants(&self) -> Vec<(String, String)> {
        if !matches!(self.kind, Kind::Resource | Kind::ResourceCompletion) {
            return Vec::new();
        }
        let mut all = Vec::new();
        for own in variants(self.own) {
            if own != self.own {
                all.push((self.exposes(&own), own));
            }
        }
        all
    }

    /// The exposed URI, if its server's own were this one: with the mark of the server where it is
    /// now.
    fn exposes(&self, reading: &str) -> String {
        if let Some(mark) = self.exposed.strip_suffix(self.own) {
            return [mark, reading].concat();
        }
        if let Some((_, exposed)) = self.exposed.split_once("://")
            && let Some((_, own)) = self.own.split_once("://")
            && let Some(mark) = exposed.strip_suffix(own)
            && let Some((scheme, rest)) = reading.split_once("://")
        {
            return [scheme, "://", mark, rest].concat();
        }
        reading.to_owned()
    }
}

/// The readings of a URI, each once.
fn variants(uri: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut text = Cow::Borrowed(uri);
    for _ in 0..=DECODINGS {
        let mut shapes = BTreeSet::from([text.to_string()]);
        // To some a NUL ends the text, to others it goes with the parameter that it stands in. To
        // some a backslash ends a segment and what its parameter hides, to others it is text.
        for text in [&*text, before_nul(&text)] {
            shapes.insert(simplified(text));
            shapes.insert(simplified(&with_slashes(text)));
        }
        for shape in &shapes {
            if let Ok(usual) = Url::parse(shape) {
                add_readings(plain(usual.as_str()), &mut all);
            }
            add_readings(plain(shape), &mut all);
        }
        match decoded(&text) {
            Some(decoded) => text = Cow::Owned(decoded),
            None => break,
        }
    }
    all
}

/// A plain URI, with and without its query, in every place.
fn add_readings(plain: String, all: &mut BTreeSet<String>) {
    let (bare, _) = plain.split_at(end_of_path(&plain));
    all.extend(places(&plain));
    all.extend(places(bare));
    all.extend(places(bare.trim_end_matches('/')));
    all.insert(bare.to_owned());
    all.insert(plain);
}

/// Where the query or the fragment of a URI begins.
fn end_of_path(uri: &str) -> usize {
    uri.find(['?', '#']).unwrap_or(uri.len())
}

/// Where the path, the query or the fragment begins in what follows `//`.
fn end_of_authority(rest: &str) -> usize {
    rest.find(['/', '?', '#']).unwrap_or(rest.len())
}

/// A URI with `/` for each `\` before its query.
fn with_slashes(uri: &str) -> String {
    let (path, tail) = uri.split_at(end_of_path(uri));
    [&path.replace('\\', "/"), tail].concat()
}

/// A URI up to its first NUL behind what parsers drop in front.
fn before_nul(uri: &str) -> &str {
    uri.trim_start_matches(|c: char| c <= ' ').split('\0').next().unwrap_or("")
}

/// What lenient servers make of a URI: without tabs and line ends, without the parameters of its
/// segments (`/a;x/b`), and without the dot segments that come of that. What parsers drop at the
/// end of a URI is dropped at the end of its path too: its query may go first.
fn simplified(uri: &str) -> String {
    let text = uri.replace(['\t', '\n', '\r'], "");
    let text = text.trim_matches(|c: char| c <= ' ');
    let (path, tail) = text.split_at(end_of_path(text));
    let (scheme, rest) = path.split_once(':').unwrap_or(("", path));
    let slashes = rest.len() - rest.trim_start_matches('/').len();
    // The authority stays where it is, whatever goes up.
    let fixed = usize::from(slashes == 2);
    let mut segments: Vec<&str> = Vec::new();
    for segment in rest[slashes..].split('/') {
        match segment.split(';').next().unwrap_or("") {
            "." => {}
            ".." if segments.len() > fixed => {
                segments.pop();
            }
            ".." => {}
            plain => segments.push(plain),
        }
    }
    let colon = &path[scheme.len()..path.len() - rest.len()];
    let below = segments.join("/");
    let below = below.trim_end_matches(|c: char| c <= ' ');
    [scheme, colon, &rest[..slashes], below, tail].concat()
}

/// The same below other hosts: with the host as part of the path and the other way round, without
/// who uses it, without a port and without the dot that a name may end with; a file without its
/// host.
fn places(plain: &str) -> Vec<String> {
    let Some((scheme, rest)) = plain.split_once(':') else { return Vec::new() };
    let tail = rest.trim_start_matches('/');
    let mut tails = vec![Cow::Borrowed(tail)];
    if rest.len() == tail.len() + "//".len() {
        let (authority, path) = tail.split_at(end_of_authority(tail));
        let host = authority.rsplit('@').next().unwrap_or("");
        let bare = match host.split_once(']') {
            Some((address, _)) => &host[..=address.len()],
            None => host.split(':').next().unwrap_or(""),
        };
        let port = &host[bare.len()..];
        let name = bare.trim_end_matches('.');
        let rooted = if path.is_empty() { "/" } else { path };
        let others = [
            [host, "", path],
            [bare, "", path],
            [name, "", path],
            [name, port, path],
            [name, "", rooted],
        ];
        for parts in others {
            tails.push(Cow::Owned(parts.concat()));
        }
        if scheme == "file" {
            tails.push(Cow::Borrowed(path.trim_start_matches('/')));
        }
    }
    let mut places = Vec::with_capacity(tails.len() * SLASHES.len());
    for tail in &tails {
        for slashes in SLASHES {
            places.push([scheme, ":", slashes, tail].concat());
        }
    }
    places
}

/// Scheme and host in lower case, and one slash where several stand.
fn plain(uri: &str) -> String {
    let (scheme, rest) = uri.split_once(':').unwrap_or(("", uri));
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(end_of_authority(rest)),
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
    let mut before = None;
    for c in path.chars() {
        if (before, c) != (Some('/'), '/') {
            plain.push(c);
        }
        before = Some(c);
    }
    plain
}

/// The text without one layer of percent escapes; `None` when it has none.
fn decoded(text: &str) -> Option<String> {
    let bytes = percent::decode(text.as_bytes())?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
