//! Removes a server's credentials from its responses: verbatim, JSON-escaped, percent-encoded, and
//! in base64 at every offset. Other encodings are not detected.

use std::collections::BTreeMap;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::HeaderValue;
use memchr::memmem::Finder;
use parking_lot::Mutex;
use url::Url;

use crate::call::Authorization;
use crate::config::Transport;

/// Shortest secret. Shorter values would match parts of words.
const MIN_SECRET: usize = 8;
const HIDDEN: &str = "[redacted]";
/// Substrings in names of headers, variables or URL parameters that carry a credential.
const NAMES: [&str; 8] =
    ["auth", "key", "token", "secret", "cookie", "passw", "passphrase", "credential"];
/// Shortest random-looking value that counts as a credential in any header, and its fewest digits.
const MIN_RANDOM_SECRET: usize = 20;
const MIN_RANDOM_DIGITS: usize = 4;

/// The credentials of a server in each searched form.
pub(crate) struct Credentials {
    /// Finds any of the forms in one pass: most messages contain none. `None` if they are too long
    /// for an automaton.
    any: Option<AhoCorasick>,
    finders: Vec<Finder<'static>>,
    longest: usize,
}

/// The credentials that a server's messages are searched for.
#[derive(Clone)]
pub(crate) enum Searched {
    Nothing,
    Fixed(Arc<Credentials>),
    Changing(Arc<ChangingCredentials>),
}

/// The current and the previous token of a server, and its configured credentials.
pub(crate) struct ChangingCredentials {
    authorization: Arc<dyn Authorization>,
    configured: Vec<String>,
    built: Mutex<Built>,
}

/// The credentials as of the last message.
#[derive(Default)]
struct Built {
    token: Option<HeaderValue>,
    before: Option<HeaderValue>,
    credentials: Option<Arc<Credentials>>,
}

impl Searched {
    pub(crate) fn of(transport: &Transport, authorization: Option<Arc<dyn Authorization>>) -> Self {
        if let Some(authorization) = authorization {
            let configured = configured(transport);
            let built = Mutex::default();
            let changing = ChangingCredentials { authorization, configured, built };
            return Self::Changing(Arc::new(changing));
        }
        let credentials = Credentials::of(transport).map(Arc::new);
        credentials.map_or(Self::Nothing, Self::Fixed)
    }

    /// Returns the credentials in use now.
    pub(crate) fn current(&self) -> Option<Arc<Credentials>> {
        match self {
            Self::Nothing => None,
            Self::Fixed(credentials) => Some(Arc::clone(credentials)),
            Self::Changing(changing) => Some(changing.current()),
        }
    }
}

impl ChangingCredentials {
    pub(crate) fn current(&self) -> Arc<Credentials> {
        let token = self.authorization.header();
        let mut built = self.built.lock();
        if let Some(credentials) = &built.credentials
            && built.token == token
        {
            return Arc::clone(credentials);
        }
        built.before = std::mem::replace(&mut built.token, token);
        let values = built.token.iter().chain(&built.before);
        let texts = values.filter_map(|value| value.to_str().ok());
        let texts = texts.chain(self.configured.iter().map(String::as_str));
        let none = Credentials { any: None, finders: Vec::new(), longest: 1 };
        let credentials = Arc::new(Credentials::new(texts).unwrap_or(none));
        built.credentials = Some(Arc::clone(&credentials));
        credentials
    }
}

impl Credentials {
    /// Collects the credentials that a server is sent or started with; `None` if there are none.
    pub(crate) fn of(transport: &Transport) -> Option<Self> {
        Self::new(configured(transport).iter().map(String::as_str))
    }

    /// Builds all forms of the given values; `None` if there is nothing to search for.
    pub(crate) fn new<'a>(values: impl Iterator<Item = &'a str>) -> Option<Self> {
        let secrets = values.flat_map(secrets);
        let mut forms: Vec<_> = secrets.flat_map(|secret| forms_of(&secret)).collect();
        // Longer forms first, because a form may be a prefix of another.
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        let longest = forms.first()?.len();
        let any = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(&forms).ok();
        let finders = forms.iter().map(|form| Finder::new(form).into_owned()).collect();
        Some(Self { any, finders, longest })
    }

    /// Returns the text with credentials removed.
    pub(crate) fn hide(&self, text: &str) -> String {
        match self.replaced(text.as_bytes()) {
            Some((clean, _)) => String::from_utf8_lossy(&clean).into_owned(),
            None => text.to_owned(),
        }
    }

    /// Returns the message with credentials removed. A message without any is returned as is; a
    /// cleaned copy holds the original, so that its memory stays charged to the budget.
    pub(crate) fn hide_in(&self, text: Bytes) -> Bytes {
        match self.replaced(&text) {
            Some((clean, _)) => Bytes::from_owner(Clean { clean, _counted: text }),
            None => text,
        }
    }

    /// Returns the text with credentials replaced, and the position after the last replacement;
    /// `None` if there are none.
    fn replaced(&self, text: &[u8]) -> Option<(Vec<u8>, usize)> {
        if self.any.as_ref().is_some_and(|any| !any.is_match(text)) {
            return None;
        }
        let mut found = Vec::new();
        for finder in &self.finders {
            let length = finder.needle().len();
            found.extend(finder.find_iter(text).map(|at| (at, at + length)));
        }
        if found.is_empty() {
            return None;
        }
        found.sort_by_key(|&(from, to)| (from, std::cmp::Reverse(to)));
        let mut clean = Vec::with_capacity(text.len());
        let mut end = 0;
        for (from, to) in found {
            if from >= end {
                clean.extend_from_slice(&text[end..from]);
                clean.extend_from_slice(HIDDEN.as_bytes());
            }
            end = end.max(to);
        }
        let written = clean.len();
        clean.extend_from_slice(&text[end..]);
        Some((clean, written))
    }
}

