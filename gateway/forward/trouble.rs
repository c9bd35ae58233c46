//! Why delivery to a receiver failed, in words without secrets.

use std::time::Duration;

#[derive(Debug)]
pub(super) struct ForwardError {
    pub(super) words: String,
    /// Shortest pause before the next attempt.
    pub(super) pause: Duration,
}

impl ForwardError {
    pub(super) fn new(words: &impl ToString) -> Self {
        Self { words: words.to_string(), pause: Duration::ZERO }
    }
}
