//! Agents: each is owned by its creator, and visible only to the owner and to administrators of the
//! organisation. Their servers are in `agent_servers`.

use lockgate_proxy::{ItemMistake, Items};
use lockgate_registry::{Agent as Stored, AgentPatch, Changed};
use lockgate_text::json;
use serde::Deserializer;

use super::body::segment_of;
use super::integrations::write_time;
use super::keys::KeyNames;
use super::operation::*;
use super::page::StoredSort;

types! {
/// An agent.
output pub(crate) struct Agent {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) organization_id: String,
    /// Its creator, as `issuer|subject`.
    pub(crate) owner: String,
    /// The name of the key that created it, if the caller may see the key.
    pub(crate) owner_name: Option<String>,
    /// The URL for its clients.
    pub(crate) endpoint: String,
    /// The form of its list of tools; `default` for the operator's setting.
    pub(crate) tools: AgentTools,
    /// The chosen items of its servers; `null` for all.
    #[cfg_attr(test, schema(value_type = Option<AgentItems>))]
    pub(crate) items: Option<Items> as null,
    /// Increases with each change; also the `ETag` of the response, for `If-Match`.
    pub(crate) version: i64,
    /// RFC 3339.
    pub(crate) created_at: String,
    /// RFC 3339.
    pub(crate) updated_at: String,
    /// Set if this was a dry run.
    pub(crate) dry_run: bool,
}
}

lockgate_text::words! {
    /// The form of an agent's list of tools.
    #[derive(Serialize, Deserialize)]
    #[cfg_attr(test, derive(utoipa::ToSchema))]
    #[serde(rename_all = "lowercase")]
    pub(crate) enum AgentTools {
        Default = "default",
        Full = "full",
        Search = "search",
        Auto = "auto",
    }
}

types! {
/// A change of an agent; omitted properties stay.
input pub(crate) struct AgentChange {
    /// Display name; unique among the agents of its owner.
    pub(crate) name: Option<String>,
    pub(crate) tools: Option<AgentTools>,
    /// Chosen items of its servers, other names and other descriptions; `null` for all items.
    #[serde(default, deserialize_with = "given")]
    #[cfg_attr(test, schema(value_type = Option<AgentItems>))]
    pub(crate) items: Option<Option<Items>>,
}
}

/// The items of an agent, as `endpoints.NAME` in the operator's configuration. A list without
/// patterns is empty.
#[cfg(test)]
#[derive(utoipa::ToSchema)]
#[allow(dead_code, reason = "describes the items; `Items` of the proxy reads them")]
struct AgentItems {
    /// Patterns of its tools: `server/name`, with `*`, `?`, `[…]` and `{a,b}`.
    #[schema(required = false)]
    tools: Vec<String>,
    /// Patterns of its prompts, likewise.
    #[schema(required = false)]
    prompts: Vec<String>,
    /// Patterns of its resources, templates and skills: `server/uri`, or the URI.
    #[schema(required = false)]
    resources: Vec<String>,
    /// Other names of tools and prompts, by `server/name`.
    #[schema(required = false)]
    rename: std::collections::BTreeMap<String, String>,
    /// Other descriptions, by `server/name` or `server/uri`.
    #[schema(required = false)]
    describe: std::collections::BTreeMap<String, String>,
}

/// Distinguishes `null` from an omitted property.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<Items>>, D::Error> {
    Option::deserialize(from).map(Some)
}

types! {
/// The properties of an agent.
input pub(crate) struct AgentName {
    /// Display name; unique among the agents of its owner.
    pub(crate) name: String,
}

filter pub(crate) struct AgentListQuery {
    /// Part of the name, case-insensitive.
    search: Option<String> max 256,
    /// Default `name`.
    sort: Option<StoredSort>,
    order: Option<SortOrder>,
}
}

impl Agent {
    pub(crate) fn new(stored: Stored, caller: &Caller) -> Self {
        Self {
            endpoint: format!("{}/agents/{}/mcp", caller.base, stored.id),
            tools: AgentTools::parse(&stored.tools).unwrap_or(AgentTools::Default),
            items: json::from_str(&stored.items).ok(),
            id: stored.id,
            name: stored.name,
            organization_id: stored.organisation,
            owner: format!("{}|{}", stored.owner_issuer, stored.owner_subject),
            owner_name: None,
            version: stored.version,
            created_at: write_time(stored.created_at),
            updated_at: write_time(stored.updated_at),
            dry_run: false,
        }
    }

