//! Parameters and rows of statements, alike for both engines.

use std::sync::Arc;

use crate::error::StoreError;

/// A parameter, or the value of a column.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Self {
        Self::Text(value.clone())
    }
}

impl From<&Vec<u8>> for Value {
    fn from(value: &Vec<u8>) -> Self {
        Self::Bytes(value.clone())
    }
}

impl From<&Option<String>> for Value {
    fn from(value: &Option<String>) -> Self {
        value.as_ref().map_or(Self::Null, Self::from)
    }
}

impl From<&Option<Vec<u8>>> for Value {
    fn from(value: &Option<Vec<u8>>) -> Self {
        value.as_ref().map_or(Self::Null, Self::from)
    }
}

/// A type that a column can be read as.
pub(crate) trait FromValue: Sized {
    /// Returns `None` for a value of another type.
    fn from_value(value: &Value) -> Option<Self>;
}

impl FromValue for i64 {
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Integer(value) = value { Some(*value) } else { None }
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Text(value) = value { Some(value.clone()) } else { None }
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Bytes(value) = value { Some(value.clone()) } else { None }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Option<Self> {
        if *value == Value::Null { Some(None) } else { T::from_value(value).map(Some) }
    }
}

pub(crate) struct Row {
    pub(crate) columns: Arc<[String]>,
    pub(crate) values: Vec<Value>,
}

impl Row {
    /// Reads a column.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for a missing column, and for a value of another type.
    pub(crate) fn get<T: FromValue>(&self, name: &str) -> Result<T, StoreError> {
        let index = self.columns.iter().position(|column| column == name);
        self.read(index.unwrap_or(usize::MAX), name)
    }

    /// Reads the first column.
    pub(crate) fn first<T: FromValue>(&self) -> Result<T, StoreError> {
        self.read(0, "the first")
    }

    pub(crate) fn read<T: FromValue>(&self, index: usize, name: &str) -> Result<T, StoreError> {
        match self.values.get(index).and_then(T::from_value) {
            Some(value) => Ok(value),
            None => Err(StoreError::Refused(format!("the column `{name}` cannot be read"))),
        }
    }
}

/// The rows of a statement, and the number of rows that it changed.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) rows: Vec<Row>,
    pub(crate) affected: u64,
}
