//! Who changes something, under which conditions, and what came of it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A principal: what everything that is kept for a caller is kept by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PrincipalKey {
    pub issuer: String,
    pub subject: String,
}

/// What the caller may do; which operation needs which role is checked before the registry is
/// asked. The registry itself only tells users from administrators where agents have owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    User,
    /// Of the organisation.
    Admin,
    /// Of the whole gateway.
    Operator,
}

/// Who asks, and in which organisation.
#[derive(Clone, Debug)]
pub struct Actor {
    /// The organisation that is read or changed; an operator may name any.
    pub organisation: Arc<str>,
    pub principal: PrincipalKey,
    pub role: Role,
}

impl Actor {
    /// Whether things of this owner are theirs to see and to change.
    pub(crate) fn may_touch(&self, owner: &PrincipalKey) -> bool {
        self.role != Role::User || self.principal == *owner
    }
}

/// Under which conditions a change is made.
#[derive(Clone, Debug, Default)]
pub struct ChangeOptions {
    /// The version that the caller has seen (`If-Match`); another one is a
    /// [`crate::RegistryError::VersionMismatch`].
    pub expected_version: Option<i64>,
    /// Sent again with the same key within a day, the change is not made again, and answered as it
    /// was (`Idempotency-Key`).
    pub idempotency_key: Option<String>,
    /// Answer what the change would be, and make none.
    pub dry_run: bool,
}

/// What a change was, for the answer and for the audit trail. Holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed<T> {
    /// None of what has been created.
    pub before: Option<T>,
    /// None of what has been deleted.
    pub after: Option<T>,
    pub warnings: Vec<Warning>,
    /// The answer of an earlier change with the same idempotency key; nothing was changed now.
    #[serde(skip)]
    pub is_replayed: bool,
    /// Nothing was changed, because that was asked for.
    #[serde(skip)]
    pub is_dry_run: bool,
}

impl<T> Changed<T> {
    pub(crate) fn new(before: Option<T>, after: Option<T>) -> Self {
        Self { before, after, warnings: Vec::new(), is_replayed: false, is_dry_run: false }
    }
}

/// Something that was accepted and should be known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Stable, for programs.
    pub code: String,
    /// JSON Pointer to the member of the body.
    pub pointer: String,
    pub message: String,
}
