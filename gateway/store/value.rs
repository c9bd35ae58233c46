//! Parameters, rows and records, alike for both engines. A record declares its columns once. Times
//! are milliseconds since 1970. Names have a second form for comparison.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Result, StoreError};

/// A parameter, or the value of a column.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// Implements the conversions of types to values.
macro_rules! values {
    ($($value:ident: $kind:ty => $converted:expr,)+) => { $(
        impl From<$kind> for Value {
            fn from($value: $kind) -> Self {
                $converted
            }
        }
    )+ };
}

values! {
    value: i64 => Value::Integer(value),
    value: &i64 => Value::Integer(*value),
    value: &bool => Value::Integer((*value).into()),
    value: &str => Value::Text(value.to_owned()),
    value: &String => Value::Text(value.clone()),
    value: &Vec<u8> => Value::Bytes(value.clone()),
    value: &Option<String> => value.as_ref().map_or(Value::Null, Value::from),
    value: &Option<Vec<u8>> => value.as_ref().map_or(Value::Null, Value::from),
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

impl FromValue for bool {
    fn from_value(value: &Value) -> Option<Self> {
        i64::from_value(value).map(|value| value != 0)
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
    pub(crate) fn get<T: FromValue>(&self, name: &str) -> Result<T> {
        let index = self.columns.iter().position(|column| column == name);
        self.read(index.unwrap_or(usize::MAX), name)
    }

    /// Reads the first column.
    pub(crate) fn first<T: FromValue>(&self) -> Result<T> {
        self.read(0, "the first")
    }

    pub(crate) fn read<T: FromValue>(&self, index: usize, name: &str) -> Result<T> {
        let value = self.values.get(index).and_then(T::from_value);
        value.ok_or_else(|| StoreError::Refused(format!("the column `{name}` cannot be read")))
    }
}

/// The rows of a statement, and the number of rows that it changed.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) rows: Vec<Row>,
    pub(crate) affected: u64,
}

/// A row of a table. Each field is the column of the same name.
pub(crate) trait Record: Sized {
    const COLUMNS: &'static [&'static str];

    fn from_row(row: &Row) -> Result<Self>;

    /// Returns the values of [`Self::COLUMNS`].
    fn to_values(&self) -> Vec<Value>;
}

pub(crate) fn from_rows<T: Record>(rows: &[Row]) -> Result<Vec<T>> {
    rows.iter().map(T::from_row).collect()
}

/// Declares the structure of a [`Record`].
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $name:ident { $($(#[$doc:meta])* pub $column:ident: $kind:ty,)* }
    ) => {
        $(#[$meta])*
        pub struct $name { $($(#[$doc])* pub $column: $kind,)* }

        impl $crate::value::Record for $name {
            const COLUMNS: &'static [&'static str] = &[$(stringify!($column)),*];

            fn from_row(row: &$crate::value::Row) -> $crate::error::Result<Self> {
                Ok(Self { $($column: row.get(stringify!($column))?,)* })
            }

            fn to_values(&self) -> Vec<$crate::value::Value> {
                vec![$((&self.$column).into()),*]
            }
        }
    };
}

pub(crate) use record;

record! {
    /// A row of `integrations`, with sealed credentials.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct IntegrationRecord {
        pub id: String,
        pub organisation: String,
        pub slug: String,
        pub name: String,
        /// The form of the name for comparison.
        pub name_key: String,
        pub kind: String,
        /// The entry of the operator's catalogue that the integration was created from.
        pub catalogue: Option<String>,
        /// The name and the version of its server in the operator's registry.
        pub source: Option<String>,
        pub url: String,
        pub auth: String,
        pub auth_header: Option<String>,
        pub sealed: Option<Vec<u8>>,
        pub enabled: bool,
        pub version: i64,
        pub created_at: i64,
        pub updated_at: i64,
    }
}

record! {
    /// An agent of an organisation: a row of `agents`.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Agent {
        /// `agt_` and 32 random hexadecimal digits.
        pub id: String,
        pub organisation: String,
        /// For people; unique among the agents of its owner, ignoring case.
        pub name: String,
        /// The form of the name for comparison.
        pub name_key: String,
        /// The creator; administrators may change the agent too.
        pub owner_issuer: String,
        pub owner_subject: String,
        /// The form of its list of tools, `full`, `search` or `auto`; empty for the operator's
        /// setting.
        pub tools: String,
        /// The chosen items as JSON; empty for all items of its servers.
        pub items: String,
        /// Starts at 1; incremented by every change except assignments.
        pub version: i64,
        /// Milliseconds since 1970.
        pub created_at: i64,
        /// Milliseconds since 1970.
        pub updated_at: i64,
    }
}

record! {
    /// A row of `assignments` or `agent_servers`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AssignmentRecord {
        pub agent: String,
        /// The id of an integration, or the slug of a server of the operator.
        pub server: String,
    }
}

record! {
    /// A row of `agent_hidden_tools`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HiddenToolRecord {
        pub agent: String,
        /// As in [`AssignmentRecord`].
        pub server: String,
        /// The server's own name of the tool.
        pub tool: String,
    }
}

/// All rows of an organisation, as of the same moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrganisationRecords {
    pub id: String,
    /// Revision of the last change. Revisions of all organisations are in a total order.
    pub revision: i64,
    pub created_at: i64,
    pub integrations: Vec<IntegrationRecord>,
    pub agents: Vec<Agent>,
    pub assignments: Vec<AssignmentRecord>,
    pub hidden_tools: Vec<HiddenToolRecord>,
    /// Ids of unreadable rows, which are left out.
    pub unreadable: Vec<String>,
}
