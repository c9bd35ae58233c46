//! JSON as a tree, with an unambiguous interpretation: a duplicate key, at any depth, makes the
//! text invalid, because some parsers use its first value and some its last. Also the entry to
//! serde_json for all other JSON ([`from_slice`]).

use std::collections::HashSet;
use std::fmt;

use memchr::{memchr, memmem};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Deepest nesting supported by serde_json.
pub const MAX_DEPTH: usize = 127;
/// Characters of a key shown in errors.
const MAX_SHOWN: usize = 64;
/// The key that marks serde_json's own `RawValue`. A `Value` with this key parses its text again,
/// with a fresh limit of depth, so that texts within texts overflow the stack.
const RESERVED_KEY: &str = "$serde_json::private::RawValue";
/// The error for [`RESERVED_KEY`].
const RESERVED: &str = "the key `$serde_json::private::RawValue` is reserved";

/// Parses JSON like [`serde_json::from_slice`], and rejects objects with the reserved key of
/// serde_json.
///
/// # Errors
/// The text is invalid, has the reserved key, or does not match the type.
pub fn from_slice<'a, T: Deserialize<'a>>(text: &'a [u8]) -> serde_json::Result<T> {
    if has_reserved_key(text) {
        return Err(serde_json::Error::custom(RESERVED));
    }
    serde_json::from_slice(text)
}

/// Parses JSON like [`serde_json::from_str`]; see [`from_slice`].
///
/// # Errors
/// As [`from_slice`].
pub fn from_str<'a, T: Deserialize<'a>>(text: &'a str) -> serde_json::Result<T> {
    if has_reserved_key(text.as_bytes()) {
        return Err(serde_json::Error::custom(RESERVED));
    }
    serde_json::from_str(text)
}

/// Returns whether a JSON text has the reserved key, however it is escaped.
fn has_reserved_key(text: &[u8]) -> bool {
    // Letters of the key are either written as they are or as `\u` with digits.
    let is_possible = memmem::find(text, b"RawValue").is_some();
    (is_possible || memmem::find(text, b"\\u").is_some()) && finds_reserved_key(text)
}

#[cold]
fn finds_reserved_key(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(start) = memchr(b'"', rest) {
        let Some(end) = string_end(rest, start + 1) else { return false };
        let string = &rest[start..=end];
        rest = &rest[end + 1..];
        if rest.trim_ascii_start().starts_with(b":") && is_reserved(string) {
            return true;
        }
    }
    false
}

/// Returns the position of the quote that ends a string.
fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match text.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Returns whether a string in quotes is the reserved key.
fn is_reserved(string: &[u8]) -> bool {
    // An escaped character takes six bytes.
    let possible = RESERVED_KEY.len() + 2..=RESERVED_KEY.len() * 6 + 2;
    possible.contains(&string.len())
        && serde_json::from_slice::<String>(string).is_ok_and(|key| key == RESERVED_KEY)
}

/// The rules for reading a text.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    /// Deepest nesting.
    pub depth: usize,
    /// Most members of an object.
    pub members: usize,
    /// Maps a key to its form for comparison within its object, or rejects it. The flag is true for
    /// the outermost object.
    pub key: fn(&str, bool) -> Result<String, &'static str>,
}

impl Reader {
    /// Creates a reader that compares keys as they are.
    pub const fn exact(depth: usize) -> Self {
        Self { depth, members: usize::MAX, key: |key, _| Ok(key.to_owned()) }
    }

    /// Parses a single value.
    ///
    /// # Errors
    /// Why the text is invalid or ambiguous.
    pub fn read(self, text: &[u8]) -> Result<Value, String> {
        self.go_through(text, true)
    }

    /// Validates a single value and discards its content. Returns an empty value of its kind.
    ///
    /// # Errors
    /// Why the text is invalid or ambiguous.
    pub fn check(self, text: &[u8]) -> Result<Value, String> {
        self.go_through(text, false)
    }

    fn go_through(self, text: &[u8], keeps: bool) -> Result<Value, String> {
        let mut reader = serde_json::Deserializer::from_slice(text);
        let value = Level { rules: self, left: self.depth, keeps }.deserialize(&mut reader);
        let whole = value.and_then(|value| reader.end().map(|()| value));
        whole.map_err(|error| plain(&error))
    }
}

/// Returns serde_json's message without the position.
fn plain(error: &serde_json::Error) -> String {
    let words = error.to_string();
    match words.split_once(" at line ") {
        Some((reason, _)) => reason.to_owned(),
        None => words,
    }
}

/// A value, with the remaining nesting depth.
#[derive(Clone, Copy)]
struct Level {
    rules: Reader,
    left: usize,
    keeps: bool,
}

impl Level {
    fn inner<E: Error>(self) -> Result<Self, E> {
        match self.left.checked_sub(1) {
            Some(left) => Ok(Self { left, ..self }),
            None => {
                Err(E::custom(format_args!("it is nested deeper than {} levels", self.rules.depth)))
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        match Number::from_f64(value) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(E::custom("a number is out of range")),
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(if self.keeps { value.into() } else { "".into() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            if self.keeps {
                list.push(item);
            }
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let outermost = self.left == self.rules.depth;
        let mut seen = HashSet::new();
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            // Its reader may pass the value to serde_json again.
            if key == RESERVED_KEY {
                return Err(A::Error::custom(RESERVED));
            }
            let compared = match (self.rules.key)(&key, outermost) {
                Ok(compared) => compared,
                Err(reason) => return Err(A::Error::custom(reason)),
            };
            if !seen.insert(compared) {
                let shown: String = key.chars().take(MAX_SHOWN).collect();
                return Err(A::Error::custom(format_args!("the key `{shown}` occurs twice")));
            }
            if seen.len() > self.rules.members {
                return Err(A::Error::custom("an object has too many members"));
            }
            let value = members.next_value_seed(inner)?;
            if self.keeps {
                object.insert(key, value);
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests;
