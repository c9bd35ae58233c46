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

/// Length limit of each list of a rule.
const MAX_ENTRIES: usize = 1000;

/// Checks the lengths of a rule's lists, and its `max_bytes`.
pub(crate) fn check_size(lengths: &[usize], bytes: usize, most: usize) -> Result<(), String> {
    if lengths.iter().any(|length| *length > MAX_ENTRIES) {
        return Err(format!("a list has more than {MAX_ENTRIES} entries"));
    }
    if !(1..=most).contains(&bytes) {
        return Err(format!("max_bytes: must be from 1 to {most}"));
    }
    Ok(())
}

/// A mistake in a part of a policy: the keys below the part, and a message for the author.
pub(crate) type Mistake = (Vec<String>, String);

pub(crate) fn mistake(keys: &[&str], what: impl Into<String>) -> Mistake {
    (keys.iter().map(ToString::to_string).collect(), what.into())
}
