//! Records, and which of them are searched.

use serde_json::{Map, Value};

/// A record, as it was written.
pub type Members = Map<String, Value>;

/// Which records are searched.
pub struct Search<'a> {
    /// Only those before this one.
    pub before: Option<u64>,
    /// Records of a time before this one are not looked at: RFC 3339, in UTC.
    pub from: Option<&'a str>,
    /// Only those of a time before this one.
    pub to: Option<&'a str>,
    /// Most records that are given.
    pub limit: usize,
    pub fits: &'a dyn Fn(&Members) -> bool,
}

pub(super) fn number_of(record: &Members) -> Option<u64> {
    record.get("seq").and_then(Value::as_u64)
}

pub(super) fn text<'a>(record: &'a Members, name: &str) -> &'a str {
    record.get(name).and_then(Value::as_str).unwrap_or_default()
}
