//! Values in headers (2026-07-28, Streamable HTTP): the base64 sentinel, and `Mcp-Param-*` from
//! `x-mcp-header` annotations.
//!
//! Rejects whole definitions, never single annotations: a tool with an invalid annotation must not
//! be offered over HTTP. Independent of HTTP; names and values are plain text that is safe to send.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockgate_text::json;
use serde_json::Value;

use self::annotation::{Walk, key_text};
use crate::scan::{self, ScanError, Scanner};

mod annotation;

pub use annotation::{MAX_DEPTH, MAX_HEADERS};

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";
const PREFIX: &str = "Mcp-Param-";

/// Maximum length of a header name in bytes, without `Mcp-Param-`.
pub const MAX_NAME: usize = 128;
/// Maximum length of the path in an error, in characters.
const MAX_AT: usize = 200;
/// Integers beyond this (2^53 − 1) are not sent.
const MAX_INTEGER: i64 = (1 << 53) - 1;

/// Returns the header value for `value`: unchanged if it is printable ASCII without space at its
/// ends, otherwise in the base64 sentinel.
pub fn encode_value(value: &str) -> Cow<'_, str> {
    let is_printable = !value.contains(|c: char| !matches!(c, ' '..='~'));
    let is_padded = value.starts_with(' ') || value.ends_with(' ');
    if is_printable && !is_padded && !(value.starts_with(OPEN) && value.ends_with(CLOSE)) {
        return Cow::Borrowed(value);
    }
    Cow::Owned([OPEN, &STANDARD.encode(value), CLOSE].concat())
}

/// A header value that has the sentinel's form but does not decode to text, or contains illegal
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed header value")]
pub struct BadSentinel;

/// Returns the value in a header. Surrounding white space is removed; incomplete or wrong-case
/// sentinels are plain text.
///
/// # Errors
/// [`BadSentinel`]: respond with -32020 and status 400.
pub fn decode_value(header: &[u8]) -> Result<Cow<'_, str>, BadSentinel> {
    let Ok(text) = std::str::from_utf8(header) else { return Err(BadSentinel) };
    if text.contains(|c: char| !matches!(c, '\t' | ' '..='~')) {
        return Err(BadSentinel);
    }
    let text = text.trim_matches([' ', '\t']);
    let Some(payload) = sentinel_payload(text) else { return Ok(Cow::Borrowed(text)) };
    let Ok(bytes) = STANDARD.decode(payload) else { return Err(BadSentinel) };
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| BadSentinel)
}

fn sentinel_payload(text: &str) -> Option<&str> {
    text.strip_prefix(OPEN)?.strip_suffix(CLOSE)
}

/// The arguments of a tool that are sent in `Mcp-Param-*` headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamHeaders(Vec<ParamHeader>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ParamHeader {
    name: String,
    /// Property names from the root of the arguments.
    path: Vec<String>,
}

/// A rejected annotation of a tool, and its property.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} (at {at:?})")]
pub struct AnnotationError {
    pub fault: AnnotationFault,
    /// The path of properties, joined by `/`; the server's text, cut at 200 characters.
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
    #[error("x-mcp-header is on a property that is not reached through `properties` only")]
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
    /// A schema without the annotation's name is not read further. Type lists are accepted if they
    /// consist of a permitted type and `null`.
    ///
    /// # Errors
    /// [`AnnotationError`]: an HTTP client must leave the tool out.
    pub fn from_schema(input_schema: &[u8]) -> Result<Self, AnnotationError> {
        if !may_have_annotations(input_schema) {
            return Ok(Self::default());
        }
        let Ok(walk) = Walk::of(input_schema, false) else {
            return refuse(AnnotationFault::NotJson, &[]);
        };
        let mut headers: Vec<ParamHeader> = Vec::new();
        for found in walk.found {
            if headers.len() >= MAX_HEADERS {
                return refuse(AnnotationFault::TooMany, &found.path);
            }
            if !found.reachable {
                return refuse(AnnotationFault::Misplaced, &found.path);
            }
            let Some(name) = annotated_name(found.name.of(input_schema)) else {
                return refuse(AnnotationFault::Name, &found.path);
            };
            let mut kinds = found.kinds.iter().map(|kind| kind.of(input_schema));
            if found.kinds.is_empty() || !kinds.all(is_primitive) {
                return refuse(AnnotationFault::Type, &found.path);
            }
            let header = ParamHeader { name, path: found.path };
            if headers.iter().any(|other| other.clashes_with(&header)) {
                return refuse(AnnotationFault::Duplicate, &header.path);
            }
            headers.push(header);
        }
        if walk.too_deep { refuse(AnnotationFault::TooDeep, &[]) } else { Ok(Self(headers)) }
    }

