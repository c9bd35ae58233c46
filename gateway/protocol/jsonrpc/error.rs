//! Errors of parsing a message.

use crate::scan::{ScanError, Span};

/// The reason why a text is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not JSON (-32700).
    #[error("parse error: {0}")]
    Parse(ScanError),
    /// JSON that violates a rule (-32600), with the id if it could be read.
    #[error("invalid request: {what}")]
    Invalid { what: EnvelopeError, id: Option<Span> },
}

/// The violated rule of the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    #[error("{0}")]
    Scan(ScanError),
    #[error("an array is not a message in this revision")]
    Batch,
    #[error("`jsonrpc` must be \"2.0\"")]
    Version,
    #[error("`id` must be a string or an integer of at most 256 bytes")]
    Id,
    #[error("`method` must be a string")]
    Method,
    #[error("`params` must be an object")]
    Params,
    #[error("`_meta` must be an object")]
    Meta,
    #[error("a message has either a method, a result or an error")]
    Shape,
    #[error("`result` must be an object")]
    Result,
    #[error("`error` must be an object with an integer code and a message")]
    Error,
}
