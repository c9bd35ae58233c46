//! Daily counts of calls to an integration's tools.

use axum::Json;
use axum::extract::Path;
use lockgate_registry::{DailyCalls, KEPT_DAYS};
use lockgate_text::date;
use serde::{Deserialize, Serialize};

use crate::api::access::{By, User};
#[cfg(test)]
use crate::api::conditions::OrganisationQuery;
use crate::api::conditions::make_actor;
use crate::api::problem::Problem;
use crate::api::query::{Query, number};

const SECONDS_PER_DAY: i64 = 86_400;

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(test, into_params(parameter_in = Query))]
pub(crate) struct CallsQuery {
    /// Number of days, up to today. Default 30.
    #[serde(default, deserialize_with = "number")]
    #[cfg_attr(test, param(minimum = 1, maximum = 90))]
    days: Option<i64>,
}

/// Calls of an integration's tools.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct IntegrationCalls {
    /// Days with calls, the oldest first.
    items: Vec<CallsOfDay>,
}

/// Calls of one day.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct CallsOfDay {
    /// In UTC, such as `2026-11-24`.
    day: String,
    calls: i64,
    failed: i64,
}

impl CallsOfDay {
    fn new(counted: &DailyCalls) -> Self {
        let DailyCalls { day, calls, failed, .. } = *counted;
        let mut day = date::of_seconds(day.saturating_mul(SECONDS_PER_DAY));
        day.truncate("2026-11-24".len());
        Self { day, calls, failed }
    }
}

/// Returns the number of calls of an integration's tools by day.
///
/// Includes all gateways on the same store, with a delay of a few seconds. The last 90 days are
/// kept.
#[cfg_attr(test, utoipa::path(
    get,
    path = "/mcp-integrations/{id}/calls",
    tag = "integrations",
    params(("id" = String, Path), CallsQuery, OrganisationQuery),
    responses((status = 200, body = IntegrationCalls), (status = 404, description = "Not found"))
))]
pub(crate) async fn list_calls(
    By { state, caller, .. }: By<User>,
    Path(id): Path<String>,
    Query(query): Query<CallsQuery>,
) -> Result<Json<IntegrationCalls>, Problem> {
    let days = query.days.unwrap_or(30);
    if !(1..=KEPT_DAYS).contains(&days) {
        let detail = format!("`days`: must be from 1 to {KEPT_DAYS}");
        return Err(Problem::new(axum::http::StatusCode::BAD_REQUEST, "INVALID_QUERY", detail));
    }
    let actor = make_actor(&caller);
    let counted = state.registry()?.list_calls(&actor, &id, days).await?;
    Ok(Json(IntegrationCalls { items: counted.iter().map(CallsOfDay::new).collect() }))
}