    /// Returns whether calls need no `Mcp-Param-*` header.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|header| header.name.as_str())
    }

    /// Returns the names of the headers that repeat a top-level argument.
    pub fn shallow_names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|header| !header.is_nested()).map(|header| header.name.as_str())
    }

    /// Returns whether any header repeats a value within an argument.
    pub fn has_nested(&self) -> bool {
        self.0.iter().any(ParamHeader::is_nested)
    }

    /// Returns the headers for a call with these `arguments` (JSON text): name and value, ready to
    /// send.
    ///
    /// Arguments that are absent, `null`, an object, an array, a fraction or an integer beyond
    /// ±(2^53 − 1) have no header, and none are returned for invalid JSON. The last of duplicate
    /// members counts.
    pub fn values(&self, arguments: &[u8]) -> Vec<(&str, String)> {
        if self.is_empty() {
            return Vec::new();
        }
        let values = self.read_values(arguments).unwrap_or_default();
        let headers = self.0.iter().zip(values);
        headers.filter_map(|(header, value)| Some((header.name.as_str(), value?))).collect()
    }

    fn read_values(&self, arguments: &[u8]) -> Result<Vec<Option<String>>, ScanError> {
        let mut values = vec![None; self.0.len()];
        let all = Vec::from_iter(0..self.0.len());
        let mut scanner = Scanner::new(arguments, scan::MAX_DEPTH)?;
        self.read_value(&mut scanner, arguments, (0, &all), &mut values)?;
        scanner.end()?;
        Ok(values)
    }

    /// Reads a value; the paths of the headers `wanted` led here in `depth` steps.
    fn read_value(
        &self,
        scanner: &mut Scanner<'_>,
        text: &[u8],
        (depth, wanted): (usize, &[usize]),
        values: &mut [Option<String>],
    ) -> Result<(), ScanError> {
        if wanted.is_empty() || scanner.peek() != Some(b'{') {
            let raw = scanner.value()?.of(text);
            for &index in wanted {
                if self.path(index).len() == depth
                    && let Some(value) = values.get_mut(index)
                {
                    *value = render(raw);
                }
            }
            return Ok(());
        }
        let walked = scanner.each_member(&mut |scanner, key| {
            let key = key_text(text, key);
            let mut below = Vec::new();
            for &index in wanted {
                if self.path(index).get(depth).is_some_and(|step| *step == key) {
                    below.push(index);
                    if let Some(value) = values.get_mut(index) {
                        *value = None;
                    }
                }
            }
            self.read_value(scanner, text, (depth + 1, &below), values)
        });
        walked.map(drop)
    }

    fn path(&self, index: usize) -> &[String] {
        self.0.get(index).map_or(&[], |header| &header.path)
    }
}

impl ParamHeader {
    fn is_nested(&self) -> bool {
        self.path.len() > 1
    }

    fn clashes_with(&self, other: &Self) -> bool {
        self.name.eq_ignore_ascii_case(&other.name) || self.path == other.path
    }
}

/// Returns the annotation's header name; `None` if it is not a valid name.
fn annotated_name(annotation: &[u8]) -> Option<String> {
    let name: String = json::from_slice(annotation).ok()?;
    if !is_token(&name) { None } else { Some([PREFIX, &name].concat()) }
}

/// Removes the `x-mcp-header` members of a schema and keeps every other byte. Text that is not JSON
/// is returned unchanged, and so is nesting deeper than [`MAX_DEPTH`], which
/// [`ParamHeaders::from_schema`] rejects.
#[must_use]
pub fn strip(input_schema: &[u8]) -> Cow<'_, [u8]> {
    cut(input_schema, false)
}

/// Removes the `x-mcp-header` members of a schema, except on top-level properties.
#[must_use]
pub fn strip_nested(input_schema: &[u8]) -> Cow<'_, [u8]> {
    cut(input_schema, true)
}

fn cut(input_schema: &[u8], keep_shallow: bool) -> Cow<'_, [u8]> {
    let unchanged = Cow::Borrowed(input_schema);
    if !may_have_annotations(input_schema) {
        return unchanged;
    }
    let Ok(Walk { cuts, .. }) = Walk::of(input_schema, keep_shallow) else { return unchanged };
    if cuts.is_empty() {
        return unchanged;
    }
    let mut out = Vec::with_capacity(input_schema.len());
    let mut from = 0;
    for cut in cuts {
        out.extend_from_slice(input_schema.get(from..cut.range().start).unwrap_or(&[]));
        from = cut.range().end;
    }
    out.extend_from_slice(input_schema.get(from..).unwrap_or(&[]));
    Cow::Owned(out)
}

fn may_have_annotations(schema: &[u8]) -> bool {
    memchr::memmem::find(schema, annotation::MEMBER.as_bytes()).is_some()
        || memchr::memmem::find(schema, b"\\u").is_some()
}

/// Checks for RFC 9110 `1*tchar`.
fn is_token(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_token_char)
}

/// Checks for RFC 9110 `tchar`.
pub fn is_token_char(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

fn refuse<T>(fault: AnnotationFault, path: &[String]) -> Result<T, AnnotationError> {
    Err(AnnotationError { fault, at: String::from_iter(path.join("/").chars().take(MAX_AT)) })
}

/// Returns whether a `type` is primitive, alone or with `null`.
fn is_primitive(kind: &[u8]) -> bool {
    match json::from_slice::<Value>(kind) {
        Ok(Value::String(name)) => is_primitive_name(&name),
        Ok(Value::Array(mut kinds)) => {
            kinds.retain(|kind| kind != "null");
            matches!(&kinds[..], [Value::String(name)] if is_primitive_name(name))
        }
        _ => false,
    }
}

fn is_primitive_name(name: &str) -> bool {
    matches!(name, "string" | "integer" | "boolean")
}

fn render(raw: &[u8]) -> Option<String> {
    let raw = std::str::from_utf8(raw).ok()?;
    if matches!(raw, "true" | "false") {
        return Some(raw.to_owned());
    }
    if raw.starts_with('"') {
        let text: String = json::from_str(raw).ok()?;
        return Some(encode_value(&text).into_owned());
    }
    let integer = match raw.parse::<i64>() {
        Ok(integer) => integer,
        #[allow(clippy::cast_possible_truncation)] // a whole number this small is exact
        Err(_) => {
            let float: f64 = raw.parse().ok()?;
            if float.fract() != 0.0 || float.abs() > 9_007_199_254_740_991.0 {
                return None;
            }
            float as i64
        }
    };
    if !(-MAX_INTEGER..=MAX_INTEGER).contains(&integer) { None } else { Some(integer.to_string()) }
}

#[cfg(test)]
mod tests;
