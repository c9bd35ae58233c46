//! Configured headers that are added to the gateway's own. No message quotes a value.

use std::collections::BTreeMap;

use super::Check;
use crate::raw::leaf::Text;

/// Maximum number of headers for a receiver.
const MAX_HEADERS: usize = 32;
/// Headers of HTTP framing, which only the sender of a message can set.
const FRAMING: [&str; 11] = [
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Returns whether a header (in lower case) belongs to HTTP framing.
pub(super) fn is_framing(name: &str) -> bool {
    FRAMING.contains(&name)
}

impl Check<'_> {
    /// Returns the headers below `path`, with names in lower case, as HTTP compares them.
    pub(super) fn headers(
        &mut self,
        path: &[&str],
        raw: &BTreeMap<String, Text>,
        is_own: fn(&str) -> bool,
    ) -> BTreeMap<String, String> {
        let mut headers = BTreeMap::new();
        for (name, Text(value)) in raw {
            let path = [path, &[name]].concat();
            let lower = name.to_ascii_lowercase();
            if !is_token(name) {
                self.error(&path, "is not a header name", "use letters, digits and -");
            } else if is_own(&lower) {
                self.error(&path, "the gateway sets this header itself", "remove it");
            } else if !value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) {
                let hint = "remove line breaks and other control characters";
                self.error(&path, "must be ASCII on one line", hint);
            }
            if headers.insert(lower, value.trim().to_owned()).is_some() {
                self.error(&path, "is set twice, in different case", "keep one of them");
            }
        }
        headers
    }

    /// Returns the headers for a receiver of exported data: limited in number, with a warning about
    /// literal credentials.
    pub(super) fn headers_for_receiver(
        &mut self,
        path: &[&str],
        raw: &BTreeMap<String, Text>,
        is_own: fn(&str) -> bool,
    ) -> BTreeMap<String, String> {
        if raw.len() > MAX_HEADERS {
            self.error(path, format!("must have at most {MAX_HEADERS} members"), "remove some");
        }
        for name in raw.keys() {
            let path = [path, &[name]].concat();
            if is_credential(name) && self.is_literal(&path) {
                let hint = "use a reference: ${VAR} or file:PATH";
                self.warning(&path, "is written in plain text", hint);
            }
        }
        self.headers(path, raw, is_own)
    }
}

/// Returns whether a header of this name usually carries a credential.
fn is_credential(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["auth", "key", "token", "secret"].iter().any(|word| lower.contains(word))
}

/// Checks for RFC 9110 `1*tchar`.
fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}
