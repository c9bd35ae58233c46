//! Why the registry does not do what it is asked: a stable code for programs, a sentence for
//! people, the member of the body and the way out. No error holds a secret, or anything of another
//! organisation.

use lockgate_store::{StoreError, VaultError};

/// Why the registry does not do what it is asked.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// It does not exist, or is another organisation's: nobody can tell.
    #[error("there is no such integration")]
    IntegrationNotFound,
    /// It does not exist, or is somebody else's: nobody can tell.
    #[error("there is no such agent")]
    AgentNotFound,
    /// The operator's catalogue has none, or has none any more.
    #[error("the catalogue has no such entry; choose one that it lists")]
    EntryNotFound,
    /// Operators alone ask for one.
    #[error("there is no such organisation")]
    OrganisationNotFound,
    #[error("the organisation exists already")]
    OrganisationExists,
    #[error("the organisation has integrations, agents or keys; delete or revoke them first")]
    OrganisationNotEmpty,
    #[error("the integration is assigned to this agent already")]
    AlreadyAssigned,
    #[error("the integration is not assigned to this agent")]
    NotAssigned,
    #[error("the integration is disabled; enable it first")]
    Disabled,
    /// Said to operators alone, who see all organisations.
    #[error("the integration belongs to another organisation than the agent")]
    WrongOrganization,
    #[error("the name is taken in this organisation; choose another")]
    NameTaken,
    #[error("the slug `{0}` is taken; choose another")]
    SlugTaken(String),
    /// Somebody else has changed it since it was read.
    #[error(
        "somebody else has changed it: it has version {current}; read it again, then change it"
    )]
    VersionMismatch { current: i64 },
    /// Of one of those that were given at once.
    #[error("the one at place {at} (counted from 0): {error}")]
    OfItem { at: usize, error: Box<RegistryError> },
    #[error(transparent)]
    InvalidField(#[from] InvalidField),
    #[error("the idempotency key was used for another change; use a new one")]
    IdempotencyKeyReused,
    #[error(
        "what is kept for an idempotency key would have more than {most} bytes, and nothing was \
        changed; change less at once, or leave the idempotency key out"
    )]
    OutcomeTooLarge { most: usize },
    #[error("there can be no more than {most} {what}; delete some first")]
    TooMany { what: &'static str, most: usize },
    #[error(
        "no key is configured, so that no credential can be stored; the operator sets `store.keys`"
    )]
    NoVaultKey,
    /// Everything that is known goes on; only changes are refused. The words of the store itself,
    /// with files and hosts in them, are for the operator's log.
    #[error("the change was not made: {}", .0.describe_to_callers())]
    StoreUnavailable(StoreError),
    #[error(
        "it is not known whether the change was made, because the store did not answer: send it \
         again with the same idempotency key, or read what there is"
    )]
    OutcomeUnknown,
}

/// A member of a body, or a header, that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pointer}` {message}; {way_out}")]
pub struct InvalidField {
    /// JSON Pointer to the member; the name of a header begins without `/`.
    pub pointer: &'static str,
    /// What is wrong, to be read after its name.
    pub message: String,
    /// What to do.
    pub way_out: String,
}

impl InvalidField {
    pub(crate) fn new(
        pointer: &'static str,
        message: impl Into<String>,
        way_out: impl Into<String>,
    ) -> Self {
        Self { pointer, message: message.into(), way_out: way_out.into() }
    }
}

impl RegistryError {
    /// Stable, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::IntegrationNotFound => "MCP_INTEGRATION_NOT_FOUND",
            Self::AgentNotFound => "AGENT_NOT_FOUND",
            Self::EntryNotFound => "PREDEFINED_NOT_FOUND",
            Self::OrganisationNotFound => "ORGANIZATION_NOT_FOUND",
            Self::OrganisationExists => "ORGANIZATION_ALREADY_EXISTS",
            Self::OrganisationNotEmpty => "ORGANIZATION_NOT_EMPTY",
            Self::AlreadyAssigned => "MCP_INTEGRATION_ALREADY_ASSIGNED",
            Self::NotAssigned => "MCP_INTEGRATION_NOT_ASSIGNED",
            Self::Disabled => "MCP_INTEGRATION_DISABLED",
            Self::WrongOrganization => "MCP_INTEGRATION_WRONG_ORGANIZATION",
            Self::NameTaken => "NAME_TAKEN",
            Self::SlugTaken(_) => "SLUG_TAKEN",
            Self::VersionMismatch { .. } => "VERSION_MISMATCH",
            Self::OfItem { error, .. } => error.code(),
            Self::InvalidField(_) => "INVALID_FIELD",
            Self::IdempotencyKeyReused => "IDEMPOTENCY_KEY_REUSED",
            Self::OutcomeTooLarge { .. } => "OUTCOME_TOO_LARGE",
            Self::TooMany { .. } => "TOO_MANY",
            Self::NoVaultKey => "NO_VAULT_KEY",
            Self::StoreUnavailable(_) => "STORE_UNAVAILABLE",
            Self::OutcomeUnknown => "OUTCOME_UNKNOWN",
        }
    }

    /// The same of one of those that were given at once, unless it is no fault of that one.
    pub(crate) fn of_item(self, at: usize) -> Self {
        match self {
            Self::StoreUnavailable(_) | Self::OutcomeUnknown => self,
            error => Self::OfItem { at, error: Box::new(error) },
        }
    }

    /// JSON Pointer to the member of the body that is the cause, if one is.
    #[must_use]
    pub fn pointer(&self) -> Option<&'static str> {
        match self {
            Self::InvalidField(field) if field.pointer.starts_with('/') => Some(field.pointer),
            Self::NameTaken => Some("/name"),
            Self::SlugTaken(_) | Self::EntryNotFound => Some("/slug"),
            Self::NoVaultKey => Some("/credentials"),
            _ => None,
        }
    }
}

impl From<StoreError> for RegistryError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Vault(error) => error.into(),
            StoreError::Unknown(_) => {
                tracing::error!(%error, "the store did not say what became of a change");
                Self::OutcomeUnknown
            }
            error => Self::StoreUnavailable(error),
        }
    }
}

impl From<VaultError> for RegistryError {
    fn from(error: VaultError) -> Self {
        match error {
            VaultError::NoKey => Self::NoVaultKey,
            error => Self::StoreUnavailable(StoreError::Vault(error)),
        }
    }
}
