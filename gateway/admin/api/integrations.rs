//! Integrations: servers that an organisation's administrators add while the gateway runs. The
//! registry decides and stores; this module converts requests and results.

pub(crate) mod imported;
pub(crate) mod input;
pub(crate) mod validate;
mod view;

use input::{IntegrationChange, ListQuery, NewCustomIntegration};
use lockgate_registry::{IntegrationQuery, RegistryError};
use validate::create;
use view::{answer_changed, answer_deleted};

use super::connections::make_ending;
use super::operation::*;
use super::state::Switch;

pub(crate) use imported::{
    RegistryInput, RegistryServer, create_registry_integration, show_registry_server,
};
pub(crate) use input::{
    AuthMethod, PredefinedIntegration, create_predefined_integration, list_catalogue, secret,
};
pub(crate) use validate::validate_integration;
pub(crate) use view::{Integration, States, Warning, write_time};

/// Lists the integrations of the caller's organisation.
#[cfg_attr(test, utoipa::path(
    get, path = "/mcp-integrations", tag = "integrations",
    params(ListQuery, PartQuery, OrganisationQuery),
    responses((status = 200, body = Page<Integration>)),
))]
pub(crate) async fn list_integrations(
    By { state, caller, .. }: By<User>,
    Query(query): Query<Paged<ListQuery>>,
) -> Result<Json<Page<Integration>>, Problem> {
    let actor = make_actor(&caller);
    let part = query.part.read()?;
    let found = state.registry()?.list_integrations(&actor, &query.filter.read(&part));
    let states = States::of(&state, &actor.organisation);
    Ok(Json(part.make_page(found, |stored| Integration::new(&states, stored, caller.role))))
}

/// Returns the integrations of the caller's organisation that are disabled or cannot be connected,
/// and therefore have no server; none without a registry.
pub(crate) fn list_unserved(By { state, caller, .. }: &By<Admin>) -> Vec<Integration> {
    let Ok(registry) = state.registry() else { return Vec::new() };
    let actor = make_actor(caller);
    let states = States::of(state, &actor.organisation);
    let mut unserved = Vec::new();
    let mut query = IntegrationQuery::default();
    query.page.limit = Some(200);
    loop {
        let found = registry.list_integrations(&actor, &query);
        query.page.offset += found.items.len();
        let is_last = found.items.is_empty() || query.page.offset >= found.total;
        let found = found.items.into_iter();
        unserved.extend(found.map(|stored| Integration::new(&states, stored, caller.role)));
        if is_last {
            unserved.retain(|integration| !integration.has_server);
            return unserved;
        }
    }
}

/// Adds an integration by its address.
#[cfg_attr(test, utoipa::path(
    post, path = "/mcp-integrations/custom", tag = "integrations",
    params(ChangeQuery, OrganisationQuery, CreationHeaders), request_body = NewCustomIntegration,
    responses(
        (status = 201, body = Integration),
        (status = 400, description = "An error in the body, or the server failed its test"),
        (status = 409, description = "The name or the slug is taken"),
    ),
))]
pub(crate) async fn create_custom_integration(
    by: By<Admin>,
    Body(body): Body<NewCustomIntegration>,
) -> Result<Reply<Integration>, Problem> {
    let validate = body.validate;
    create(by, body.read()?, validate).await
}

/// Returns an integration.
#[cfg_attr(test, utoipa::path(
    get, path = "/mcp-integrations/{id}", tag = "integrations", params(OrganisationQuery),
    responses((status = 200, body = Integration)),
))]
pub(crate) async fn show_integration(
    By { state, caller, .. }: By<User>,
    Path(id): Path<String>,
) -> Result<Reply<Integration>, Problem> {
    let actor = make_actor(&caller);
    let stored = state.registry()?.integration(&actor, &id)?;
    let states = States::of(&state, &actor.organisation);
    let value = Integration::new(&states, stored, caller.role);
    Ok(Reply { version: Some(value.version), value, status: StatusCode::OK })
}

/// Changes an integration. Another method of authentication disconnects accounts of members.
#[cfg_attr(test, utoipa::path(
    patch, path = "/mcp-integrations/{id}", tag = "integrations",
    params(ChangeQuery, OrganisationQuery, ChangeHeaders), request_body = IntegrationChange,
    responses((status = 200, body = Integration)),
))]
pub(crate) async fn change_integration(
    by: By<Admin>,
    Path(id): Path<String>,
    Body(body): Body<IntegrationChange>,
) -> Result<Reply<Integration>, Problem> {
    let change = Arc::new(by.change()?);
    let patch = body.read()?;
    let changed =
        make_ending(&change, "change mcp-integration", apply!(patch_integration(&id, patch)))
            .await?;
    answer_changed(&change, StatusCode::OK, changed)
}

