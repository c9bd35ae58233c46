//! Integrations: servers that an organisation's administrators add while the gateway runs. The
//! registry decides and stores; this module converts requests and results.

pub(crate) mod imported;
pub(crate) mod input;
pub(crate) mod validate;
mod view;

use std::collections::BTreeMap;

use input::{IntegrationChange, ListQuery, NewCustomIntegration};
use lockgate_registry::{
    Changed, IntegrationSet, NewIntegration, Origin, RegistryError, Secret, Warning as Said,
};
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
pub(crate) use input::{matches_search, place};
pub(crate) use validate::validate_integration;
pub(crate) use view::{Integration, States, Warning, write_time};

pub(crate) async fn list_integrations(
    by: By<User>,
    Query(Paged { part, filter }): Query<Paged<ListQuery>>,
) -> Result<Json<Page<Integration>>> {
    let mut all = by.registry()?.list_integrations(&by.actor());
    all.retain(|stored| filter.admits(stored));
    let sort = filter.sort.unwrap_or_default();
    let placed = all.into_iter().map(|stored| (place(&stored, sort), stored));
    let page = part.cut_placed(placed.collect(), SortOrder::is_descending(filter.order))?;
    let states = States::of(&by);
    Ok(Json(page.map(|stored| Integration::new(&states, stored))))
}

/// Returns the integrations of the caller's organisation that are disabled or cannot be connected,
/// and therefore have no server; none without a registry.
pub(crate) fn list_unserved(by: &By<Admin>) -> Vec<Integration> {
    let Ok(registry) = by.registry() else { return Vec::new() };
    let states = States::of(by);
    let all = registry.list_integrations(&by.actor()).into_iter();
    let all = all.map(|stored| Integration::new(&states, stored));
    all.filter(|integration| !integration.has_server).collect()
}

pub(crate) async fn create_custom_integration(
    by: By<Admin>,
    Body(body): Body<NewCustomIntegration>,
) -> Result<Reply<Integration>> {
    let validate = body.validate;
    create(by, body.read()?, validate).await
}

pub(crate) async fn show_integration(
    by: By<User>,
    Path(id): Path<String>,
) -> Result<Reply<Integration>> {
    let stored = by.registry()?.integration(&by.actor(), &id)?;
    let version = Some(stored.version);
    Ok(Reply::new(Integration::new(&States::of(&by), stored), version))
}

pub(crate) async fn change_integration(
    by: By<Admin>,
    Path(id): Path<String>,
    Body(body): Body<IntegrationChange>,
) -> Result<Reply<Integration>> {
    let patch = body.read()?;
    let changed =
        make_ending(&by, "change mcp-integration", apply!(patch_integration(&id, patch))).await?;
    answer_changed(&by, StatusCode::OK, changed)
}

pub(crate) async fn delete_integration(
    by: By<Admin>,
    Path(id): Path<String>,
) -> Result<Deletion<Integration>> {
    let changed =
        make_ending(&by, "delete mcp-integration", apply!(delete_integration(&id))).await?;
    Ok(answer_deleted(&by, changed))
}

pub(crate) async fn enable_integration(
    by: By<Admin>,
    Path(id): Path<String>,
) -> Result<Reply<Integration>> {
    let changed = by.make("enable mcp-integration", apply!(enable_integration(&id, true))).await?;
    answer_changed(&by, StatusCode::OK, changed)
}

pub(crate) async fn disable_integration(
    by: By<Admin>,
    Path(id): Path<String>,
) -> Result<Reply<Integration>> {
    let changed =
        by.make("disable mcp-integration", apply!(enable_integration(&id, false))).await?;
    answer_changed(&by, StatusCode::OK, changed)
}

pub(crate) async fn reconnect_integration(
    by: By<Admin>,
    Path(id): Path<String>,
) -> Result<Json<Integration>> {
    let stored = by.registry()?.integration(&by.actor(), &id)?;
    if !stored.enabled {
        return Err(RegistryError::Disabled.into());
    }
    if by.options.dry_run {
        let shown = Integration::new(&States::of(&by), stored);
        return Ok(Json(Integration { dry_run: true, ..shown }));
    }
    let organisation = by.caller.organisation().to_owned();
    let record = ChangeRecord {
        action: "reconnect mcp-integration",
        organisation: Some(organisation.clone()),
        before: None,
        after: Some(json!({"id": id, "name": stored.name}).to_string()),
    };
    let operations = Arc::clone(&by.state.operations);
    let slug = stored.slug.clone();
    by.record(async move {
        if operations.switch(Some(&organisation), &slug, Switch::Reconnect) {
            return Ok(((), Some(record)));
        }
        let detail = "the stored credentials cannot be decrypted: enter them again";
        Err(Problem::new(StatusCode::CONFLICT, "CREDENTIALS_UNUSABLE", detail))
    })
    .await?;
    by.state.operations.serve_changes(by.caller.organisation()).await;
    Ok(Json(Integration::new(&States::of(&by), stored)))
}

// Replacement of all integrations of an organisation: applies the requested set and reports the
// action for each server.

