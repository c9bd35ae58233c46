//! Arguments as every parser would read them: what parsers disagree on (a key twice, keys that
//! differ only in case or look alike once folded, control bytes in keys) is refused rather than one
//! reading chosen.

use lockgate_text::json::Reader;
use serde_json::{Map, Value};

use crate::Refusal;

/// Deepest nesting of arguments that a policy reads.
const DEPTH: usize = 64;
/// Most members of one object.
const MEMBERS: usize = 4096;
const READER: Reader = Reader { depth: DEPTH, members: MEMBERS, key: unambiguous };

/// Reads the arguments of a call; absent ones are an empty object.
pub(crate) fn read(text: Option<&[u8]>) -> Result<Value, Refusal> {
    let Some(text) = text else { return Ok(Value::Object(Map::new())) };
    match READER.read(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(Refusal("the arguments must be an object".into())),
        Err(words) => Err(Refusal(format!(
            "the arguments cannot be judged: {words}; send each of them once, plainly written"
        ))),
    }
}

/// A key as careless readers compare it.
pub(crate) fn folded(key: &str) -> String {
    key.to_lowercase()
}

/// The key as it is compared, or why it might be read as another one. Arguments themselves have
/// names of ASCII alone.
fn unambiguous(key: &str, is_argument: bool) -> Result<String, &'static str> {
    if key.contains(char::is_control) {
        return Err("a name has control characters in it");
    }
    // The long s and the Kelvin sign are s and k to readers that ignore case.
    if key.contains(['\u{17f}', '\u{212a}']) || is_argument && !key.is_ascii() {
        return Err("the name of an argument has characters that stand for others");
    }
    Ok(folded(key))
}

#[cfg(test)]
mod tests;
