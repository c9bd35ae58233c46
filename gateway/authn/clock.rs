//! The clock for the validity of credentials.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns Unix seconds.
pub(crate) fn now() -> u64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_secs(),
        Err(_) => 0,
    }
}
