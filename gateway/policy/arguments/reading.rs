//! Strict parsing of arguments. Input on which parsers disagree (duplicate keys, keys that differ
//! only in case or are equal once folded, control characters in keys) is refused instead of
//! choosing one reading.

use lockgate_text::json::Reader;
use serde_json::{Map, Value};

use crate::Refusal;

/// Nesting limit of arguments.
const MAX_DEPTH: usize = 64;
/// Maximum number of members per object.
const MAX_MEMBERS: usize = 4096;
const READER: Reader = Reader { depth: MAX_DEPTH, members: MAX_MEMBERS, key: unambiguous };

/// Parses the arguments of a call; absent arguments are an empty object.
pub(crate) fn read(text: Option<&[u8]>) -> Result<Value, Refusal> {
    let Some(text) = text else { return Ok(Value::Object(Map::new())) };
    match READER.read(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(Refusal("the arguments must be an object".into())),
        Err(words) => Err(Refusal(format!(
            "the arguments cannot be checked: {words}; send each argument once, in plain characters"
        ))),
    }
}

/// Folds a key as lenient parsers compare it.
pub(crate) fn folded(key: &str) -> String {
    key.to_lowercase()
}

/// Returns the key as it is compared, or why it is ambiguous. Names of top-level arguments must be
/// ASCII.
fn unambiguous(key: &str, is_argument: bool) -> Result<String, &'static str> {
    if key.contains(char::is_control) {
        return Err("a name has control characters");
    }
    // Case-insensitive parsers fold the long s and the Kelvin sign to s and k.
    if key.contains(['\u{17f}', '\u{212a}']) || is_argument && !key.is_ascii() {
        return Err("the name of an argument has characters that may be read as others");
    }
    Ok(folded(key))
}

#[cfg(test)]
mod tests;
