//! Prompts and resources that a caller may use, under the names of `/mcp`: the same view as for MCP
//! clients.

use lockgate_proxy::VisibleItem;
use lockgate_text::json;
use lockgate_upstream::ListKind;
use serde_json::Map;

use super::operation::*;

/// A prompt.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Prompt {
    /// Its identifier for requests.
    pub(crate) name: String,
    /// Its server.
    pub(crate) server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// Its arguments, as declared by its server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<Vec<Object>>))]
    pub(crate) arguments: Option<Value>,
}

/// A resource.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resource {
    /// Its identifier for requests.
    pub(crate) uri: String,
    /// Its server.
    pub(crate) server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mime_type: Option<String>,
}

impl Prompt {
    pub(crate) fn new(item: &VisibleItem, mut definition: Map<String, Value>) -> Self {
        Self {
            name: item.exposed.to_string(),
            server: item.server.slug().to_owned(),
            title: take_text(&mut definition, "title"),
            description: take_text(&mut definition, "description"),
            arguments: definition.remove("arguments"),
        }
    }
}

impl Resource {
    pub(crate) fn new(item: &VisibleItem, mut definition: Map<String, Value>) -> Self {
        Self {
            uri: item.exposed.to_string(),
            server: item.server.slug().to_owned(),
            name: take_text(&mut definition, "name"),
            title: take_text(&mut definition, "title"),
            description: take_text(&mut definition, "description"),
            mime_type: take_text(&mut definition, "mimeType"),
        }
    }

    /// Creates a resource that is in no list of the caller. Its server is unknown.
    pub(crate) fn unlisted(uri: &str) -> Self {
        Self {
            uri: uri.to_owned(),
            server: String::new(),
            name: None,
            title: None,
            description: None,
            mime_type: None,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct OffersQuery {
    /// Part of the name or the URI.
    #[cfg_attr(test, param(max_length = 256))]
    search: Option<String>,
    /// Only items of this server.
    #[cfg_attr(test, param(max_length = 64))]
    server: Option<String>,
}

/// Lists the prompts that the caller may use.
#[cfg_attr(test, utoipa::path(
    get, path = "/prompts", tag = "tools", params(PartQuery, OffersQuery, OrganisationQuery),
    responses((status = 200, body = Page<Prompt>)),
))]
pub(crate) async fn list_prompts(
    By { state, caller, .. }: By<User>,
    Query(query): Query<Paged<OffersQuery>>,
) -> Result<Json<Page<Prompt>>, Problem> {
    let found = find_offers(&state, &caller, query, ListKind::Prompts).await?;
    Ok(Json(found.filter_map(|item| show_item(&item, Prompt::new))))
}

/// Lists the resources that the caller may use.
#[cfg_attr(test, utoipa::path(
    get, path = "/resources", tag = "tools", params(PartQuery, OffersQuery, OrganisationQuery),
    responses((status = 200, body = Page<Resource>)),
))]
pub(crate) async fn list_resources(
    By { state, caller, .. }: By<User>,
    Query(query): Query<Paged<OffersQuery>>,
) -> Result<Json<Page<Resource>>, Problem> {
    let found = find_offers(&state, &caller, query, ListKind::Resources).await?;
    Ok(Json(found.filter_map(|item| show_item(&item, Resource::new))))
}

async fn find_offers(
    state: &ApiState,
    caller: &Caller,
    query: Paged<OffersQuery>,
    kind: ListKind,
) -> Result<Page<VisibleItem>, Problem> {
    let mut all = state.gateway.visible_items(&caller.principal, kind).await;
    if let Some(server) = &query.filter.server {
        all.retain(|item| item.server.slug() == server);
    }
    query.part.cut(query.filter.search.as_deref(), all, |item| &item.exposed)
}

/// Converts an item and its definition.
type Show<T> = fn(&VisibleItem, Map<String, Value>) -> T;

/// Returns the prompt of this name, or the resource of this URI, if the caller may use it.
pub(crate) async fn find_offer<T>(
    By { state, caller, .. }: By<User>,
    kind: ListKind,
    name: &str,
    show: Show<T>,
) -> Option<T> {
    let all = state.gateway.visible_items(&caller.principal, kind).await;
    show_item(all.iter().find(|item| *item.exposed == *name)?, show)
}

/// Returns `None` if the definition of the item cannot be read.
fn show_item<T>(item: &VisibleItem, show: Show<T>) -> Option<T> {
    match json::from_slice(&item.text) {
        Ok(Value::Object(definition)) => Some(show(item, definition)),
        _ => None,
    }
}

pub(crate) fn take_text(definition: &mut Map<String, Value>, name: &str) -> Option<String> {
    match definition.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}
