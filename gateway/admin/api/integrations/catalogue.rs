//! Integrations from the operator's catalogue, whose addresses are for operators only, and daily
//! counts of calls to an integration's tools.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use lockgate_registry::{CatalogueEntry, DailyCalls, KEPT_DAYS};
use lockgate_text::date;
use serde::{Deserialize, Serialize};

use super::input::NewPredefinedIntegration;
use super::validate::validate_predefined;
use super::view::{Integration, answer_changed, describe_auth};
use crate::api::access::{Admin, By, User};
use crate::api::body::Body;
use crate::api::change::Reply;
use crate::api::conditions::make_actor;
#[cfg(test)]
use crate::api::conditions::{ChangeQuery, CreationHeaders, OrganisationQuery};
use crate::api::page::{Page, PageQuery};
#[cfg(test)]
use crate::api::page::{PartQuery, SearchQuery};
use crate::api::problem::Problem;
use crate::api::query::{Query, number};

/// An entry of the operator's catalogue.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct PredefinedIntegration {
    pub(crate) slug: String,
    /// Display name.
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// The required `credentials`: `api_key` or `bearer_token`; or `none`, `user` or
    /// `user_headers`.
    pub(crate) auth_method: &'static str,
    /// The header that carries the key, with `api_key` and `user_headers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) header_name: Option<String>,
}

impl PredefinedIntegration {
    fn new(slug: &str, entry: &CatalogueEntry) -> Self {
        let (auth_method, header_name) = describe_auth(&entry.auth);
        Self {
            slug: slug.to_owned(),
            name: entry.title.clone(),
            description: entry.description.clone(),
            auth_method,
            header_name,
        }
    }
}

/// Lists the entries of the operator's catalogue.
#[cfg_attr(test, utoipa::path(
    get, path = "/mcp-integrations/predefined/available", tag = "integrations",
    params(PartQuery, SearchQuery),
    responses((status = 200, body = Page<PredefinedIntegration>)),
))]
pub(crate) async fn list_catalogue(
    By { state, .. }: By<User>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<PredefinedIntegration>>, Problem> {
    let catalogue = state.registry()?.catalogue();
    let all: Vec<_> =
        catalogue.iter().map(|(slug, entry)| PredefinedIntegration::new(slug, entry)).collect();
    Ok(Json(query.cut(all, |entry| &entry.slug)?))
}

/// Adds an integration from the operator's catalogue.
///
/// Changes of the entry apply to the integration. Credentials entered for one host are not sent to
/// another, and if the entry is removed, the integration is disconnected.
#[cfg_attr(test, utoipa::path(
    post, path = "/mcp-integrations/predefined", tag = "integrations",
    params(ChangeQuery, OrganisationQuery, CreationHeaders),
    request_body = NewPredefinedIntegration,
    responses(
        (status = 201, body = Integration),
        (status = 200, body = Integration, description = "`dryRun`"),
        (status = 400, description = "An error in the body, or the server failed its test"),
        (status = 404, description = "The catalogue has no such entry"),
        (status = 409, description = "The name is taken"),
    ),
))]
pub(crate) async fn create_predefined_integration(
    by: By<Admin>,
    Body(body): Body<NewPredefinedIntegration>,
) -> Result<Reply<Integration>, Problem> {
    let change = by.change()?;
    let is_tried = body.is_tried();
    let new = body.read();
    if is_tried {
        let like = new.clone();
        let rehearsed = change.rehearse(|terms| async move {
            terms.registry.create_predefined(&terms.actor, like, &terms.options).await
        });
        if !rehearsed.await?.is_replayed {
            validate_predefined(&change.state, change.organisation(), &new).await?;
        }
    }
    let changed = change
        .make("create mcp-integration", |terms| async move {
            terms.registry.create_predefined(&terms.actor, new, &terms.options).await
        })
        .await?;
    answer_changed(&change, StatusCode::CREATED, changed)
}

const SECONDS_PER_DAY: i64 = 86_400;

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
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
    get, path = "/mcp-integrations/{id}/calls", tag = "integrations",
    params(("id" = String, Path), CallsQuery, OrganisationQuery),
    responses((status = 200, body = IntegrationCalls), (status = 404, description = "Not found")),
))]
pub(crate) async fn list_calls(
    By { state, caller, .. }: By<User>,
    Path(id): Path<String>,
    Query(query): Query<CallsQuery>,
) -> Result<Json<IntegrationCalls>, Problem> {
    let days = query.days.unwrap_or(30);
    if !(1..=KEPT_DAYS).contains(&days) {
        let detail = format!("`days`: must be from 1 to {KEPT_DAYS}");
        return Err(Problem::in_query(detail));
    }
    let actor = make_actor(&caller);
    let counted = state.registry()?.list_calls(&actor, &id, days).await?;
    Ok(Json(IntegrationCalls { items: counted.iter().map(CallsOfDay::new).collect() }))
}
