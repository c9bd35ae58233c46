//! Redaction of secrets in the strings of a JSON text, however escaped, including base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockgate_policy::response::Response;
use lockgate_protocol::strings::{self, StringRole};

/// Members of blocks that may contain base64 text.
const ENCODED: [&str; 2] = ["blob", "data"];

/// Redacts the strings of a JSON text of any form in the member `of`. Returns `None` if nothing
/// changes.
pub(crate) fn texts(rule: &Response, of: &str, text: &[u8]) -> Option<Vec<u8>> {
    if !rule.redacts() {
        return None;
    }
    strings::rewrite(text, &mut |place, text| match place {
        StringRole::Key => rule.redact_key(text),
        StringRole::Value("") => redact_member(rule, of, text),
        StringRole::Value(key) => redact_member(rule, key, text),
    })
}

fn redact_member(rule: &Response, key: &str, text: &str) -> Option<String> {
    let redacted = rule.redact_member(key, text);
    if redacted.is_none() && ENCODED.contains(&key) {
        return decoded(rule, text);
    }
    redacted
}

/// Redacts base64 text, such as a file sent as a blob.
fn decoded(rule: &Response, text: &str) -> Option<String> {
    let plain = String::from_utf8(STANDARD.decode(text).ok()?).ok()?;
    Some(STANDARD.encode(rule.redact(&plain)?))
}
