//! Causes of a failed exchange.

use std::io;

/// Why an exchange failed.
#[derive(Debug, thiserror::Error)]
pub enum Http1Error {
    #[error("connection error: {0}")]
    Io(#[from] io::Error),
    #[error("connection closed before message completed")]
    Incomplete,
    #[error("invalid HTTP response: {0}")]
    Invalid(&'static str),
    #[error("the response head is too large")]
    TooLarge,
}
