//! PostgreSQL's text of a value as JSON, by its type.

use lockgate_text::hex;
use serde_json::Value;

use crate::database::answer::{binary, document, float, signed};

/// Types whose names every server has.
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
    KNOWN.iter().find(|(known, _)| *known == oid).map(|(_, name)| *name)
}

fn bytes(text: &str) -> Option<Value> {
    let digits = text.strip_prefix("\\x")?;
    Some(binary(&hex::decode(digits.as_bytes())?))
}

/// What text does not become something better stays text: dates, numeric, arrays, ranges, types of
/// the owner's own.
pub(super) fn json(oid: u32, text: &str) -> Value {
    let better = match oid {
        16 => Some(Value::Bool(text == "t")),
        17 => bytes(text),
        20 | 21 | 23 | 26 => text.parse().ok().map(signed),
        700 | 701 => text.parse().ok().map(float),
        114 | 3802 => Some(document(text)),
        _ => None,
    };
    better.unwrap_or_else(|| text.into())
}
