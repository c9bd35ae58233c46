//! JSON text read as every parser would read it: an object with the same key twice, at any depth, is refused rather
//! than one of the two chosen.

use std::fmt;

use serde_json::{Map, Value};

/// Deepest nesting of arguments.
const DEPTH: usize = 64;

/// Reads one JSON value.
pub(crate) fn read(text: &[u8]) -> Result<Value, String> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = serde::de::DeserializeSeed::deserialize(Strict(DEPTH), &mut reader).map_err(|e| plain(&e))?;
    reader.end().map_err(|e| plain(&e))?;
    Ok(value)
}

fn plain(error: &serde_json::Error) -> String {
    let words = error.to_string();
    words.split(" at line ").next().unwrap_or_default().to_owned()
}

/// With how much deeper it may go.
struct Strict(usize);

impl<'de> serde::de::DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> serde::de::Visitor<'de> for Strict {
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

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let deeper = deeper(self.0)?;
        let mut list = Vec::new();
        while let Some(item) = seq.next_element_seed(Strict(deeper))? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let deeper = deeper(self.0)?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Strict(deeper))?;
            if map.contains_key(&key) {
                let key: String = key.chars().take(64).collect();
                return Err(serde::de::Error::custom(format!("the key `{key}` stands there twice")));
            }
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

fn deeper<E: serde::de::Error>(left: usize) -> Result<usize, E> {
    left.checked_sub(1).ok_or_else(|| E::custom(format!("it is nested deeper than {DEPTH} levels")))
}

#[cfg(test)]
mod tests;
