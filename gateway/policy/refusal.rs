//! The reason for refusing an argument. The message goes to the caller and reveals nothing about
//! the values that other rules allow.

/// One sentence: the refused part of an argument, and the value to send instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// The message of a failed check.
impl From<String> for Refusal {
    fn from(words: String) -> Self {
        Self(words)
    }
}

/// Refuses with a message.
pub(crate) fn no<T>(words: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(words.into()))
}