struct Clean {
    clean: Vec<u8>,
    _counted: Bytes,
}

impl AsRef<[u8]> for Clean {
    fn as_ref(&self) -> &[u8] {
        &self.clean
    }
}

/// Removes credentials from an answer that is streamed in pieces: the end of each piece is held
/// back while it could be the start of a credential.
pub(crate) struct PieceFilter {
    credentials: Option<Arc<Credentials>>,
    held: Vec<u8>,
}

impl PieceFilter {
    pub(crate) fn new(credentials: Option<Arc<Credentials>>) -> Self {
        Self { credentials, held: Vec::new() }
    }

    /// Adds a piece. Returns the bytes that can be forwarded.
    pub(crate) fn push(&mut self, piece: Bytes) -> Bytes {
        let Some(credentials) = &self.credentials else { return piece };
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(&piece);
        let (mut clean, written) = credentials.replaced(&text).unwrap_or((text, 0));
        let end = written.max(clean.len().saturating_sub(credentials.longest - 1));
        self.held = clean.split_off(end);
        clean.into()
    }

    pub(crate) fn finish(self) -> Bytes {
        self.held.into()
    }
}

/// Collects the configured credentials that a server is sent or started with.
fn configured(transport: &Transport) -> Vec<String> {
    let parameters = match transport {
        Transport::Stdio { .. } => BTreeMap::new(),
        Transport::Http { url, .. } | Transport::Sse { url, .. } => parameters(url),
    };
    let (Transport::Stdio { env: named, .. }
    | Transport::Http { headers: named, .. }
    | Transport::Sse { headers: named, .. }) = transport;
    let has_headers = !matches!(transport, Transport::Stdio { .. });
    let secret = named.iter().chain(&parameters).filter(|(name, value)| {
        let may_be_random = has_headers && named.contains_key(*name);
        is_credential(name, value) || may_be_random && is_random(value)
    });
    secret.map(|(_, value)| value.clone()).collect()
}

fn is_credential(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase().replace("author_", "").replace("author-", "");
    // Paths to keys and plain words are not credentials.
    NAMES.iter().any(|part| name.contains(part)) && !value.starts_with('/') && !is_word(value)
}

/// Reports whether a value is a name such as `created_at`.
fn is_word(value: &str) -> bool {
    value.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'_' | b'.'))
}

fn is_random(value: &str) -> bool {
    value.len() >= MIN_RANDOM_SECRET
        && !value.contains([' ', '/'])
        && value.bytes().filter(u8::is_ascii_digit).count() >= MIN_RANDOM_DIGITS
        && value.contains(|c: char| c.is_ascii_alphabetic())
}

fn parameters(url: &Url) -> BTreeMap<String, String> {
    url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

/// Returns the secrets in a value: without its scheme, and for `Basic` also the password.
fn secrets(value: &str) -> Vec<String> {
    let (scheme, secret) = match value.split_once(' ') {
        Some((scheme, secret)) if !secret.contains(' ') => (scheme, secret),
        _ => ("", value),
    };
    let mut all = vec![secret.to_owned()];
    if scheme.eq_ignore_ascii_case("basic")
        && let Ok(pair) = STANDARD.decode(secret)
        && let Ok(pair) = String::from_utf8(pair)
    {
        all.extend(pair.split_once(':').map(|(_, password)| password.to_owned()));
    }
    all.retain(|secret| secret.len() >= MIN_SECRET);
    all
}

/// Returns substrings of all encodings: every text with the secret contains a substring.
fn forms_of(secret: &str) -> Vec<String> {
    let quoted = serde_json::Value::from(secret).to_string();
    let escaped = quoted.trim_matches('"').to_owned();
    let mut forms = vec![secret.to_owned(), escaped.replace('/', "\\/"), escaped];
    forms.extend(percent(secret));
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(secret.as_bytes());
        // Characters at both ends also encode bits of the adjacent bytes.
        let first = (before * 8).div_ceil(6);
        let end = bytes.len() * 8 / 6;
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let text = engine.encode(&bytes);
            let Some(text) = text.get(first..end) else { continue };
            forms.extend([text.to_owned(), text.replace('/', "\\/")]);
        }
    }
    forms
}

/// Percent-encodes all but the unreserved characters, with hex digits of both cases.
fn percent(secret: &str) -> [String; 2] {
    let mut forms = [String::new(), String::new()];
    for byte in secret.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            forms.iter_mut().for_each(|form| form.push(char::from(byte)));
        } else {
            forms[0].push_str(&format!("%{byte:02X}"));
            forms[1].push_str(&format!("%{byte:02x}"));
        }
    }
    forms
}

#[cfg(test)]
mod tests;
