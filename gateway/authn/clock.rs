//! The time that credentials are judged by.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix time in seconds.
pub(crate) fn now() -> u64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_secs(),
        Err(_) => 0,
    }
}
