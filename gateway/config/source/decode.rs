//! Deserialises a type from a node, with the path of the first mistake.

use std::collections::btree_map;
use std::fmt;
use std::{iter, slice};

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, Visitor,
};

use super::node::{Node, NodeEntry, Value};

/// A mistake in a value.
#[derive(Debug, thiserror::Error)]
#[error("{mistake:?}")]
pub struct DecodeError {
    pub path: Vec<String>,
    pub mistake: Mistake,
}

#[derive(Debug)]
pub enum Mistake {
    UnknownField(String, &'static [&'static str]),
    UnknownVariant(String, &'static [&'static str]),
    MissingField(&'static str),
    DuplicateField(&'static str),
    /// The expected kind of value.
    Kind(String),
    Message(String),
}

/// Reads a `T` from a value.
///
/// # Errors
/// The first mistake.
pub fn decode<T: DeserializeOwned>(value: &Node) -> Result<T, DecodeError> {
    T::deserialize(Decoder(value))
}

impl DecodeError {
    /// Prepends a key to the path.
    fn below(mut self, key: &str) -> Self {
        self.path.insert(0, key.to_owned());
        self
    }
}

impl From<Mistake> for DecodeError {
    fn from(mistake: Mistake) -> Self {
        Self { path: Vec::new(), mistake }
    }
}

impl de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Mistake::Message(message.to_string()).into()
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Mistake::Kind(expected.to_string()).into()
    }

    fn invalid_value(actual: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(actual, expected)
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        Mistake::UnknownVariant(word.to_owned(), known).into()
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        Mistake::UnknownField(name.to_owned(), known).into()
    }

    fn missing_field(name: &'static str) -> Self {
        Mistake::MissingField(name).into()
    }

    fn duplicate_field(name: &'static str) -> Self {
        Mistake::DuplicateField(name).into()
    }
}

#[derive(Clone, Copy)]
struct Decoder<'a>(&'a Node);

impl<'de> Deserializer<'de> for Decoder<'_> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.0.value {
            Value::Null | Value::Removed => visitor.visit_none(),
            Value::Bool(flag) => visitor.visit_bool(*flag),
            Value::Integer(number) => match (u64::try_from(*number), i64::try_from(*number)) {
                (Ok(number), _) => visitor.visit_u64(number),
                (_, Ok(number)) => visitor.visit_i64(number),
                _ => visitor.visit_i128(*number),
            },
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Text(text) => visitor.visit_str(text),
            Value::List(items) => visitor.visit_seq(Items(items.iter().enumerate())),
            Value::Map(entries) => visitor.visit_map(Entries { rest: entries.iter(), value: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match &self.0.value {
            Value::Text(word) => visitor.visit_enum(word.as_str().into_deserializer()),
            Value::Map(entries) => {
                let entries = Entries { rest: entries.iter(), value: None };
                visitor.visit_enum(MapAccessDeserializer::new(entries))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Entries<'a> {
    rest: btree_map::Iter<'a, String, NodeEntry>,
    value: Option<(&'a str, &'a Node)>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, DecodeError> {
        // Null means "not given".
        let mut given = self.rest.by_ref().filter(|(_, entry)| !entry.node.is_null());
        let Some((key, entry)) = given.next() else { return Ok(None) };
        self.value = Some((key, &entry.node));
        let word: StrDeserializer<'_, DecodeError> = key.as_str().into_deserializer();
        seed.deserialize(word).map(Some).map_err(|error| error.below(key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, DecodeError> {
        match self.value.take() {
            Some((key, node)) => seed.deserialize(Decoder(node)).map_err(|error| error.below(key)),
            None => Err(de::Error::custom("a value without a key")),
        }
    }
}

struct Items<'a>(iter::Enumerate<slice::Iter<'a, Node>>);

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        let mut left = self.0.by_ref().filter(|(_, item)| item.value != Value::Removed);
        let Some((at, item)) = left.next() else { return Ok(None) };
        seed.deserialize(Decoder(item)).map(Some).map_err(|error| error.below(&at.to_string()))
    }
}
