//! The position of an argument: a JSON Pointer (RFC 6901) in which `*` stands for every item of a
//! list.

use lockgate_text::json::Reader;
use serde_json::{Map, Value};

use crate::{Refusal, no};

const MAX_STEPS: usize = 16;
const MAX_BYTES: usize = 512;
/// Maximum number of values that a pointer may match in a call, because each is checked.
const MAX_PLACES: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pointer {
    pub(crate) text: String,
    pub(crate) steps: Vec<String>,
}

/// A position in the arguments, and its value.
pub(crate) type ArgumentPlace<'a> = (Vec<String>, &'a Value);

/// The positions that a pointer matches.
pub(crate) struct PointerMatches<'a> {
    pub(crate) places: Vec<ArgumentPlace<'a>>,
    /// Whether a step is missing, for some item at least.
    pub(crate) missing: bool,
}

impl Pointer {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("is longer than {MAX_BYTES} bytes"));
        }
        if text.is_empty() {
            return Ok(Self { text: String::new(), steps: Vec::new() });
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err("is not a JSON Pointer: it must begin with `/`".into());
        };
        let steps = rest.split('/').map(unescaped).collect::<Option<Vec<_>>>();
        let steps = steps.ok_or("is not a JSON Pointer: `~` is written `~0`")?;
        if steps.len() > MAX_STEPS {
            return Err(format!("has more than {MAX_STEPS} steps"));
        }
        Ok(Self { text: text.into(), steps })
    }

    /// Returns whether the pointer matches a single value rather than the items of a list.
    pub(crate) fn is_single(&self) -> bool {
        !self.steps.iter().any(|step| step == "*")
    }

    /// Finds every position that the pointer matches. A step missing in one item of a list does not
    /// affect the other items.
    ///
    /// # Errors
    /// A value on the path has another form, or a name has other letters, so the server's reading
    /// is unknown; or there are too many values.
    pub(crate) fn find<'a>(&self, arguments: &'a Value) -> Result<PointerMatches<'a>, Refusal> {
        let mut found = PointerMatches { places: vec![(Vec::new(), arguments)], missing: false };
        for step in &self.steps {
            let mut next = Vec::with_capacity(found.places.len());
            for (at, value) in found.places {
                let inner = match (value, step.as_str()) {
                    (Value::Array(items), "*") => {
                        let items = items.iter().enumerate();
                        next.extend(items.map(|(n, item)| (along(&at, &n.to_string()), item)));
                        continue;
                    }
                    (Value::Object(object), name) if name != "*" => {
                        let inner = object.get(name);
                        if inner.is_none() && is_disguised(object.keys(), name) {
                            return Err(disguised(&self.text));
                        }
                        inner
                    }
                    (Value::Array(items), number) => {
                        let Some(n) = index(number) else { return Err(self.misformed()) };
                        items.get(n)
                    }
                    _ => return Err(self.misformed()),
                };
                match inner {
                    Some(inner) => next.push((along(&at, step), inner)),
                    None => found.missing = true,
                }
            }
            if next.len() > MAX_PLACES {
                let at = &self.text;
                return no(format!(
                    "the argument {at} matches more than {MAX_PLACES} values: send fewer in one \
                        call"
                ));
            }
            found.places = next;
        }
        Ok(found)
    }

    fn misformed(&self) -> Refusal {
        Refusal(format!("the argument {} has an unexpected form", self.text))
    }
}

/// Decodes the escapes of a step; returns `None` if a `~` is invalid.
fn unescaped(step: &str) -> Option<String> {
    let plain = step.replace("~1", "").replace("~0", "");
    (!plain.contains('~')).then(|| step.replace("~1", "/").replace("~0", "~"))
}

/// Checks that no name on the path appears in other letters. A value of another form ends the
/// check.
pub(crate) fn undisguised(value: &Value, steps: &[String]) -> Result<(), Refusal> {
    /// Returns false if a name appears in other letters.
    fn plain(value: &Value, steps: &[String]) -> bool {
        let Some((step, rest)) = steps.split_first() else { return true };
        match value {
            Value::Array(items) if step == "*" => items.iter().all(|item| plain(item, rest)),
            Value::Object(object) => match object.get(step) {
                Some(inner) => plain(inner, rest),
                None => !is_disguised(object.keys(), step),
            },
            _ => true,
        }
    }
    if plain(value, steps) { Ok(()) } else { Err(disguised(&pointer(steps))) }
}

/// Formats steps as a JSON Pointer.
pub(crate) fn pointer(steps: &[String]) -> String {
    steps.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect()
}

/// Returns whether a case-insensitive reader would take one of the keys for the name.
fn is_disguised<'a>(mut keys: impl Iterator<Item = &'a String>, name: &str) -> bool {
    let wanted = folded(name);
    keys.any(|key| folded(key) == wanted)
}

fn disguised(text: &str) -> Refusal {
    Refusal(format!("the argument {text} must be written exactly like this"))
}

fn along(at: &[String], step: &str) -> Vec<String> {
    [at, &[step.to_owned()]].concat()
}

/// Parses an index as defined by the RFC: no sign, no leading zero.
fn index(text: &str) -> Option<usize> {
    let plain = text == "0" || !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

// Strict parsing of arguments. Input on which parsers disagree (duplicate keys, keys that differ
// only in case or are equal once folded, control characters in keys) is refused instead of
// choosing one reading.

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
        Ok(_) => no("the arguments must be an object"),
        Err(words) => no(format!(
            "the arguments cannot be checked: {words}; send each argument once, in plain characters"
        )),
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
