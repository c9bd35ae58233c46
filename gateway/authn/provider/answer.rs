//! The parameters that the browser returns from the provider, and their verification; and failures
//! of a sign-in. An answer of another issuer is not evaluated, and free text from the provider is
//! not kept: no error contains a code, a token or a secret.

/// Maximum length of a code, in bytes.
const MAX_CODE: usize = 4096;
/// Maximum length of an error code, in bytes.
const MAX_ERROR: usize = 64;

/// The parameters of the authorization response (RFC 6749, section 4.1.2; RFC 9207).
#[derive(Default)]
pub struct Answer {
    code: Option<String>,
    pub state: Option<String>,
    issuer: Option<String>,
    error: Option<String>,
}

impl Answer {
    /// Reads the pairs of a query. Returns `None` for a duplicate parameter.
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

    /// Returns the code of an answer from this issuer. If `is_announced`, the provider includes
    /// `iss` in every answer, so that an answer without it is rejected.
    pub(super) fn code(&self, issuer: &str, is_announced: bool) -> Result<&str, SignInError> {
        let is_issuer = self.issuer.as_ref().map_or_else(|| !is_announced, |named| named == issuer);
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

/// Maps an error code. Anything but a code in the form of the specifications is dropped.
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

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    /// Concerns the metadata or the token endpoint.
    #[error("the identity provider cannot be reached or used: {0}")]
    Unreachable(String),
    #[error("the identity provider's keys are not available")]
    NoKeys,
    #[error("too many concurrent sign-ins")]
    Busy,
    /// `access_denied`.
    #[error("the identity provider or the user denied access")]
    Refused,
    /// An error code in the form of the specifications.
    #[error("the identity provider returned `{0}`")]
    Provider(String),
    #[error("the identity provider rejected the client id or its secret")]
    Client,
    #[error("the identity provider rejected the code")]
    Code,
    #[error("the response does not belong to a sign-in")]
    Malformed,
    /// RFC 9207, or the `iss` of the ID token.
    #[error("the response is from another issuer")]
    Issuer,
    #[error("the ID token is missing, unreadable, or not signed by the issuer as configured")]
    Token,
    #[error("the ID token has expired, or is not valid yet")]
    Clock,
    #[error("the ID token is for another client")]
    Audience,
    #[error("the ID token belongs to another sign-in")]
    Nonce,
    #[error("the account has no subject")]
    NoSubject,
    #[error("the account has no organisation (claim `{0}`)")]
    NoOrganisation(String),
    #[error("the account lacks a scope that every request needs")]
    Scopes,
}

#[cfg(test)]
mod tests;
