//! What the browser brings back from the provider, before anything of it is believed. Of an answer
//! of another issuer nothing is looked at, and words of the provider are not kept.

use super::SignInError;

/// Longest code, in bytes.
const MAX_CODE: usize = 4096;
/// Longest word of an error, in bytes.
const MAX_ERROR: usize = 64;

/// The parameters of the answer (RFC 6749, section 4.1.2; RFC 9207).
#[derive(Default)]
pub struct Answer {
    code: Option<String>,
    pub state: Option<String>,
    issuer: Option<String>,
    error: Option<String>,
}

impl Answer {
    /// Reads the pairs of a query. `None` where a parameter stands twice.
    pub fn read(pairs: impl IntoIterator<Item = (String, String)>) -> Option<Self> {
        let mut answer = Self::default();
        for (name, value) in pairs {
            let place = match &*name {
                "code" => &mut answer.code,
                "state" => &mut answer.state,
                "iss" => &mut answer.issuer,
                "error" => &mut answer.error,
                _ => continue,
            };
            if place.replace(value).is_some() {
                return None;
            }
        }
        Some(answer)
    }

    /// The code, if the answer is one of this issuer, which may announce that it always names
    /// itself.
    pub(super) fn code(&self, issuer: &str, is_announced: bool) -> Result<&str, SignInError> {
        let is_issuer = match &self.issuer {
            Some(named) => named == issuer,
            None => !is_announced,
        };
        if !is_issuer {
            return Err(SignInError::Issuer);
        }
        match (&self.error, &self.code) {
            (Some(error), _) => Err(read_error(error)),
            (None, Some(code)) if (1..=MAX_CODE).contains(&code.len()) => Ok(code),
            _ => Err(SignInError::Malformed),
        }
    }
}

/// An error, as far as it is a word as the specifications have them.
pub(super) fn read_error(error: &str) -> SignInError {
    let is_word = (1..=MAX_ERROR).contains(&error.len())
        && error.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    match error {
        "access_denied" => SignInError::Refused,
        "invalid_client" | "unauthorized_client" => SignInError::Client,
        "invalid_grant" => SignInError::Code,
        word if is_word => SignInError::Provider(word.to_owned()),
        _ => SignInError::Malformed,
    }
}

#[cfg(test)]
mod tests;
