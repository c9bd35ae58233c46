//! The reason for refusing an argument. The message goes to the caller and reveals nothing about
//! the values that other rules allow.

/// One sentence: the refused part of an argument, and the value to send instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// Converts the message of a failed check into a [`Refusal`].
pub(crate) fn refused<T>(judged: Result<T, String>) -> Result<T, Refusal> {
    judged.map_err(Refusal)
}

/// Refuses with a message.
pub(crate) fn no<T>(words: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(words.into()))
}
