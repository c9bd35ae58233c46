//! Headers of the configuration that requests have besides the gateway's own. No value is quoted in
//! any message.

use std::collections::BTreeMap;

use super::Check;
use crate::raw::leaf::Text;

/// Most headers for a receiver.
const MOST: usize = 32;
/// What makes a message of HTTP one; only who writes the message knows it.
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

/// Whether the header of this name, in lower case, belongs to the message itself.
pub(super) fn is_framing(name: &str) -> bool {
    FRAMING.contains(&name)
}

impl Check<'_> {
    /// Those below `path`, with names in lower case, as HTTP compares them.
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
                self.error(&path, "is no name of a header", "use letters, digits and -");
            } else if is_own(&lower) {
                self.error(&path, "the gateway sets this header itself", "take it out");
            } else if !value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) {
                let hint = "take line breaks and other control characters out";
                self.error(&path, "must be ASCII on one line", hint);
            }
            if headers.insert(lower, value.trim().to_owned()).is_some() {
                self.error(&path, "is there twice, in other letters", "keep one of them");
            }
        }
        headers
    }

    /// The same for a receiver of what the gateway tells of its own accord: few of them, and
    /// credentials only by reference.
    pub(super) fn headers_for_receiver(
        &mut self,
        path: &[&str],
        raw: &BTreeMap<String, Text>,
        is_own: fn(&str) -> bool,
    ) -> BTreeMap<String, String> {
        if raw.len() > MOST {
            self.error(path, format!("must have at most {MOST} members"), "take some out");
        }
        for name in raw.keys() {
            let path = [path, &[name]].concat();
            if is_credential(name) && self.is_literal(&path) {
                let hint = "refer to it: ${VAR} or file:PATH";
                self.warning(&path, "is written into the file itself", hint);
            }
        }
        self.headers(path, raw, is_own)
    }
}

/// Whether a header of this name usually carries a credential.
fn is_credential(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["auth", "key", "token", "secret"].iter().any(|word| lower.contains(word))
}

/// RFC 9110 `1*tchar`.
fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}
