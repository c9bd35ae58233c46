//! Organisations, for operators: which there are, and how much each has.

use axum::Json;
use axum::extract::State;
use lockgate_registry::Organisation as Stored;
use serde::Serialize;
use utoipa::ToSchema;

use super::integrations::write_time;
use super::page::{Page, PageQuery};
use super::problem::Problem;
use super::query::Query;
use super::state::Shared;

/// An organisation that has something of its own.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Organisation {
    id: String,
    integrations: usize,
    agents: usize,
    /// RFC 3339.
    created_at: String,
}

impl Organisation {
    fn new(stored: Stored) -> Self {
        let Stored { id, created_at, integrations, agents } = stored;
        Self { id, integrations, agents, created_at: write_time(created_at) }
    }
}

/// The organisations that have, or had, integrations or agents.
#[utoipa::path(
    get,
    path = "/organisations",
    tag = "organisations",
    params(PageQuery),
    responses((status = 200, body = Page<Organisation>))
)]
pub(crate) async fn list_organisations(
    State(state): Shared,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Organisation>>, Problem> {
    let stored = state.registry()?.organisations();
    let all = stored.into_iter().map(Organisation::new).collect();
    Ok(Json(query.cut(all, |organisation| &organisation.id)?))
}
