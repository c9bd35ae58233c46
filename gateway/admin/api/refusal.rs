//! Errors of the registry as problems of the API: their status, and the API's names of members.

use std::sync::Arc;

use axum::http::StatusCode;
use lockgate_authn::DEFAULT_ORGANISATION;
use lockgate_registry::{Registry, RegistryError};

use super::problem::Problem;
use super::state::ApiState;

/// Retry delay while the store is unavailable, in seconds.
const RETRY_SECONDS: u64 = 2;

impl ApiState {
    /// Returns the registry. Fails if there is none, as in a gateway that serves a single client.
    pub(crate) fn registry(&self) -> Result<Arc<Registry>, Problem> {
        if let Some(registry) = self.operations.registry() {
            return Ok(registry);
        }
        let detail = "this gateway has no store: integrations and agents are not available here";
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE", detail))
    }

    /// Returns whether an organisation was created, owns anything, or has a key.
    pub(crate) async fn knows_organisation(&self, name: &str) -> bool {
        if name == DEFAULT_ORGANISATION || self.has_keys(name) {
            return true;
        }
        let Some(registry) = self.operations.registry() else { return false };
        if registry.has_organisation(name) {
            return true;
        }
        // Another gateway may have created the organisation just now.
        registry.refresh().await.is_ok() && registry.has_organisation(name)
    }

    /// Returns whether a key that is not revoked names an organisation.
    pub(crate) fn has_keys(&self, organisation: &str) -> bool {
        let keys = self.operations.keys();
        let mut own = keys.iter().filter(|key| key.organisation.as_deref() == Some(organisation));
        own.any(|key| key.revoked.is_none())
    }
}

impl From<RegistryError> for Problem {
    fn from(error: RegistryError) -> Self {
        if let RegistryError::OfItem { at, error } = error {
            return Self::from(*error).within(&format!("/servers/{at}"));
        }
        let problem = Self::new(status_of(&error), error.code(), describe(&error));
        let problem = match error.pointer() {
            Some(pointer) => problem.at(name_member(pointer)),
            None => problem,
        };
        match error {
            RegistryError::StoreUnavailable(_) => problem.retry_after(RETRY_SECONDS),
            _ => problem,
        }
    }
}

fn status_of(error: &RegistryError) -> StatusCode {
    match error {
        RegistryError::OfItem { error, .. } => status_of(error),
        RegistryError::IntegrationNotFound
        | RegistryError::AgentNotFound
        | RegistryError::EntryNotFound
        | RegistryError::OrganisationNotFound
        | RegistryError::NotAssigned => StatusCode::NOT_FOUND,
        RegistryError::AlreadyAssigned
        | RegistryError::OrganisationExists
        | RegistryError::OrganisationNotEmpty
        | RegistryError::NameTaken
        | RegistryError::SlugTaken(_)
        | RegistryError::TooMany { .. } => StatusCode::CONFLICT,
        RegistryError::Disabled | RegistryError::InvalidField(_) | RegistryError::NoVaultKey => {
            StatusCode::BAD_REQUEST
        }
        RegistryError::WrongOrganization => StatusCode::FORBIDDEN,
        RegistryError::VersionMismatch { .. } => StatusCode::PRECONDITION_FAILED,
        RegistryError::IdempotencyKeyReused | RegistryError::OutcomeTooLarge { .. } => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        RegistryError::StoreUnavailable(_) | RegistryError::OutcomeUnknown => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}

/// Describes an error with the API's names, and without details for operators.
fn describe(error: &RegistryError) -> String {
    match error {
        RegistryError::InvalidField(field) => {
            let name = name_member(field.pointer).trim_start_matches('/');
            format!("`{name}` {}; {}", field.message, field.way_out)
        }
        RegistryError::StoreUnavailable(reason) => {
            tracing::warn!(%reason, "change failed: the store is not available");
            error.to_string()
        }
        other => other.to_string(),
    }
}

/// Converts the registry's name of a member to the API's.
pub(crate) fn name_member(pointer: &str) -> &str {
    match pointer {
        "/url" => "/serverUrl",
        "/auth" => "/authMethod",
        "/auth/header" => "/headerName",
        other => other,
    }
}
