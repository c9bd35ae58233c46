//! Why somebody could not be signed in. What is said of it is written elsewhere; nothing here holds
//! a code, a token, a secret or words of the provider.

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    /// Its metadata or its token endpoint: not there, or not usable.
    #[error("the identity provider cannot be reached or used: {0}")]
    Unreachable(String),
    #[error("the identity provider's keys are not available")]
    NoKeys,
    #[error("too many people sign in at once")]
    Busy,
    /// `access_denied`.
    #[error("the identity provider, or the user, has refused")]
    Refused,
    /// Another error of the answer or of the token endpoint, as a word of the specification.
    #[error("the identity provider answered `{0}`")]
    Provider(String),
    #[error("the identity provider does not know this client, or not with this secret")]
    Client,
    #[error("the identity provider does not take the code")]
    Code,
    #[error("the answer is no answer to a sign-in")]
    Malformed,
    /// RFC 9207, or the `iss` of the ID token.
    #[error("the answer is of another issuer than asked")]
    Issuer,
    #[error("the ID token is missing, unreadable, or not signed by the issuer as configured")]
    Token,
    #[error("the ID token is over, or of the future")]
    Clock,
    #[error("the ID token is for another client")]
    Audience,
    #[error("the ID token is of another sign-in")]
    Nonce,
    #[error("the account has no subject")]
    NoSubject,
    /// With the name of the claim.
    #[error("the account has no organisation (claim `{0}`)")]
    NoOrganisation(String),
    #[error("the account lacks a scope that every request needs")]
    Scopes,
}
