//! Secrets in the strings of a JSON text, however they are escaped; what is in base64 is looked
//! into.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockgate_policy::response::Response;
use lockgate_protocol::strings::{self, Place};

/// Members of blocks that may hold text in base64.
const ENCODED: [&str; 2] = ["blob", "data"];

/// A JSON text of any form with what its strings must not say taken out; `of` is the member that it
/// belongs to.
pub(crate) fn texts(rule: &Response, of: &str, text: &[u8]) -> Option<Vec<u8>> {
    if !rule.redacts() {
        return None;
    }
    strings::rewrite(text, &mut |place, text| match place {
        Place::Key => rule.redact_key(text),
        Place::Value("") => redact_member(rule, of, text),
        Place::Value(key) => redact_member(rule, key, text),
    })
}

fn redact_member(rule: &Response, key: &str, text: &str) -> Option<String> {
    let redacted = rule.redact_member(key, text);
    if redacted.is_none() && ENCODED.contains(&key) {
        return decoded(rule, text);
    }
    redacted
}

/// Text in base64, such as a file that a server gives as a blob.
fn decoded(rule: &Response, text: &str) -> Option<String> {
    let plain = String::from_utf8(STANDARD.decode(text).ok()?).ok()?;
    Some(STANDARD.encode(rule.redact(&plain)?))
}
