//! Values in headers (2026-07-28, Streamable HTTP): the base64 sentinel, and `Mcp-Param-*` from
//! `x-mcp-header` annotations.
//!
//! It refuses whole definitions, never single annotations: a tool with an invalid one must not be
//! offered over HTTP. It knows nothing of HTTP itself; names and values are plain text that is safe
//! to send.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use self::annotation::{Reach, Reader, Walk};

mod annotation;

pub use annotation::{MAX_DEPTH, MAX_HEADERS};

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";
const PREFIX: &str = "Mcp-Param-";

/// Longest header name in bytes, without `Mcp-Param-`.
pub const MAX_NAME: usize = 128;
/// Longest place in an error, in characters.
const MAX_AT: usize = 200;
/// Integers beyond this (2^53 − 1) are not sent.
const MAX_INTEGER: i64 = (1 << 53) - 1;

/// The header value for `value`: itself when it is printable ASCII without space at its ends, else
/// in the base64 sentinel.
#[must_use]
pub fn encode_value(value: &str) -> Cow<'_, str> {
    let plain = value.bytes().all(|b| (b' '..=b'~').contains(&b));
    let padded = value.starts_with(' ') || value.ends_with(' ');
    if plain && !padded && !(value.starts_with(OPEN) && value.ends_with(CLOSE)) {
        return Cow::Borrowed(value);
    }
    Cow::Owned([OPEN, &STANDARD.encode(value), CLOSE].concat())
}

/// A header value that has the sentinel's form and does not decode to text, or has bytes that no
/// value may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed header value")]
pub struct BadSentinel;

/// The value that a header carries. White space around it is not part of it; wrong-case or half
/// sentinels are plain text.
///
/// # Errors
/// [`BadSentinel`]: answer -32020 with status 400.
pub fn decode_value(header: &[u8]) -> Result<Cow<'_, str>, BadSentinel> {
    if !header.iter().all(|b| matches!(b, b'\t' | b' '..=b'~')) {
        return Err(BadSentinel);
    }
    let text = std::str::from_utf8(header).map_err(|_| BadSentinel)?.trim_matches([' ', '\t']);
    let Some(payload) = text.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE)) else {
        return Ok(Cow::Borrowed(text));
    };
    let bytes = STANDARD.decode(payload).map_err(|_| BadSentinel)?;
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| BadSentinel)
}

/// Which arguments of one tool travel in which `Mcp-Param-*` headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamHeaders(Vec<ParamHeader>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ParamHeader {
    name: String,
    /// Property names from the root of the arguments.
    path: Vec<String>,
}

/// Why a tool's annotations are refused, and under which property.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} (at {at:?})")]
pub struct AnnotationError {
    pub fault: AnnotationFault,
    /// The properties on the way, joined by `/`; the server's words, cut at 200 characters.
    pub at: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationFault {
    #[error("the input schema is not JSON")]
    NotJson,
    #[error("the input schema is nested too deeply")]
    TooDeep,
    #[error("too many x-mcp-header annotations")]
    TooMany,
    #[error("x-mcp-header is not on a property reached through properties alone")]
    Misplaced,
    #[error("x-mcp-header is not an HTTP token of 1 to {MAX_NAME} characters")]
    Name,
    #[error("x-mcp-header names are not unique ignoring case")]
    Duplicate,
    #[error("x-mcp-header is on a property that is not of type string, integer or boolean")]
    Type,
}

impl ParamHeaders {
    /// Reads the annotations of a tool's `inputSchema`, given as JSON text.
    ///
    /// A schema that does not contain the annotation's name is not looked at further. Type lists
    /// are accepted when they are one of the permitted types and `null`.
    ///
    /// # Errors
    /// [`AnnotationError`]: an HTTP client must leave the tool out.
    pub fn from_schema(input_schema: &[u8]) -> Result<Self, AnnotationError> {
        if !may_have_annotations(input_schema) {
            return Ok(Self::default());
        }
        let Some(text) = checked(input_schema) else {
            return refuse(AnnotationFault::NotJson, &[]);
        };
        let mut walk = Walk::new(text);
        walk.schema(0, Reach::Root);
        let mut headers: Vec<ParamHeader> = Vec::new();
        for found in walk.found {
            if headers.len() >= MAX_HEADERS {
                return refuse(AnnotationFault::TooMany, &found.path);
            }
            if !found.reachable {
                return refuse(AnnotationFault::Misplaced, &found.path);
            }
            let name =
                text.get(found.name).and_then(|raw| serde_json::from_str::<String>(raw).ok());
            let Some(name) = name.filter(|name| is_token(name)) else {
                return refuse(AnnotationFault::Name, &found.path);
            };
            let mut kinds = found
                .kinds
                .into_iter()
                .map(|kind| is_primitive(text.get(kind).unwrap_or_default()));
            if kinds.next() != Some(true) || kinds.any(|primitive| !primitive) {
                return refuse(AnnotationFault::Type, &found.path);
            }
            let name = [PREFIX, &name].concat();
            if headers.iter().any(|h| h.name.eq_ignore_ascii_case(&name) || h.path == found.path) {
                return refuse(AnnotationFault::Duplicate, &found.path);
            }
            headers.push(ParamHeader { name, path: found.path });
        }
        if walk.too_deep { refuse(AnnotationFault::TooDeep, &[]) } else { Ok(Self(headers)) }
    }

    /// Whether calls need no `Mcp-Param-*` header at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of the headers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|header| header.name.as_str())
    }

