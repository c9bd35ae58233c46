//! Converts PostgreSQL's text values to JSON, by type.

use lockgate_text::hex;
use serde_json::Value;

use crate::database::answer::{binary, document, float, signed};

/// Built-in types.
const KNOWN: [(u32, &str); 28] = [
    (16, "boolean"),
    (17, "bytea"),
    (18, "\"char\""),
    (19, "name"),
    (20, "bigint"),
    (21, "smallint"),
    (23, "integer"),
    (25, "text"),
    (26, "oid"),
    (114, "json"),
    (142, "xml"),
    (600, "point"),
    (700, "real"),
    (701, "double precision"),
    (869, "inet"),
    (650, "cidr"),
    (1007, "integer[]"),
    (1009, "text[]"),
    (1042, "character"),
    (1043, "character varying"),
    (1082, "date"),
    (1083, "time without time zone"),
    (1114, "timestamp without time zone"),
    (1184, "timestamp with time zone"),
    (1186, "interval"),
    (1700, "numeric"),
    (2950, "uuid"),
    (3802, "jsonb"),
];

pub(super) fn known(oid: u32) -> Option<&'static str> {
    for (known, name) in KNOWN {
        if known == oid {
            return Some(name);
        }
    }
    None
}

fn bytes(text: &str) -> Option<Value> {
    let digits = text.strip_prefix("\\x")?;
    Some(binary(&hex::decode(digits.as_bytes())?))
}

/// Converts a value. Types without a lossless JSON form stay text: dates, numeric, arrays, ranges,
/// user-defined types.
pub(super) fn json(oid: u32, text: &str) -> Value {
    match oid {
        16 => return Value::Bool(text == "t"),
        17 => {
            if let Some(value) = bytes(text) {
                return value;
            }
        }
        20 | 21 | 23 | 26 => {
            if let Ok(number) = text.parse() {
                return signed(number);
            }
        }
        700 | 701 => {
            if let Ok(number) = text.parse() {
                return float(number);
            }
        }
        114 | 3802 => return document(text),
        _ => {}
    }
    text.into()
}
