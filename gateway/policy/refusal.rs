//! Why an argument is refused. It carries words for the caller and nothing of what other rules
//! allow.

/// One sentence that says what is refused and what to send instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// What was judged, with words for the caller where it is refused.
pub(crate) fn refused<T>(judged: Result<T, String>) -> Result<T, Refusal> {
    match judged {
        Ok(judged) => Ok(judged),
        Err(words) => Err(Refusal(words)),
    }
}
