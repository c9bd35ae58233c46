//! The time by which sealed tokens expire.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix time in seconds.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
