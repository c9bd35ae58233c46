//! What is asked of a database, and what comes back: rows as JSON, in which nothing is lost, within
//! caps.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value, json};

use crate::tool::ToolError;

/// Whole numbers up to here are JSON numbers; larger ones are strings, because many readers of JSON
/// would round them.
const MAX_SAFE: u64 = (1 << 53) - 1;

/// One statement with its parameters and bounds.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) sql: String,
    pub(super) parameters: Vec<Value>,
    pub(super) max_rows: usize,
    pub(super) max_bytes: usize,
    pub(super) timeout: Duration,
    /// A fixed statement of ours that looks at the database's own catalog.
    pub(super) own: bool,
}

impl Ask {
    /// The statement ran into its timeout.
    pub(super) fn late(&self) -> ToolError {
        let instead = match self.own {
            true => "try again in a moment",
            false => "ask for less, see its plan with `explain`, or give it a larger `timeout_ms`",
        };
        ToolError::new(format!(
            "the statement took longer than {} ms: {instead}",
            self.timeout.as_millis()
        ))
    }

    /// A single value does not fit.
    pub(super) fn large(&self) -> ToolError {
        ToolError::new(format!(
            "a value is larger than an answer may be ({} bytes): select its length, or parts of it \
                with substr",
            self.max_bytes
        ))
    }
}

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    /// The database's word for the type.
    pub(super) kind: String,
}

/// Rows that are being collected.
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

    /// Adds a row; false when it does not fit any more.
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
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            columns.push(json!({"name": column.name, "type": column.kind}));
        }
        columns.into()
    }

    /// Rows as objects by column name, for answers to our own statements.
    pub(super) fn objects(self) -> Vec<Value> {
        let mut objects = Vec::with_capacity(self.rows.len());
        for row in self.rows {
            let mut object = serde_json::Map::new();
            for (column, value) in self.columns.iter().zip(row) {
                object.insert(column.name.clone(), value);
            }
            objects.push(object.into());
        }
        objects
    }
}

/// About how many bytes a value takes in an answer.
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

/// A number; a string when JSON has no number for it (`NaN`, `Infinity`).
pub(super) fn float(number: f64) -> Value {
    match Number::from_f64(number) {
        Some(number) => Value::Number(number),
        None => text_of_float(number).into(),
    }
}

fn text_of_float(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

/// Bytes that are no text: `{"base64": "…"}`.
pub(super) fn binary(bytes: &[u8]) -> Value {
    json!({"base64": STANDARD.encode(bytes)})
}

/// JSON as a value where that loses nothing (same numbers, same keys in the same order), else as
/// its text.
pub(super) fn document(text: &str) -> Value {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return text.into() };
    let again = value.to_string();
    if again == compact(text) { value } else { text.into() }
}

/// JSON text without blanks between its tokens.
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

/// Why there is no connection: what the operator has to do where it is clear, and else that the log
/// says more.
pub(super) fn unreachable(error: &str) -> ToolError {
    // How the TLS library begins what it says of a certificate.
    ToolError::new(match error.contains("invalid peer certificate") {
        true => {
            "the database's certificate is not valid for this gateway: its operator names the \
                authority that made it in `egress.ca_file`, or mends the certificate, and finds \
                more in the log"
        }
        false => {
            "the database cannot be reached, or refuses the gateway: its operator finds the reason \
                in the log"
        }
    })
}