    fn name_owner(mut self, names: &KeyNames) -> Self {
        let (issuer, subject) = self.owner.split_once('|').unwrap_or_default();
        self.owner_name = names.find(issuer, subject).map(str::to_owned);
        self
    }
}

/// Returns the response to a change, except a deletion.
fn answer_changed(
    by: &Context,
    status: StatusCode,
    changed: Changed<Stored>,
) -> Result<Reply<Agent>> {
    let dry_run = changed.is_dry_run;
    let stored = changed.after.ok_or_else(broken)?;
    let version = Some(stored.version);
    let agent = Agent { dry_run, ..Agent::new(stored, &by.caller) };
    Ok(Reply::new(agent, version).with_status(status, dry_run))
}

pub(crate) async fn list_agents(
    by: By<User>,
    Query(Paged { part, filter }): Query<Paged<AgentListQuery>>,
) -> Result<Json<Page<Agent>>> {
    let AgentListQuery { search, sort, order } = filter;
    let mut all = by.registry()?.list_agents(&by.actor());
    if let Some(search) = search.map(|search| search.to_lowercase()) {
        all.retain(|known| known.agent.name.to_lowercase().contains(&search));
    }
    let sort = sort.unwrap_or_default();
    let placed = all.into_iter().map(|known| {
        let Stored { name, id, created_at, updated_at, .. } = &known.agent;
        (sort.place(name, id, (*created_at, *updated_at)), known)
    });
    let page = part.cut_placed(placed.collect(), SortOrder::is_descending(order))?;
    let names = KeyNames::of(&by);
    Ok(Json(page.map(|known| Agent::new(known.agent.clone(), &by.caller).name_owner(&names))))
}

pub(crate) async fn create_agent(
    by: By<User>,
    Body(AgentName { name }): Body<AgentName>,
) -> Result<Reply<Agent>> {
    let changed = by.make("create agent", apply!(create_agent(&name))).await?;
    answer_changed(&by, StatusCode::CREATED, changed)
}

pub(crate) async fn show_agent(by: By<User>, Path(id): Path<String>) -> Result<Reply<Agent>> {
    let stored = by.registry()?.agent(&by.actor(), &id)?;
    let version = Some(stored.version);
    let names = KeyNames::of(&by);
    Ok(Reply::new(Agent::new(stored, &by.caller).name_owner(&names), version))
}

/// Returns ids with the names of their agents; the id again for agents that the caller may not see.
pub(crate) fn name_agents(by: &By<User>, ids: Vec<String>) -> Result<Vec<(String, String)>> {
    let actor = by.actor();
    let registry = by.registry()?;
    let named = ids.into_iter().map(|id| {
        let name = registry.agent(&actor, &id).map_or_else(|_| id.clone(), |agent| agent.name);
        (id, name)
    });
    Ok(named.collect())
}

pub(crate) async fn change_agent(
    by: By<User>,
    Path(id): Path<String>,
    Body(AgentChange { name, tools, items }): Body<AgentChange>,
) -> Result<Reply<Agent>> {
    if let Some(Some(items)) = &items {
        let checked = by.state.gateway.check_items(&by.caller.principal, items).await;
        checked.map_err(|mistake| problem(&mistake))?;
    }
    let items = items.map(|items| items.map_or_else(String::new, |items| write_items(&items)));
    let tools = tools.map(|tools| match tools {
        AgentTools::Default => String::new(),
        other => other.as_str().to_owned(),
    });
    let patch = AgentPatch { name, tools, items };
    let changed = by.make("change agent", apply!(change_agent(&id, patch))).await?;
    answer_changed(&by, StatusCode::OK, changed)
}

fn problem(mistake: &ItemMistake) -> Problem {
    let ItemMistake { member, key, what, fix } = mistake;
    let segment = key.as_deref().map(segment_of).unwrap_or_default();
    let pointer = format!("/items/{member}{segment}");
    let of = key.as_ref().map(|key| format!(" of `{key:.128}`")).unwrap_or_default();
    Problem::in_body(&pointer, format!("`{member}`{of} {what}; {fix}"))
}

fn write_items(items: &Items) -> String {
    serde_json::to_string(items).unwrap_or_default()
}

pub(crate) async fn delete_agent(by: By<User>, Path(id): Path<String>) -> Result<Deletion<Agent>> {
    let changed = by.make("delete agent", apply!(delete_agent(&id))).await?;
    let stored = changed.before.filter(|_| changed.is_dry_run);
    let agent = stored.map(|stored| Agent { dry_run: true, ..Agent::new(stored, &by.caller) });
    Ok(Deletion(agent))
}
