//! JSON as a tree, with an unambiguous interpretation: a duplicate key, at any depth, makes the
//! text invalid, because some parsers use its first value and some its last.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Deepest nesting supported by serde_json.
pub const MAX_DEPTH: usize = 127;
/// Characters of a key shown in errors.
const MAX_SHOWN: usize = 64;

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
        self.read_whole(text, keeps).map_err(|error| plain(&error))
    }

    fn read_whole(self, text: &[u8], keeps: bool) -> serde_json::Result<Value> {
        let mut reader = serde_json::Deserializer::from_slice(text);
        let value = Level { rules: self, left: self.depth, keeps }.deserialize(&mut reader)?;
        reader.end()?;
        Ok(value)
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

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
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
