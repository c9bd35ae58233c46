//! API keys, as shown to administrators.

use std::time::{SystemTime, UNIX_EPOCH};

use lockgate_authn::key::{Key, write_time};
use serde::Serialize;

use crate::api::problem::Problem;
use crate::api::state::KeyChange;

/// Retry delay for changes of keys, in seconds.
pub(super) const RETRY_SECONDS: u64 = 2;

/// An API key.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiKey {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) organization_id: String,
    pub(crate) roles: Vec<String>,
    pub(crate) scopes: Vec<String>,
    /// `active`, `expired` or `revoked`; `pending` in the response to its creation, if the gateway
    /// has not applied the changed file yet.
    pub(crate) state: &'static str,
    /// RFC 3339.
    pub(crate) created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revoked_at: Option<String>,
    /// Set if this was a dry run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) dry_run: bool,
}

impl ApiKey {
    pub(super) fn new(key: Key, now: u64) -> Self {
        let state = key.state(now);
        Self {
            state,
            organization_id: key.organisation_or_default().to_owned(),
            id: key.id,
            name: key.name,
            roles: key.roles,
            scopes: key.scopes,
            created_at: write_time(key.created),
            expires_at: key.expires.map(write_time),
            revoked_at: key.revoked.map(write_time),
            dry_run: false,
        }
    }
}

pub(in crate::api) fn read_clock() -> u64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_secs(),
        Err(_) => 0,
    }
}

pub(super) fn show_trial(key: Key, change: &KeyChange) -> ApiKey {
    let mut shown = show_changed(key, change);
    shown.dry_run = true;
    shown
}

/// Returns the key as a change leaves it.
pub(super) fn show_changed(key: Key, change: &KeyChange) -> ApiKey {
    let mut shown = ApiKey::new(key, read_clock());
    if let KeyChange::Revoke { at, .. } = change {
        shown.revoked_at.get_or_insert_with(|| write_time(*at));
        shown.state = "revoked";
    }
    shown
}

pub(super) fn unknown_key() -> Problem {
    Problem::not_found("KEY_NOT_FOUND", "there is no such key; GET /api/keys lists them")
}
