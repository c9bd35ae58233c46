//! The reason for refusing an argument, which reveals nothing to the caller about the values that
//! other rules allow, and the form of mistakes in policies.

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

/// A mistake in a part of a policy: the keys below the part, and a message for the author.
pub(crate) type Mistake = (Vec<String>, String);

pub(crate) fn mistake(keys: &[&str], what: impl Into<String>) -> Mistake {
    let path: Vec<_> = keys.iter().map(|key| (*key).to_owned()).collect();
    (path, what.into())
}
