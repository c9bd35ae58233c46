//! The clock for the expiry of sealed tokens.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the Unix time in seconds.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}
