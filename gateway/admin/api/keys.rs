//! API keys without their secrets: of one organisation for its administrators, all for operators.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use lockgate_authn::key::{Key, write_time};
use serde::Serialize;
use utoipa::ToSchema;

use super::access::{Caller, DEFAULT_ORGANISATION, Role};
use super::page::{Page, PageQuery};
use super::problem::Problem;
use super::query::Query;
use super::state::Shared;

/// An API key.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiKey {
    id: String,
    name: String,
    organization_id: String,
    roles: Vec<String>,
    scopes: Vec<String>,
    /// `active`, `expired` or `revoked`.
    state: &'static str,
    /// RFC 3339.
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<String>,
}

impl ApiKey {
    fn new(key: Key, now: u64) -> Self {
        let state = key.state(now);
        let organisation = key.organisation.as_deref().unwrap_or(DEFAULT_ORGANISATION);
        Self {
            state,
            organization_id: organisation.to_owned(),
            id: key.id,
            name: key.name,
            roles: key.roles,
            scopes: key.scopes,
            created_at: write_time(key.created),
            expires_at: key.expires.map(write_time),
            revoked_at: key.revoked.map(write_time),
        }
    }
}

/// The API keys of the caller's organisation, or all.
#[utoipa::path(
    get,
    path = "/keys",
    tag = "keys",
    params(PageQuery),
    responses((status = 200, body = Page<ApiKey>))
)]
pub(crate) async fn list_keys(
    State(state): Shared,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<ApiKey>>, Problem> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let mut keys = Vec::new();
    for key in state.operations.keys() {
        let key = ApiKey::new(key, now);
        if caller.role == Role::Operator || key.organization_id == caller.organisation() {
            keys.push(key);
        }
    }
    query.cut(keys, |key| &key.id).map(Json)
}
