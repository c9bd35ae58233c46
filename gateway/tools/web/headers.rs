//! Request headers that a caller may set: only listed headers, and never headers that frame the
//! message, name the host, or belong to proxies.

use http::{HeaderMap, HeaderName, HeaderValue};
use lockgate_policy::Patterns;
use serde_json::{Map, Value};

use crate::tool::ToolError;

/// Headers that no list can allow, and prefixes of such names.
const NEVER: [&str; 22] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "lockgate-identity",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
    "x-real-ip",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
    "x-http-method",
    "x-http-method-override",
    "x-original-host",
];
const NEVER_BEGINS: [&str; 3] = ["proxy-", "x-forwarded-", "sec-"];

/// Headers that are also sent to another origin after a redirect.
const HARMLESS: [&str; 6] =
    ["accept", "accept-encoding", "accept-language", "cache-control", "range", "user-agent"];
/// Headers that describe the body.
const OF_BODY: [&str; 3] = ["content-type", "content-language", "content-encoding"];

/// Maximum number of headers per call.
const MAX_HEADERS: usize = 64;
/// Maximum length of a value in bytes.
const VALUE_BYTES: usize = 8 << 10;

/// Names that may be set, and prefixes that end in `*`; in lower case.
pub(super) struct Headers(Patterns);

impl Headers {
    pub(super) fn compile(names: &[String]) -> Result<Self, String> {
        let names = Vec::from_iter(names.iter().map(|name| name.to_ascii_lowercase()));
        for name in &names {
            let stem = name.strip_suffix('*').unwrap_or(name);
            if HeaderName::from_bytes(stem.as_bytes()).is_err() || stem.contains('*') {
                return Err("is not the name of a header".into());
            }
            if stem == name && is_never(stem) {
                return Err("can never be set by a caller".into());
            }
        }
        Ok(Self(Patterns::new(&names)?))
    }

    pub(super) fn take(&self, given: &Map<String, Value>) -> Result<HeaderMap, ToolError> {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            let shown: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
            let Ok(parsed) = HeaderName::from_bytes(name.as_bytes()) else {
                return Err(ToolError(format!("`headers`: {shown:?} is not the name of a header")));
            };
            let lower = parsed.as_str();
            if is_never(lower) {
                return Err(ToolError(format!(
                    "the header `{shown}` is set by the gateway alone; leave it out"
                )));
            }
            if !self.0.fit(&[lower]) {
                return Err(ToolError(format!(
                    "the header `{shown}` is not on the list of allowed headers; leave it out"
                )));
            }
            let Some(value) = read_value(value) else {
                let expected = format!("at most {VALUE_BYTES} characters without line ends");
                return Err(ToolError(format!("`headers.{shown}` must be a string of {expected}")));
            };
            if headers.insert(parsed, value).is_some() {
                return Err(ToolError(format!("the header `{shown}` is given twice")));
            }
            if headers.len() > MAX_HEADERS {
                return Err(ToolError(format!(
                    "`headers` must have at most {MAX_HEADERS} entries"
                )));
            }
        }
        Ok(headers)
    }
}

fn read_value(value: &Value) -> Option<HeaderValue> {
    let value = value.as_str()?;
    if value.len() > VALUE_BYTES || value.contains(char::is_control) {
        return None;
    }
    HeaderValue::from_str(value).ok()
}

fn is_never(name: &str) -> bool {
    NEVER.contains(&name) || NEVER_BEGINS.iter().any(|begin| name.starts_with(begin))
}

/// Removes headers that are meant for a single origin.
pub(super) fn leave_origin(headers: &mut HeaderMap) {
    keep(headers, |name| HARMLESS.contains(&name));
}

/// Removes headers of a body that is no longer sent.
pub(super) fn drop_body(headers: &mut HeaderMap) {
    keep(headers, |name| !OF_BODY.contains(&name));
}

fn keep(headers: &mut HeaderMap, which: impl Fn(&str) -> bool) {
    for name in headers.clone().keys().filter(|name| !which(name.as_str())) {
        headers.remove(name);
    }
}