/// Deletes an integration, unassigns it from all agents, and disconnects accounts of members.
#[cfg_attr(test, utoipa::path(
    delete, path = "/mcp-integrations/{id}", tag = "integrations",
    params(ChangeQuery, OrganisationQuery, ChangeHeaders),
    responses(
        (status = 204, description = "Deleted"),
        (status = 200, body = Integration, description = "`dryRun`"),
    ),
))]
pub(crate) async fn delete_integration(
    by: By<Admin>,
    Path(id): Path<String>,
) -> Result<Deletion<Integration>, Problem> {
    let change = Arc::new(by.change()?);
    let changed =
        make_ending(&change, "delete mcp-integration", apply!(delete_integration(&id))).await?;
    Ok(answer_deleted(&change, changed))
}

/// Enables an integration.
#[cfg_attr(test, utoipa::path(
    post, path = "/mcp-integrations/{id}/enable", tag = "integrations",
    params(ChangeQuery, OrganisationQuery, ChangeHeaders),
    responses((status = 200, body = Integration)),
))]
pub(crate) async fn enable_integration(
    by: By<Admin>,
    Path(id): Path<String>,
) -> Result<Reply<Integration>, Problem> {
    enable(&by.change()?, id, ("enable mcp-integration", true)).await
}

async fn enable(
    change: &Change,
    id: String,
    (action, is_enabled): (&'static str, bool),
) -> Result<Reply<Integration>, Problem> {
    let changed = change.make(action, apply!(enable_integration(&id, is_enabled))).await?;
    answer_changed(change, StatusCode::OK, changed)
}

/// Disables an integration: it is disconnected, and its tools and other items are not listed.
#[cfg_attr(test, utoipa::path(
    post, path = "/mcp-integrations/{id}/disable", tag = "integrations",
    params(ChangeQuery, OrganisationQuery, ChangeHeaders),
    responses((status = 200, body = Integration)),
))]
pub(crate) async fn disable_integration(
    by: By<Admin>,
    Path(id): Path<String>,
) -> Result<Reply<Integration>, Problem> {
    enable(&by.change()?, id, ("disable mcp-integration", false)).await
}

/// Closes the connection to an integration and reconnects.
///
/// Running calls are aborted.
#[cfg_attr(test, utoipa::path(
    post, path = "/mcp-integrations/{id}/reconnect", tag = "integrations",
    params(ChangeQuery, OrganisationQuery),
    responses(
        (status = 200, body = Integration), (status = 400, description = "It is disabled"),
        (status = 409, description = "Its stored credentials cannot be decrypted"),
    ),
))]
pub(crate) async fn reconnect_integration(
    By { state, caller, options, .. }: By<Admin>,
    Path(id): Path<String>,
) -> Result<Json<Integration>, Problem> {
    let actor = make_actor(&caller);
    let stored = state.registry()?.integration(&actor, &id)?;
    if !stored.enabled {
        return Err(RegistryError::Disabled.into());
    }
    if options.dry_run {
        let states = States::of(&state, &actor.organisation);
        return Ok(Json(Integration::new(&states, stored, caller.role).into_trial()));
    }
    let record = ChangeRecord {
        action: "reconnect mcp-integration",
        organisation: Some(actor.organisation.to_string()),
        before: None,
        after: Some(json!({"id": id, "name": stored.name}).to_string()),
    };
    let operations = Arc::clone(&state.operations);
    let organisation = Arc::clone(&actor.organisation);
    let slug = stored.slug.clone();
    make_recorded(&state, &caller.principal, async move {
        if operations.switch(Some(&organisation), &slug, Switch::Reconnect) {
            Ok(((), Some(record)))
        } else {
            let detail = "the stored credentials cannot be decrypted: enter them again";
            Err(Problem::new(StatusCode::CONFLICT, "CREDENTIALS_UNUSABLE", detail))
        }
    })
    .await?;
    state.operations.serve_changes(&actor.organisation).await;
    let states = States::of(&state, &actor.organisation);
    Ok(Json(Integration::new(&states, stored, caller.role)))
}
