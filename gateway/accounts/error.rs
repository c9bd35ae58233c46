//! Failures of OAuth towards servers. No variant contains a token, a code or a secret, and texts of
//! an authorization server are limited to its error codes.

use std::borrow::Cow;

/// What the functions of this crate return.
pub(crate) type Result<T, E = AccountError> = std::result::Result<T, E>;

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// Network failures, server errors and rate limits; a later attempt may succeed.
    #[error("{0}")]
    Unreachable(String),
    /// A document or a response violates its specification or a rule of security.
    #[error("{0}")]
    Invalid(String),
    /// The operator has to change the configuration.
    #[error("{0}")]
    Setup(String),
    /// The grant is no longer valid: the user has to connect again.
    #[error("the authorization server no longer accepts the grant")]
    InvalidGrant,
    /// The authorization server does not know the client.
    #[error("the authorization server does not accept the gateway as a client (invalid_client)")]
    InvalidClient,
    /// Another error code of the authorization server.
    #[error("the authorization server refused the request ({0})")]
    Refused(String),
    /// The holder has not connected, or must connect again.
    #[error("the caller has not connected an account at this server")]
    NotConnected,
    /// There is no access token of the caller to exchange.
    #[error("the server requires callers with a valid access token, and this caller has none")]
    NoToken,
    /// The caller's access token is not of the provider of identity assertions.
    #[error("the server requires callers with an access token of {0}, and this caller has none")]
    OtherIssuer(String),
    /// The grant lacks scopes that the server requires.
    #[error("the account lacks permissions that the server requires")]
    NeedsScope,
    /// The server refuses the account, whichever token it uses.
    #[error("the server refuses access with this account")]
    Forbidden,
    #[error("{0}")]
    Internal(&'static str),
}

impl AccountError {
    /// Returns whether a later attempt may succeed without anyone's action.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Internal(_))
    }
}

/// Returns an OAuth error code as it may be shown: only its permitted characters, at most 64.
pub(crate) fn shown_code(code: &str) -> Cow<'_, str> {
    let mut bytes = code.bytes();
    let is_plain = bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    if is_plain && (1..=64).contains(&code.len()) {
        return code.into();
    }
    "an unreadable error code".into()
}