types! {
/// The complete set of an organisation's own servers.
input pub(crate) struct ServerSet {
    #[cfg_attr(test, schema(max_items = 1000))]
    servers: Vec<WantedServer>,
}

/// The desired state of a server: by its address, or from the catalogue.
input pub(crate) struct WantedServer {
    /// Its identifier; if omitted, the server is identified by its name.
    slug: Option<String>,
    name: String,
    /// The address of an MCP server.
    server_url: Option<String>,
    /// Instead of an address: an entry of the operator's catalogue.
    predefined: Option<String>,
    /// For a server by its address. Default `none`.
    auth_method: Option<AuthMethod>,
    /// The header that carries the key, with `api_key`.
    #[serde(default, alias = "authHeaderName")]
    header_name: Option<String>,
    /// The key or the token, if none is stored yet or to replace it. It is never shown again.
    #[serde(default, deserialize_with = "secret")]
    #[cfg_attr(test, schema(write_only, value_type = Option<String>))]
    credentials: Option<Secret>,
    /// If omitted: unchanged, or `true` for a new server.
    enabled: Option<bool>,
}

/// The changes that were made, or would be made.
output pub(crate) struct ServerSetChange {
    servers: Vec<ServerChange>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Warning>,
    /// Set if this was a dry run.
    dry_run: bool,
}

/// The change of one server.
output pub(crate) struct ServerChange {
    slug: String,
    action: ServerAction,
    /// For existing or deleted servers.
    id: Option<String>,
    name: Option<String>,
    /// Ids of the agents that have it, in a dry run.
    affected_agents: Option<Vec<String>>,
}
}

/// The change of a server.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum ServerAction {
    Created,
    Updated,
    Unchanged,
    Deleted,
}

impl WantedServer {
    fn read(self) -> Result<NewIntegration> {
        let origin = match (self.server_url, self.predefined) {
            (Some(url), None) => {
                let method = self.auth_method.unwrap_or_default();
                Origin::Custom { url, auth: method.with_header(self.header_name)? }
            }
            (None, Some(entry)) if self.auth_method.is_none() && self.header_name.is_none() => {
                Origin::Predefined(entry)
            }
            (None, Some(_)) => {
                let detail = "the entry of the catalogue determines it: omit it";
                return Err(Problem::in_body("/authMethod", detail));
            }
            _ => {
                let detail = "either `serverUrl` or `predefined` is required";
                return Err(Problem::in_body("/serverUrl", detail));
            }
        };
        Ok(NewIntegration {
            name: Some(self.name),
            slug: self.slug,
            origin,
            credentials: self.credentials,
            enabled: self.enabled,
            source: None,
        })
    }
}

pub(crate) async fn replace_servers(
    by: By<Admin>,
    Body(body): Body<ServerSet>,
) -> Result<Reply<ServerSetChange>> {
    let wanted = body.servers.into_iter().enumerate().map(|(at, server)| {
        server.read().map_err(|problem| problem.within(&format!("/servers/{at}")))
    });
    let wanted = wanted.collect::<Result<Vec<_>>>()?;
    let changed =
        make_ending(&by, "replace mcp-integrations", apply!(replace_integrations(wanted))).await?;
    let version = by.registry()?.set_version(by.caller.organisation());
    Ok(Reply::new(describe_change(&by, changed), Some(version)))
}

fn describe_change(by: &Context, changed: Changed<IntegrationSet>) -> ServerSetChange {
    let is_dry_run = changed.is_dry_run;
    let before = changed.before.unwrap_or_default();
    let after = changed.after.unwrap_or_default();
    let mut all = BTreeMap::new();
    for integration in before.integrations {
        all.insert(integration.slug.clone(), (ServerAction::Deleted, Some(integration)));
    }
    for integration in after.integrations {
        let is_known = all.contains_key(&integration.slug);
        let action = if is_known { ServerAction::Updated } else { ServerAction::Created };
        all.insert(integration.slug.clone(), (action, Some(integration)));
    }
    all.extend(after.unchanged.into_iter().map(|slug| (slug, (ServerAction::Unchanged, None))));
    let servers = all.into_iter().map(|(slug, (action, integration))| {
        let affected_agents = integration.as_ref().filter(|_| is_dry_run);
        let affected_agents = affected_agents.map(|one| by.agents_with(&one.id));
        let (id, name) = integration.map(|one| (one.id, one.name)).unzip();
        // A creation in a dry run has no id.
        let id = id.filter(|_| !is_dry_run || !matches!(action, ServerAction::Created));
        ServerChange { slug, action, id, name, affected_agents }
    });
    let servers = servers.collect();
    let warnings = changed.warnings.into_iter().map(name_place).collect();
    ServerSetChange { servers, warnings, dry_run: is_dry_run }
}

/// Converts a warning about an item of the set, with the API's name of its member.
fn name_place(said: Said) -> Warning {
    let Some((item, member)) = said.pointer.rsplit_once('/') else { return Warning::new(said) };
    let item = item.to_owned();
    let pointer = format!("/{member}");
    Warning::new(Said { pointer, ..said }).within(&item)
}
