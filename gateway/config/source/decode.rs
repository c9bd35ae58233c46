//! Deserialises a type from figment's value. Figment's own deserialisers generate the code of each
//! type seven times, which would be most of this crate's code; this one generates it once.

use std::collections::btree_map;
use std::{iter, slice};

use figment::error::Error;
use figment::value::{Dict, Num, Value};
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};

/// Reads a `T` from a value.
///
/// # Errors
/// The first mistake, with its path.
pub fn decode<T: DeserializeOwned>(value: &Value) -> Result<T, Error> {
    T::deserialize(Decoder(value))
}

#[derive(Clone, Copy)]
struct Decoder<'a>(&'a Value);

impl<'de> Deserializer<'de> for Decoder<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::String(_, text) => visitor.visit_str(text),
            Value::Char(_, letter) => visitor.visit_str(letter.encode_utf8(&mut [0; 4])),
            Value::Bool(_, flag) => visitor.visit_bool(*flag),
            Value::Num(_, Num::U64(number)) => visitor.visit_u64(*number),
            Value::Num(_, Num::I64(number)) => visitor.visit_i64(*number),
            Value::Num(_, Num::F64(number)) => visitor.visit_f64(*number),
            Value::Num(_, number) => visitor.visit_i128(number.to_i128().unwrap_or_default()),
            Value::Empty(..) => visitor.visit_none(),
            Value::Dict(_, entries) => visitor.visit_map(Entries::new(entries)),
            Value::Array(_, items) => visitor.visit_seq(Items(items.iter().enumerate())),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Empty(..) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Value::String(_, word) => visitor.visit_enum(word.as_str().into_deserializer()),
            Value::Dict(_, entries) => {
                visitor.visit_enum(MapAccessDeserializer::new(Entries::new(entries)))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Entries<'a> {
    rest: btree_map::Iter<'a, String, Value>,
    entry: Option<(&'a String, &'a Value)>,
}

impl<'a> Entries<'a> {
    fn new(entries: &'a Dict) -> Self {
        Self { rest: entries.iter(), entry: None }
    }
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        self.entry = self.rest.next();
        let Some((key, _)) = self.entry else { return Ok(None) };
        let word: StrDeserializer<'_, Error> = key.as_str().into_deserializer();
        seed.deserialize(word).map(Some).map_err(|error| below(error, key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        match self.entry.take() {
            Some((key, value)) => {
                seed.deserialize(Decoder(value)).map_err(|error| below(error, key))
            }
            None => Err(Error::from("a value without a key".to_owned())),
        }
    }
}

struct Items<'a>(iter::Enumerate<slice::Iter<'a, Value>>);

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some((at, item)) = self.0.next() else { return Ok(None) };
        seed.deserialize(Decoder(item)).map(Some).map_err(|error| below(error, &at.to_string()))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// Prepends a key to an error's path.
fn below(mut error: Error, key: &str) -> Error {
    error.path.insert(0, key.to_owned());
    error
}
