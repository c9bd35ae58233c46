//! Integrations of agents: assigned from the agent's organisation by callers that may change the
//! agent.

use axum::Json;
use axum::extract::Path;
use lockgate_registry::{Assignment, Integration as Stored, MAX_PAGE, Page as Found};
use serde::{Deserialize, Serialize};

use super::access::{By, User};
use super::agents::Agent;
use super::answer::broken;
use super::change::{Change, Deletion};
use super::conditions::make_actor;
#[cfg(test)]
use super::conditions::{ChangeQuery, CreationHeaders, OrganisationQuery};
use super::integrations::{Integration, States};
#[cfg(test)]
use super::page::PartQuery;
use super::page::{Page, Paged, Part};
use super::problem::Problem;
use super::query::Query;

/// Default items per page: most agents have fewer.
const DEFAULT_PAGE: usize = MAX_PAGE;

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct AssignedQuery {
    /// Part of the name or the slug, case-insensitive.
    #[cfg_attr(test, param(max_length = 256))]
    search: Option<String>,
}

/// An agent, with the integration that was assigned or unassigned.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentIntegration {
    #[serde(flatten)]
    agent: Agent,
    agent_id: String,
    integration: Integration,
    /// Set if this was a dry run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
}

impl Paged<AssignedQuery> {
    /// Returns a page of the integrations that match the search, in their order.
    fn cut(
        &self,
        mut found: Vec<Stored>,
        show: impl FnMut(Stored) -> Integration,
    ) -> Result<Page<Integration>, Problem> {
        let part = Part::read(self.part.limit, self.part.cursor.as_deref())?;
        if let Some(search) = self.filter.search.as_deref().map(str::to_lowercase) {
            found.retain(|one| {
                one.name.to_lowercase().contains(&search) || one.slug.contains(&search)
            });
        }
        let total = found.len();
        let items = found.into_iter().skip(part.offset).take(part.limit.unwrap_or(DEFAULT_PAGE));
        Ok(part.make_page(Found { items: items.collect(), total }, show))
    }
}

/// Returns the response with an assignment that was made, or that a dry run would make or remove.
fn answer(
    change: &Change,
    assignment: Assignment,
    dry_run: bool,
) -> Result<AgentIntegration, Problem> {
    let Assignment { agent: agent_id, integration } = assignment;
    let state = &change.state;
    let actor = make_actor(&change.caller);
    let agent = Agent::new(state.registry()?.agent(&actor, &agent_id)?, &change.caller);
    let states = States::of(state, &integration.organisation);
    let integration = Integration::new(&states, integration, change.caller.role);
    Ok(AgentIntegration { agent, agent_id, integration, dry_run })
}

/// Lists the integrations of an agent.
#[cfg_attr(test, utoipa::path(
    get, path = "/agents/{id}/mcp-integrations", tag = "agents",
    params(("id" = String, Path), AssignedQuery, PartQuery, OrganisationQuery),
    responses((status = 200, body = Page<Integration>), (status = 404, description = "Not found")),
))]
pub(crate) async fn list_assigned(
    By { state, caller, .. }: By<User>,
    Path(id): Path<String>,
    Query(query): Query<Paged<AssignedQuery>>,
) -> Result<Json<Page<Integration>>, Problem> {
    let actor = make_actor(&caller);
    let found = state.registry()?.list_assigned(&actor, &id)?;
    let states = States::of(&state, &actor.organisation);
    Ok(Json(query.cut(found, |stored| Integration::new(&states, stored, caller.role))?))
}

/// Lists the integrations that can be assigned to an agent: enabled, and not assigned yet.
#[cfg_attr(test, utoipa::path(
    get, path = "/agents/{id}/mcp-integrations/available", tag = "agents",
    params(("id" = String, Path), AssignedQuery, PartQuery, OrganisationQuery),
    responses((status = 200, body = Page<Integration>), (status = 404, description = "Not found")),
))]
pub(crate) async fn list_available(
    By { state, caller, .. }: By<User>,
    Path(id): Path<String>,
    Query(query): Query<Paged<AssignedQuery>>,
) -> Result<Json<Page<Integration>>, Problem> {
    let actor = make_actor(&caller);
    let found = state.registry()?.list_available(&actor, &id)?;
    let states = States::of(&state, &actor.organisation);
    Ok(Json(query.cut(found, |stored| Integration::new(&states, stored, caller.role))?))
}

/// Assigns an integration to an agent.
#[cfg_attr(test, utoipa::path(
    post,
    path = "/agents/{id}/mcp-integrations/{integrationId}",
    tag = "agents",
    params(
        ("id" = String, Path),
        ("integrationId" = String, Path),
        ChangeQuery,
        OrganisationQuery,
        CreationHeaders,
    ),
    responses(
        (status = 200, body = AgentIntegration),
        (status = 400, description = "The integration is disabled"),
        (status = 403, description = "The integration belongs to another organisation; reported to \
            operators only"),
        (status = 404, description = "Not found"),
        (status = 409, description = "Already assigned"),
    )
))]
pub(crate) async fn assign_integration(
    by: By<User>,
    Path((id, integration)): Path<(String, String)>,
) -> Result<Json<AgentIntegration>, Problem> {
    let change = by.change()?;
    let changed = change
        .make("assign mcp-integration", |terms| async move {
            terms.registry.assign(&terms.actor, &id, &integration, &terms.options).await
        })
        .await?;
    let assignment = changed.after.ok_or_else(broken)?;
    Ok(Json(answer(&change, assignment, changed.is_dry_run)?))
}

/// Unassigns an integration from an agent.
#[cfg_attr(test, utoipa::path(
    delete, path = "/agents/{id}/mcp-integrations/{integrationId}", tag = "agents",
    params(
        ("id" = String, Path), ("integrationId" = String, Path), ChangeQuery, OrganisationQuery,
        CreationHeaders,
    ),
    responses(
        (status = 204, description = "Unassigned"),
        (status = 200, body = AgentIntegration, description = "`dryRun`"),
        (status = 404, description = "Not found, or not assigned"),
    ),
))]
pub(crate) async fn unassign_integration(
    by: By<User>,
    Path((id, integration)): Path<(String, String)>,
) -> Result<Deletion<AgentIntegration>, Problem> {
    let change = by.change()?;
    let changed = change
        .make("unassign mcp-integration", |terms| async move {
            terms.registry.unassign(&terms.actor, &id, &integration, &terms.options).await
        })
        .await?;
    let assignment = changed.before.filter(|_| changed.is_dry_run);
    Ok(Deletion(assignment.map(|found| answer(&change, found, true)).transpose()?))
}
