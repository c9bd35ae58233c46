//! Integrations from the operator's catalogue: its entries, and the creation of integrations from
//! them. The servers' addresses are for operators only.

use axum::Json;
use axum::http::StatusCode;
use lockgate_registry::CatalogueEntry;
use serde::Serialize;

use super::input::NewPredefinedIntegration;
use super::validate::validate_predefined;
use super::view::{Integration, answer_changed, describe_auth};
use crate::api::access::{Admin, By, User};
use crate::api::body::Body;
use crate::api::change::Reply;
#[cfg(test)]
use crate::api::conditions::{ChangeQuery, CreationHeaders, OrganisationQuery};
use crate::api::page::{Page, PageQuery};
use crate::api::problem::Problem;
use crate::api::query::Query;

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
    /// The required `credentials`: `none`, `api_key` or `bearer_token`.
    pub(crate) auth_method: &'static str,
    /// The header that carries the key, with `api_key`.
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
    get,
    path = "/mcp-integrations/predefined/available",
    tag = "integrations",
    params(PageQuery),
    responses((status = 200, body = Page<PredefinedIntegration>))
))]
pub(crate) async fn list_catalogue(
    By { state, .. }: By<User>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<PredefinedIntegration>>, Problem> {
    let catalogue = state.registry()?.catalogue();
    let mut all = Vec::new();
    for (slug, entry) in &*catalogue {
        all.push(PredefinedIntegration::new(slug, entry));
    }
    Ok(Json(query.cut(all, |entry| &entry.slug)?))
}

/// Adds an integration from the operator's catalogue.
///
/// Changes of the entry apply to the integration. Credentials entered for one host are not sent to
/// another, and if the entry is removed, the integration is disconnected.
#[cfg_attr(test, utoipa::path(
    post,
    path = "/mcp-integrations/predefined",
    tag = "integrations",
    params(ChangeQuery, OrganisationQuery, CreationHeaders),
    request_body = NewPredefinedIntegration,
    responses(
        (status = 201, body = Integration),
        (status = 200, body = Integration, description = "`dryRun`"),
        (status = 400, description = "An error in the body, or the server failed its test"),
        (status = 404, description = "The catalogue has no such entry"),
        (status = 409, description = "The name is taken"),
    )
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
