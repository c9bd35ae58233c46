//! Replacement of all integrations of an organisation: `PUT /api/servers` applies the requested set
//! and reports the action for each server.

use std::collections::BTreeMap;

use lockgate_registry::{Changed, IntegrationSet, NewIntegration, Origin, Secret, Warning as Said};

use super::connections::make_ending;
use super::integrations::{AuthMethod, Warning, secret};
use super::operation::*;

/// The complete set of an organisation's own servers.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerSet {
    #[cfg_attr(test, schema(max_items = 1000))]
    servers: Vec<WantedServer>,
}

/// The desired state of a server: by its address, or from the catalogue.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct WantedServer {
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
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerSetChange {
    servers: Vec<ServerChange>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Warning>,
    /// Set if this was a dry run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
}

/// The change of one server.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerChange {
    slug: String,
    action: ServerAction,
    /// For existing or deleted servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Ids of the agents that have it, in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    affected_agents: Option<Vec<String>>,
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
    fn read(self) -> Result<NewIntegration, Problem> {
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

/// Replaces the integrations of the caller's organisation.
///
/// Integrations that are not in the body are deleted, and unassigned from all agents; equal ones
/// are not changed, and omitted credentials are kept. All changes are made, or none. Servers of the
/// configuration are not affected.
#[cfg_attr(test, utoipa::path(
    put, path = "/servers", tag = "servers", params(ChangeQuery, OrganisationQuery, ChangeHeaders),
    request_body = ServerSet,
    responses(
        (status = 200, body = ServerSetChange),
        (status = 400, description = "An error in the body: nothing was changed"),
        (status = 404, description = "The catalogue has no such entry"),
        (status = 409, description = "A slug or a name is taken"),
    ),
))]
pub(crate) async fn replace_servers(
    by: By<Admin>,
    Body(body): Body<ServerSet>,
) -> Result<Reply<ServerSetChange>, Problem> {
    let change = Arc::new(by.change()?);
    let wanted = body.servers.into_iter().enumerate().map(|(at, server)| {
        server.read().map_err(|problem| problem.within(&format!("/servers/{at}")))
    });
    let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
    let changed =
        make_ending(&change, "replace mcp-integrations", apply!(replace_integrations(wanted)))
            .await?;
    let version = Some(change.state.registry()?.set_version(change.organisation()));
    Ok(Reply { value: describe_change(&change, changed), status: StatusCode::OK, version })
}

fn describe_change(change: &Change, changed: Changed<IntegrationSet>) -> ServerSetChange {
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
        let affected_agents = affected_agents.map(|one| change.agents_with(&one.id));
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
