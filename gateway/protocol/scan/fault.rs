//! Errors of scanning a text.

/// The error of a scan and its position. Small enough for results to be returned in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct ScanError {
    pub what: Fault,
    /// Bytes from the start of the text.
    pub at: u32,
}

/// The fault in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("not UTF-8")]
    Utf8,
    #[error("not JSON")]
    Syntax,
    #[error("text ends early")]
    End,
    #[error("nested too deeply")]
    Depth,
    #[error("text after the value")]
    Trailing,
    #[error("duplicate key")]
    Duplicate,
    #[error("keys that differ only in case")]
    CaseVariant,
    #[error("key with bytes outside printable ASCII")]
    KeyBytes,
    #[error("too many members")]
    Members,
    #[error("not an object")]
    NotObject,
    #[error("longer than 4 GiB")]
    Length,
}

impl Fault {
    /// Returns whether the text is not JSON, as opposed to JSON that is rejected.
    pub fn is_syntax(self) -> bool {
        matches!(
            self,
            Self::Utf8 | Self::Syntax | Self::End | Self::Trailing | Self::Depth | Self::Length
        )
    }
}
