//! The canonical form of a resource's URI: the only spelling with its meaning, for every server
//! that decodes escapes, parses and joins paths in one of the usual ways. A server receives another
//! spelling only if it lists exactly that spelling. URIs are checked, not converted.

use lockgate_text::percent;
use unicode_normalization::is_nfc;
use url::Url;

/// The reason why a URI is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    #[error("the URI is empty")]
    Empty,
    #[error("the URI is too long")]
    TooLong,
    #[error("the URI has a control character or white space")]
    Character,
    #[error("the URI has a dot segment")]
    DotSegment,
    #[error("the URI has an encoded NUL")]
    Nul,
    #[error("the URI is not in canonical form, which is accepted only for listed URIs")]
    Spelling,
}

/// The form of an own URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Canonical,
    /// Canonical if a template of its server expands to it: a value of the template may hold an
    /// encoded `/`, `?` or `#`, and a host may hold upper case or escapes.
    Expanded,
    /// Anything else.
    Other,
}

/// The special schemes of the WHATWG URL standard, which accepts many spellings of them.
const SPECIAL: [&str; 6] = ["file", "ftp", "http", "https", "ws", "wss"];

/// Characters that are legal in a path without escapes, beside unreserved ones.
const IN_PATH: &[u8] = b"!$&'()*,=:@/";
/// Characters that are legal in a query and a fragment without escapes, beside unreserved ones.
const IN_TAIL: &[u8] = b"!$&'()*,=:@/?#;";

/// Returns the form of a URI.
///
/// A canonical URI has ASCII characters that the WHATWG parser leaves unchanged, with a scheme in
/// lower case, at most one host, which has a name without upper case and without a trailing dot,
/// and a path. Segments of the path are not empty (but the last), do not end in a dot or a space,
/// and have no `;`, `\` or `+`. Escapes have upper case, are of characters that need escaping, and
/// decode once to text in NFC without control characters, separators and further escapes.
pub fn form(uri: &str) -> Form {
    let (scheme, rest) = split(uri).unwrap_or(("", uri));
    let (path, tail) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    let below = path.trim_start_matches('/');
    let slashes = path.len() - below.len();
    let is_host = slashes == 2 && !scheme.is_empty();
    let (host, _) = below.split_at(below.find('/').unwrap_or(below.len()));
    let well_placed = match scheme {
        "" => slashes <= 1,
        "file" => slashes == 3,
        known if SPECIAL.contains(&known) => is_host && !host.is_empty() && !host.contains('@'),
        _ => slashes <= 3,
    };
    if !well_placed || !is_written_by_parser(uri, scheme) || !is_canonical_tail(tail) {
        return Form::Other;
    }
    let (host, segments) = if is_host { below.split_at(host.len()) } else { ("", below) };
    if !is_path(below) {
        return Form::Other;
    }
    let Some(text) = decode(below, IN_PATH, host.len()) else { return Form::Other };
    let is_named = host.is_empty() || is_named(&text);
    if !is_path(&text) || text.contains(char::is_control) || !is_named {
        return Form::Other;
    }
    let separators = ["%2F", "%3F", "%23"].iter().any(|escape| segments.contains(escape));
    let free = host.contains(|c: char| c.is_ascii_uppercase() || c == '%');
    if separators || free { Form::Expanded } else { Form::Canonical }
}

/// Returns whether a WHATWG parser leaves the URI unchanged.
fn is_written_by_parser(uri: &str, scheme: &str) -> bool {
    match Url::parse(uri) {
        Ok(url) => plain(url.as_str()) == plain(uri),
        // Servers that follow the standard cannot read a URI that the standard rejects.
        Err(_) => !SPECIAL.contains(&scheme) && !scheme.contains(|c: char| c.is_ascii_uppercase()),
    }
}

fn plain(uri: &str) -> Vec<u8> {
    percent::decode(uri.as_bytes()).unwrap_or_else(|| uri.as_bytes().to_vec())
}

/// Returns whether the host at the start has a name without a trailing dot.
fn is_named(below: &str) -> bool {
    let authority = below.split('/').next().unwrap_or("");
    let host = authority.rsplit('@').next().unwrap_or("");
    let name = host.split(':').next().unwrap_or("");
    !name.is_empty() && !name.ends_with('.')
}

/// Returns whether no parser changes these segments. The last segment may be empty.
fn is_path(path: &str) -> bool {
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut segments = path.split('/');
    path.is_empty()
        || segments.all(|segment| {
            !segment.is_empty() && !segment.ends_with(['.', ' ']) && !segment.contains([';', '\\'])
        })
}

/// Returns whether a query and fragment have a single spelling. They may hold any separator,
/// encoded or not, and encoded line ends.
fn is_canonical_tail(tail: &str) -> bool {
    let text = decode(tail, IN_TAIL, 0);
    text.is_some_and(|text| !text.contains(|c: char| c.is_control() && !"\t\n\r".contains(c)))
}

/// Decodes the escapes once. Returns `None` if a character is not legal, or an escape is
/// unnecessary, not in upper case, not of UTF-8 in NFC, or decodes to another escape. In a host,
/// which ends at `end`, brackets are legal too.
fn decode(text: &str, legal: &[u8], end: usize) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.as_bytes().get(at) {
        if byte == b'%' {
            let digits = text.get(at + 1..at + 3)?;
            let escaped = percent::byte(text.as_bytes(), at)?;
            if is_unreserved(escaped) || digits.contains(|c: char| c.is_ascii_lowercase()) {
                return None;
            }
            decoded.push(escaped);
            at += 3;
            continue;
        }
        let is_bracket = at < end && matches!(byte, b'[' | b']');
        if !is_unreserved(byte) && !legal.contains(&byte) && !is_bracket {
            return None;
        }
        decoded.push(byte);
        at += 1;
    }
    let decoded = String::from_utf8(decoded).ok()?;
    let is_final = percent::decode(decoded.as_bytes()).is_none();
    (is_final && is_nfc(&decoded)).then_some(decoded)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

pub(super) fn split(uri: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = uri.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    if is_scheme { Some((scheme, rest)) } else { None }
}
