//! Arguments as every parser would read them: what parsers disagree on (a key twice, keys that differ only in case or
//! look alike once folded, control bytes in keys) is refused rather than one reading chosen.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::Refusal;

/// Deepest nesting of arguments that a policy reads.
const DEPTH: usize = 64;
/// Most members of one object.
const MEMBERS: usize = 4096;

/// Reads the arguments of a call; absent ones are an empty object.
pub(crate) fn read(text: Option<&[u8]>) -> Result<Value, Refusal> {
    let Some(text) = text else { return Ok(Value::Object(Map::new())) };
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = Strict { depth: DEPTH, top: true }.deserialize(&mut reader).and_then(|v| reader.end().map(|()| v));
    match value {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(Refusal("the arguments must be an object".into())),
        Err(error) => {
            let words = error.to_string();
            let words = words.split(" at line ").next().unwrap_or_default();
            Err(Refusal(format!("the arguments cannot be judged: {words}; send each of them once, plainly written")))
        }
    }
}

/// How much deeper it may go, and whether this is the object of all arguments.
#[derive(Clone, Copy)]
struct Strict {
    depth: usize,
    top: bool,
}

impl Strict {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        let depth = self.depth.checked_sub(1).ok_or_else(|| E::custom("they are nested too deeply"))?;
        Ok(Self { depth, top: false })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = seq.next_element_seed(inner)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut seen = std::collections::HashSet::new();
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if let Some(why) = ambiguous(&key, self.top) {
                return Err(de::Error::custom(why));
            }
            if !seen.insert(folded(&key)) {
                return Err(de::Error::custom(format_args!("`{}` is there twice", short(&key))));
            }
            if seen.len() > MEMBERS {
                return Err(de::Error::custom("an object has too many members"));
            }
            object.insert(key, map.next_value_seed(inner)?);
        }
        Ok(Value::Object(object))
    }
}

/// A key as careless readers compare it.
pub(crate) fn folded(key: &str) -> String {
    key.to_lowercase()
}

/// Why a key might be read as another one.
fn ambiguous(key: &str, top: bool) -> Option<&'static str> {
    if key.chars().any(char::is_control) {
        return Some("a name has control characters in it");
    }
    // The long s and the Kelvin sign are s and k to readers that ignore case.
    if key.contains(['\u{17f}', '\u{212a}']) || top && !key.is_ascii() {
        return Some("the name of an argument has characters that stand for others");
    }
    None
}

fn short(key: &str) -> String {
    key.chars().take(64).collect()
}

#[cfg(test)]
mod tests;
