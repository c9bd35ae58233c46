//! Records, and the criteria of a search.

use serde_json::{Map, Value};

/// The members of a record as written.
pub type Members = Map<String, Value>;

/// The criteria of a search.
pub struct Search<'a> {
    /// Only records before this number.
    pub before: Option<u64>,
    /// Only records from this time on: RFC 3339, in UTC.
    pub from: Option<&'a str>,
    /// Only records before this time.
    pub to: Option<&'a str>,
    /// Maximum number of returned records.
    pub limit: usize,
    pub fits: &'a dyn Fn(&Members) -> bool,
}

pub(super) fn number_of(record: &Members) -> Option<u64> {
    record.get("seq").and_then(Value::as_u64)
}

pub(super) fn text<'a>(record: &'a Members, name: &str) -> &'a str {
    record.get(name).and_then(Value::as_str).unwrap_or_default()
}
