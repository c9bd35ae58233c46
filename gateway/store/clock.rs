//! The clock for timestamps in rows.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns milliseconds since 1970.
pub(crate) fn now() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}