    /// The names of the headers that repeat an argument at the root.
    pub fn shallow_names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|header| header.path.len() == 1).map(|header| header.name.as_str())
    }

    /// Whether some header repeats something within an argument.
    #[must_use]
    pub fn has_nested(&self) -> bool {
        self.0.iter().any(|header| header.path.len() > 1)
    }

    /// The headers for a call with these `arguments` (JSON text): name and value, ready to send.
    ///
    /// Arguments that are absent, `null`, an object, an array, a fraction or an integer beyond
    /// ±(2^53 − 1) have no header. Of a member that stands twice the last counts. Arguments that
    /// are not JSON give no headers.
    #[must_use]
    pub fn values(&self, arguments: &[u8]) -> Vec<(&str, String)> {
        let Some(text) = (!self.is_empty()).then(|| checked(arguments)).flatten() else {
            return Vec::new();
        };
        let mut values = vec![None; self.0.len()];
        let all: Vec<usize> = (0..self.0.len()).collect();
        self.collect(&mut Reader::new(text), 0, &all, &mut values);
        let named = self.0.iter().zip(values);
        named.filter_map(|(header, value)| Some((header.name.as_str(), value?))).collect()
    }

    /// Reads one value; `wanted` are the headers whose paths led here in `depth` steps.
    fn collect(
        &self,
        reader: &mut Reader<'_>,
        depth: usize,
        wanted: &[usize],
        values: &mut [Option<String>],
    ) {
        if wanted.is_empty() || reader.peek() != Some(b'{') {
            let raw = reader.skip();
            for index in wanted.iter().filter(|i| self.path(**i).len() == depth) {
                if let Some(value) = values.get_mut(*index) {
                    *value = render(raw);
                }
            }
            return;
        }
        reader.open();
        while let Some(member) = reader.member() {
            let mut below = Vec::new();
            for &index in wanted {
                let Some(step) = self.path(index).get(depth) else { continue };
                if *step != member.key {
                    continue;
                }
                below.push(index);
                if let Some(value) = values.get_mut(index) {
                    *value = None;
                }
            }
            self.collect(reader, depth + 1, &below, values);
        }
    }

    fn path(&self, index: usize) -> &[String] {
        self.0.get(index).map_or(&[], |header| &header.path)
    }
}

/// The schema without its `x-mcp-header` members, every other byte kept. Text that is not JSON
/// comes back as it is, and so does what is nested deeper than [`MAX_DEPTH`], which
/// [`ParamHeaders::from_schema`] refuses.
#[must_use]
pub fn strip(input_schema: &[u8]) -> Cow<'_, [u8]> {
    cut(input_schema, Walk::new)
}

/// The same, but annotations of properties at the root stay.
#[must_use]
pub fn strip_nested(input_schema: &[u8]) -> Cow<'_, [u8]> {
    cut(input_schema, |text| Walk::new(text).keeping_shallow())
}

fn cut<'a>(input_schema: &'a [u8], walk: impl FnOnce(&'a str) -> Walk<'a>) -> Cow<'a, [u8]> {
    let text = if may_have_annotations(input_schema) { checked(input_schema) } else { None };
    let Some(text) = text else { return Cow::Borrowed(input_schema) };
    let mut walk = walk(text);
    walk.schema(0, Reach::Root);
    if walk.cuts.is_empty() {
        return Cow::Borrowed(input_schema);
    }
    let mut out = Vec::with_capacity(input_schema.len());
    let mut from = 0;
    for cut in walk.cuts {
        out.extend_from_slice(input_schema.get(from..cut.start).unwrap_or_default());
        from = cut.end;
    }
    out.extend_from_slice(input_schema.get(from..).unwrap_or_default());
    Cow::Owned(out)
}

fn may_have_annotations(schema: &[u8]) -> bool {
    memchr::memmem::find(schema, annotation::MEMBER.as_bytes()).is_some()
        || memchr::memmem::find(schema, b"\\u").is_some()
}

/// The text if it is JSON, which the readers below rely on.
fn checked(json: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(json).ok()?;
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok().then_some(text)
}

/// RFC 9110 `1*tchar`.
fn is_token(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_token_char)
}

/// RFC 9110 `tchar`.
#[must_use]
pub fn is_token_char(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

fn refuse<T>(fault: AnnotationFault, path: &[String]) -> Result<T, AnnotationError> {
    Err(AnnotationError { fault, at: path.join("/").chars().take(MAX_AT).collect() })
}

/// Whether a `type` is a primitive one, alone or beside `null`.
fn is_primitive(kind: &str) -> bool {
    match serde_json::from_str::<Value>(kind) {
        Ok(Value::String(name)) => is_primitive_name(&name),
        Ok(Value::Array(names)) => {
            let mut others = names.iter().filter(|name| name.as_str() != Some("null"));
            match (others.next(), others.next()) {
                (Some(Value::String(name)), None) => is_primitive_name(name),
                _ => false,
            }
        }
        _ => false,
    }
}

fn is_primitive_name(name: &str) -> bool {
    matches!(name, "string" | "integer" | "boolean")
}

fn render(raw: &str) -> Option<String> {
    if matches!(raw, "true" | "false") {
        return Some(raw.to_owned());
    }
    if raw.starts_with('"') {
        let text: String = serde_json::from_str(raw).ok()?;
        return Some(encode_value(&text).into_owned());
    }
    let integer = match raw.parse::<i64>() {
        Ok(integer) => integer,
        #[allow(clippy::cast_possible_truncation)] // a whole number this small is exact
        Err(_) => {
            let float: f64 = raw.parse().ok()?;
            (float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_991.0)
                .then_some(float as i64)?
        }
    };
    (-MAX_INTEGER..=MAX_INTEGER).contains(&integer).then(|| integer.to_string())
}

#[cfg(test)]
mod tests;
