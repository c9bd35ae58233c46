//! Resource URIs across servers: an exposed URI identifies its server, and maps back to the
//! server's own URI byte for byte.
//!
//! Templates (RFC 6570) are rewritten the same way. Rewritten URIs are neither decoded nor
//! normalised.

mod canonical;
pub mod template;

use std::borrow::Cow;

use lockgate_text::percent::decode;

use crate::name::Slug;

use canonical::split;
pub use canonical::{Form, UriError, form};

/// Maximum length of a URI in bytes, for [`validate`].
pub const MAX_URI: usize = 8 * 1024;

const UI: &str = "ui";
const SKILL: &str = "skill://";
const ESCAPE: &str = "x-";

/// Returns the exposed URI of `uri` of the server `slug`, which must be a valid [`Slug`].
///
/// | own | exposed |
/// |---|---|
/// | `https://…`, `http://…` | the same: clients fetch these themselves |
/// | `ui://rest` | `ui://slug+rest`: hosts expect this scheme |
/// | `skill://path` | `skill://slug/path`: the last segments stay the skill's name and its file |
/// | any other `scheme:rest` | `slug+scheme:rest` |
/// | anything without a scheme | `slug+:text` |
///
/// In the last two forms, `x-` is put before a slug that a scheme cannot start with (digit, hyphen)
/// or that itself starts with `x-`.
pub fn expose<'a>(slug: &str, uri: &'a str) -> Cow<'a, str> {
    let (scheme, rest) = split(uri).unwrap_or(("", ""));
    if is_web(scheme, rest) {
        return Cow::Borrowed(uri);
    }
    if scheme.eq_ignore_ascii_case(UI)
        && let Some(host) = rest.strip_prefix("//")
    {
        return Cow::Owned([scheme, "://", slug, "+", host].concat());
    }
    if let Some(path) = uri.strip_prefix(SKILL) {
        return Cow::Owned([SKILL, slug, "/", path].concat());
    }
    let starts_scheme =
        slug.starts_with(|c: char| c.is_ascii_lowercase()) && !slug.starts_with(ESCAPE);
    let escape = if starts_scheme { "" } else { ESCAPE };
    let mark = if scheme.is_empty() { "+:" } else { "+" };
    Cow::Owned([escape, slug, mark, uri].concat())
}

/// Returns the slug (valid, though perhaps of no server) and the server's own URI: the inverse of
/// [`expose`] for rewritten forms. `None` for web URIs and for texts that `expose` never returns.
pub fn own(exposed: &str) -> Option<(&str, Cow<'_, str>)> {
    let (scheme, rest) = split(exposed)?;
    if scheme.eq_ignore_ascii_case(UI) {
        let (slug, host) = rest.strip_prefix("//")?.split_once('+')?;
        if !Slug::is_valid(slug) {
            return None;
        }
        return Some((slug, Cow::Owned([scheme, "://", host].concat())));
    }
    if let Some(path) = exposed.strip_prefix(SKILL) {
        let (slug, path) = path.split_once('/')?;
        return Slug::is_valid(slug).then(|| (slug, Cow::Owned([SKILL, path].concat())));
    }
    let (marked, _) = scheme.split_once('+')?;
    let slug = marked.strip_prefix(ESCAPE).unwrap_or(marked);
    let uri = exposed.get(marked.len() + 1..)?;
    let uri = uri.strip_prefix(':').unwrap_or(uri);
    // `expose` must return exactly this text: two spellings of one resource would fall under
    // different policies.
    if !Slug::is_valid(slug) || expose(slug, uri) != exposed {
        return None;
    }
    Some((slug, Cow::Borrowed(uri)))
}

fn is_web(scheme: &str, rest: &str) -> bool {
    (scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http"))
        && rest.starts_with("//")
}

/// Checks a concrete URI (own or exposed) before it is routed.
///
/// Everywhere: 1 to `max_len` bytes, no control characters, no white space; no segment between `/`,
/// `\`, `?` and `#` that is `.` or `..`, and no NUL, also not percent-encoded up to three times,
/// because servers map URIs to files, and policies match URIs as written. The part after the path
/// of a web URI is free.
///
/// # Errors
/// The first [`UriError`] found.
pub fn validate(uri: &str, max_len: usize) -> Result<(), UriError> {
    if uri.is_empty() {
        return Err(UriError::Empty);
    }
    if uri.len() > max_len {
        return Err(UriError::TooLong);
    }
    if uri.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err(UriError::Character);
    }
    let (scheme, mut rest) = split(uri).unwrap_or(("", uri));
    if is_web(scheme, rest) {
        rest = rest.split(['?', '#']).next().unwrap_or(rest);
    }
    let mut text = Cow::Borrowed(rest.as_bytes());
    for _ in 0..3 {
        check_segments(&text)?;
        match decode(&text) {
            Some(decoded) => text = Cow::Owned(decoded),
            None => return Ok(()),
        }
    }
    check_segments(&text)
}

fn check_segments(text: &[u8]) -> Result<(), UriError> {
    if memchr::memchr(0, text).is_some() {
        return Err(UriError::Nul);
    }
    // `slug+:../x` and `ui://slug+../x` hide a first segment behind their marks.
    let mut segments = text.split(|b| matches!(b, b'/' | b'\\' | b'?' | b'#' | b'+' | b':'));
    if segments.any(|segment| matches!(segment, b"." | b"..")) {
        Err(UriError::DotSegment)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
