//! Errors of the registry: a status and a stable code for programs, a sentence for people, the
//! member of the body and the fix. No error contains a secret, or any data of another organisation.

use http::StatusCode;
use lockgate_store::{StoreError, VaultError};

/// What the functions of the registry return.
pub(crate) type Result<T, E = RegistryError> = std::result::Result<T, E>;

/// Why the registry refuses or fails an operation.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Missing, or of another organisation: callers cannot distinguish the two.
    #[error("there is no such integration")]
    IntegrationNotFound,
    /// Missing, or of another owner: callers cannot distinguish the two.
    #[error("there is no such agent")]
    AgentNotFound,
    /// The operator's catalogue has no such entry, or no longer has it.
    #[error("the catalogue has no such entry; choose one that it lists")]
    EntryNotFound,
    /// Returned to operators only.
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
    /// Returned to operators only, because they see all organisations.
    #[error("the integration belongs to another organisation than the agent")]
    WrongOrganization,
    #[error("the name is taken in this organisation; choose another")]
    NameTaken,
    #[error("the slug `{0}` is taken; choose another")]
    SlugTaken(String),
    /// Another change was made since the caller read the record.
    #[error(
        "it was changed in the meantime and has version {current}; read it again, then change it"
    )]
    VersionMismatch { current: i64 },
    /// An error in an item of a set.
    #[error("item {at} (counted from 0): {error}")]
    OfItem { at: usize, error: Box<RegistryError> },
    #[error(transparent)]
    InvalidField(#[from] InvalidField),
    #[error("the idempotency key was used for another change; use a new one")]
    IdempotencyKeyReused,
    #[error(
        "the response stored for the idempotency key would have more than {most} bytes, and \
        nothing was changed; change less at once, or leave the idempotency key out"
    )]
    OutcomeTooLarge { most: usize },
    #[error("at most {most} {what} are allowed; delete some first")]
    TooMany { what: &'static str, most: usize },
    #[error(
        "no key is configured, so no credential can be stored; the operator must set `store.keys`"
    )]
    NoVaultKey,
    /// Reads continue; only changes are refused. The store's own message, which may name files and
    /// hosts, goes to the operator's log.
    #[error("the change was not made: {}", .0.describe_to_callers())]
    StoreUnavailable(StoreError),
    #[error(
        "the store did not respond, and the change may have been made: send it again with the \
         same idempotency key, or read the current state"
    )]
    OutcomeUnknown,
}

/// A rejected member of a body, or a rejected header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pointer}` {message}; {way_out}")]
pub struct InvalidField {
    /// JSON Pointer to the member, or the name of a header, which has no leading `/`.
    pub pointer: &'static str,
    /// The mistake, phrased to follow the member's name.
    pub message: String,
    /// The fix.
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
    /// Returns the status of a response and the error's stable code, for programs.
    pub fn kind(&self) -> (StatusCode, &'static str) {
        match self {
            Self::IntegrationNotFound => (StatusCode::NOT_FOUND, "MCP_INTEGRATION_NOT_FOUND"),
            Self::AgentNotFound => (StatusCode::NOT_FOUND, "AGENT_NOT_FOUND"),
            Self::EntryNotFound => (StatusCode::NOT_FOUND, "PREDEFINED_NOT_FOUND"),
            Self::OrganisationNotFound => (StatusCode::NOT_FOUND, "ORGANIZATION_NOT_FOUND"),
            Self::OrganisationExists => (StatusCode::CONFLICT, "ORGANIZATION_ALREADY_EXISTS"),
            Self::OrganisationNotEmpty => (StatusCode::CONFLICT, "ORGANIZATION_NOT_EMPTY"),
            Self::AlreadyAssigned => (StatusCode::CONFLICT, "MCP_INTEGRATION_ALREADY_ASSIGNED"),
            Self::NotAssigned => (StatusCode::NOT_FOUND, "MCP_INTEGRATION_NOT_ASSIGNED"),
            Self::Disabled => (StatusCode::BAD_REQUEST, "MCP_INTEGRATION_DISABLED"),
            Self::WrongOrganization => {
                (StatusCode::FORBIDDEN, "MCP_INTEGRATION_WRONG_ORGANIZATION")
            }
            Self::NameTaken => (StatusCode::CONFLICT, "NAME_TAKEN"),
            Self::SlugTaken(_) => (StatusCode::CONFLICT, "SLUG_TAKEN"),
            Self::VersionMismatch { .. } => (StatusCode::PRECONDITION_FAILED, "VERSION_MISMATCH"),
            Self::OfItem { error, .. } => error.kind(),
            Self::InvalidField(_) => (StatusCode::BAD_REQUEST, "INVALID_FIELD"),
            Self::IdempotencyKeyReused => {
                (StatusCode::UNPROCESSABLE_ENTITY, "IDEMPOTENCY_KEY_REUSED")
            }
            Self::OutcomeTooLarge { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "OUTCOME_TOO_LARGE"),
            Self::TooMany { .. } => (StatusCode::CONFLICT, "TOO_MANY"),
            Self::NoVaultKey => (StatusCode::BAD_REQUEST, "NO_VAULT_KEY"),
            Self::StoreUnavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE"),
            Self::OutcomeUnknown => (StatusCode::SERVICE_UNAVAILABLE, "OUTCOME_UNKNOWN"),
        }
    }

    /// Returns the error's stable code.
    #[cfg(test)]
    pub(crate) fn code(&self) -> &'static str {
        self.kind().1
    }

    /// Attributes the error to an item of a set, unless the store caused it.
    pub(crate) fn of_item(self, at: usize) -> Self {
        match self {
            Self::StoreUnavailable(_) | Self::OutcomeUnknown => self,
            error => Self::OfItem { at, error: Box::new(error) },
        }
    }

    /// Returns the JSON Pointer to the member of the body that caused the error, if any.
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
                tracing::error!(%error, "the store did not report the result of a change");
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
