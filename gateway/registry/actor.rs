//! The author of a change, its conditions and its outcome.

use std::sync::Arc;

use lockgate_admission::Role;
use lockgate_store::{Agent, PrincipalKey};
use serde::{Deserialize, Serialize};

/// The caller, and the organisation of the operation.
#[derive(Clone, Debug)]
pub struct Actor {
    /// The organisation that is read or changed; an operator may name any.
    pub organisation: Arc<str>,
    pub principal: PrincipalKey,
    /// Callers of the registry check which role an operation requires; the registry itself only
    /// distinguishes users from administrators where agents have owners.
    pub role: Role,
}

impl Actor {
    /// Returns whether the actor may see and change an agent.
    pub(crate) fn may_touch(&self, agent: &Agent) -> bool {
        let PrincipalKey { issuer, subject } = &self.principal;
        let is_owner = *issuer == agent.owner_issuer && *subject == agent.owner_subject;
        self.role != Role::User || is_owner
    }
}

/// Conditions of a change.
#[derive(Clone, Debug, Default)]
pub struct ChangeOptions {
    /// The version that the caller has read (`If-Match`). Any other current version fails with
    /// [`crate::RegistryError::VersionMismatch`].
    pub expected_version: Option<i64>,
    /// A change repeated with the same key within a day returns the stored outcome and is not made
    /// again (`Idempotency-Key`).
    pub idempotency_key: Option<String>,
    /// Whether to return the outcome without making the change.
    pub dry_run: bool,
}

/// The outcome of a change, for the response and for the audit trail. Contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed<T> {
    /// `None` after a creation.
    pub before: Option<T>,
    /// `None` after a deletion.
    pub after: Option<T>,
    pub warnings: Vec<Warning>,
    /// Whether this is the stored outcome of an earlier change with the same idempotency key.
    #[serde(skip)]
    pub is_replayed: bool,
    /// Whether this was a dry run, which changes nothing.
    #[serde(skip)]
    pub is_dry_run: bool,
}

impl<T> Changed<T> {
    pub(crate) fn new(before: Option<T>, after: Option<T>) -> Self {
        Self { before, after, warnings: Vec::new(), is_replayed: false, is_dry_run: false }
    }
}

/// A warning about an accepted change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Stable, for programs.
    pub code: String,
    /// JSON Pointer to the member of the body.
    pub pointer: String,
    pub message: String,
}
