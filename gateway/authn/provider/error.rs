//! Failures of a sign-in. The messages for visitors are written elsewhere. Nothing here contains a
//! code, a token, a secret or free text from the provider.

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
