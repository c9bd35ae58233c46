//! Statements and their results: rows as JSON without loss of precision, within limits.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lockgate_text::json;
use serde_json::{Number, Value, json};

use crate::tool::ToolError;

/// Larger integers are returned as strings, because many JSON parsers would round them.
const MAX_SAFE: u64 = (1 << 53) - 1;

/// A statement with its parameters and limits.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) sql: String,
    pub(super) parameters: Vec<Value>,
    pub(super) max_rows: usize,
    pub(super) max_bytes: usize,
    pub(super) timeout: Duration,
    /// Whether this is a built-in statement on the database's catalog.
    pub(super) own: bool,
}

impl Ask {
    /// Returns the error of a timeout.
    pub(super) fn late(&self) -> ToolError {
        let instead = if self.own {
            "try again in a moment"
        } else {
            "request less, check its plan with `explain`, or raise `timeout_ms`"
        };
        ToolError::new(format!(
            "the statement took longer than {} ms: {instead}",
            self.timeout.as_millis()
        ))
    }

    /// Returns the error for a value that exceeds the size limit.
    pub(super) fn large(&self) -> ToolError {
        ToolError::new(format!(
            "a value exceeds the size limit of a result ({} bytes): select its length, or parts \
                of it with substr",
            self.max_bytes
        ))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    /// The database's name of the type.
    pub(super) kind: String,
}

/// A result that is being collected.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<Value>>,
    bytes: usize,
    /// Why rows are missing: `max_rows` or `max_bytes`.
    pub(super) truncated: Option<&'static str>,
}

impl Answer {
    pub(super) fn new(columns: Vec<Column>) -> Self {
        Self { columns, ..Self::default() }
    }

    /// Adds a row. Returns false if it exceeds a limit.
    pub(super) fn push(&mut self, row: Vec<Value>, ask: &Ask) -> bool {
        if self.rows.len() >= ask.max_rows {
            self.truncated = Some("max_rows");
            return false;
        }
        let size: usize = row.iter().map(size).sum();
        if self.bytes + size > ask.max_bytes {
            self.truncated = Some("max_bytes");
            return false;
        }
        self.bytes += size;
        self.rows.push(row);
        true
    }

    pub(super) fn columns_json(&self) -> Value {
        let columns = self.columns.iter();
        columns.map(|column| json!({"name": column.name, "type": column.kind})).collect()
    }

    /// Returns rows as objects by column name, for built-in statements.
    pub(super) fn objects(self) -> Vec<Value> {
        let mut objects = Vec::with_capacity(self.rows.len());
        for row in self.rows {
            let values = self.columns.iter().zip(row);
            objects.push(values.map(|(column, value)| (column.name.clone(), value)).collect());
        }
        objects
    }
}

/// Estimates the size of a value in a result, in bytes.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 6,
        Value::Number(_) => 12,
        Value::String(text) => text.len() + 3,
        Value::Array(_) | Value::Object(_) => value.to_string().len() + 1,
    }
}

pub(super) fn signed(number: i64) -> Value {
    if number.unsigned_abs() <= MAX_SAFE { number.into() } else { number.to_string().into() }
}

pub(super) fn unsigned(number: u64) -> Value {
    if number <= MAX_SAFE { number.into() } else { number.to_string().into() }
}

/// Converts a number; to a string if JSON cannot represent it (`NaN`, `Infinity`).
pub(super) fn float(number: f64) -> Value {
    let text = match number {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    };
    Number::from_f64(number).map_or_else(|| text.into(), Value::Number)
}

/// Encodes binary data as `{"base64": "…"}`.
pub(super) fn binary(bytes: &[u8]) -> Value {
    json!({"base64": STANDARD.encode(bytes)})
}

/// Parses JSON if that is lossless (same numbers, same keys in the same order). Otherwise returns
/// its text.
pub(super) fn document(text: &str) -> Value {
    let Ok(value) = json::from_str::<Value>(text) else { return text.into() };
    let again = value.to_string();
    if again == compact(text) { value } else { text.into() }
}

/// Removes whitespace between the tokens of JSON text.
fn compact(text: &str) -> String {
    let mut inside = false;
    let mut escaped = false;
    let mut compact = String::with_capacity(text.len());
    for character in text.chars() {
        if inside || !character.is_ascii_whitespace() {
            compact.push(character);
        }
        if character == '"' && !escaped {
            inside = !inside;
        }
        escaped = inside && character == '\\' && !escaped;
    }
    compact
}

/// Describes a failed connection: with the fix if the cause is evident, otherwise with a reference
/// to the log.
pub(super) fn unreachable(error: &str) -> ToolError {
    // The prefix of the TLS library's certificate errors.
    ToolError::new(if error.contains("invalid peer certificate") {
        "the database's certificate is not valid for this gateway: its operator must add the \
                issuer to `egress.ca_file`, or replace the certificate; the log has details"
    } else {
        "the database cannot be reached, or refuses the gateway: the gateway's log has the reason"
    })
}
