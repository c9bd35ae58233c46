//! API keys without their secrets: the list, a new key, which is shown once, and revocation.

use std::time::{Duration, SystemTime};

use askama::Template;
use axum::extract::Path;
use axum::http::{HeaderMap, Method, StatusCode};
use lockgate_text::date;
use serde::Deserialize;
use serde_json::{Value, json};

use super::agents::Agent;
use crate::api::me::Me;
use crate::console::api_client::{ApiClient, ApiError, ApiPath, List, sentence};
use crate::console::diagnosis::Severity;
use crate::console::error::{PageError, PageResult, render, show};
use crate::console::fields::{Fields, FormFields, QueryFields};
use crate::console::layout::Layout;
use crate::console::snippets::{Snippet, find_address, make_snippets};

const DAY: Duration = Duration::from_secs(86_400);
/// How long a new key is good where its maker does not say.
const DEFAULT_LIFE: Duration = Duration::from_secs(90 * 86_400);

/// Keys of one page of the API.
const PART: &str = "200";
/// Pages of the API that are looked at.
const MAX_PARTS: usize = 50;

/// A key as the API shows it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ApiKey {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) organization_id: String,
    pub(crate) roles: Vec<String>,
    pub(crate) scopes: Vec<String>,
    pub(crate) state: String,
    pub(crate) created_at: String,
    pub(crate) expires_at: Option<String>,
}

/// A key that was made: its text is in this answer alone.
#[derive(Deserialize)]
struct MadeKey {
    key: String,
    #[serde(flatten)]
    about: ApiKey,
}

#[derive(Template)]
#[template(path = "keys.html")]
struct KeysPage<'a> {
    layout: &'a Layout,
    search: &'a str,
    keys: Vec<ApiKey>,
    total: usize,
}

#[derive(Template)]
#[template(path = "key_new.html")]
struct NewKeyPage<'a> {
    layout: &'a Layout,
    typed: &'a Fields,
    /// The field that is wrong, and why.
    mistake: (String, String),
    /// The day that the form suggests, 90 days from now, and the first one that can be chosen.
    expires: String,
    today: String,
    /// Roles that the visitor may grant.
    grants: Vec<String>,
}

#[derive(Template)]
#[template(path = "key_made.html")]
struct MadeKeyPage<'a> {
    layout: &'a Layout,
    made: MadeKey,
    snippets: Vec<Snippet>,
    /// The agent that the key was created for.
    agent: Option<Agent>,
}

#[derive(Template)]
#[template(path = "key_revoke.html")]
struct RevokePage<'a> {
    layout: &'a Layout,
    key: ApiKey,
}

impl ApiKey {
    /// Whether it ends before a time, both as RFC 3339 in UTC.
    pub(crate) fn ends_before(&self, time: &str) -> bool {
        matches!(self.expires_at.as_deref(), Some(ends) if ends < time)
    }

    pub(crate) fn severity(&self) -> Severity {
        match self.state.as_str() {
            "active" => Severity::Good,
            "expired" => Severity::Bad,
            _ => Severity::Off,
        }
    }

    fn fits(&self, search: &str) -> bool {
        self.name.to_lowercase().contains(&search.to_lowercase()) || self.id.starts_with(search)
    }
}

impl NewKeyPage<'_> {
    /// The value of the expiry: the suggestion until the form was sent.
    fn expiry(&self) -> &str {
        if self.typed.has("expiresAt") { self.typed.get("expiresAt") } else { &self.expires }
    }

    /// What is wrong with a field, or with one of its items.
    fn at(&self, field: &str) -> &str {
        let (place, words) = &self.mistake;
        if place.split('/').next() == Some(field) { words } else { "" }
    }
}

/// The keys that the visitor may see.
pub(crate) async fn load_keys(api: &ApiClient) -> Result<List<ApiKey>, ApiError> {
    let mut all = List { items: Vec::new(), total: 0, next_cursor: None };
    for _ in 0..MAX_PARTS {
        let cursor = all.next_cursor.take().unwrap_or_default();
        let path = ApiPath::new(&["api", "keys"])?.with("limit", PART).with("cursor", &cursor);
        let part: List<ApiKey> = api.get(&path).await?;
        all.items.extend(part.items);
        all.total = part.total;
        all.next_cursor = part.next_cursor;
        if all.next_cursor.is_none() {
            break;
        }
    }
    Ok(all)
}

/// The list. Keys are searched by name, or by the beginning of their id; those that are good come
/// first.
pub(crate) async fn list_keys(
    layout: Layout,
    api: ApiClient,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let search = fields.get("q");
    let List { items: mut keys, total, .. } = load_keys(&api).await?;
    keys.retain(|key| key.fits(search));
    keys.sort_by_key(|key| key.state != "active");
    show(&KeysPage { layout: &layout, search, keys, total })
}

/// The form of a new key.
pub(crate) async fn show_form(
    layout: Layout,
    api: ApiClient,
    QueryFields(typed): QueryFields,
) -> PageResult {
    let grants = list_grants(&api).await?;
    show(&make_form(&layout, &typed, (String::new(), String::new()), grants))
}

fn make_form<'a>(
    layout: &'a Layout,
    typed: &'a Fields,
    mistake: (String, String),
    grants: Vec<String>,
) -> NewKeyPage<'a> {
    let now = SystemTime::now();
    let expires = day_of(now + DEFAULT_LIFE);
    let today = day_of(now + DAY);
    NewKeyPage { layout, typed, mistake, expires, today, grants }
}

/// The day of a time in UTC.
fn day_of(time: SystemTime) -> String {
    let mut day = date::of_time(time);
    day.truncate("2027-01-31".len());
    day
}

/// Roles that the visitor may give to a key, as far as they can be listed.
async fn list_grants(api: &ApiClient) -> Result<Vec<String>, ApiError> {
    let me: Me = api.get(&ApiPath::new(&["api", "me"])?).await.unwrap_or_default();
    Ok(me.grants)
}

/// Makes a key, and shows it once.
pub(crate) async fn create_key(
    layout: Layout,
    api: ApiClient,
    headers: HeaderMap,
    QueryFields(query): QueryFields,
    FormFields(typed): FormFields,
) -> PageResult {
    let path = ApiPath::new(&["api", "keys"])?;
    let made: Result<MadeKey, ApiError> = api.ask(&path, &write_body(&typed)).await;
    match made {
        Ok(made) => show_made(&layout, &api, &headers, query.get("for"), made).await,
        Err(error) if error.is_of_form() || !error.pointer.is_empty() => {
            let field = error.pointer.trim_start_matches('/').to_owned();
            let mistake = (field, sentence(&error.detail));
            let page = make_form(&layout, &typed, mistake, list_grants(&api).await?);
            render(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(error) => Err(error.into()),
    }
}

/// Shows a key once, with the configuration of clients that use it: of an agent, where the key was
/// created for one.
async fn show_made(
    layout: &Layout,
    api: &ApiClient,
    headers: &HeaderMap,
    agent: &str,
    made: MadeKey,
) -> PageResult {
    let me: Me = api.get(&ApiPath::new(&["api", "me"])?).await.unwrap_or_default();
    let mut endpoint = me.endpoint;
    let mut name = "lockgate".to_owned();
    let mut found = None;
    if !agent.is_empty() {
        let agent: Agent = api.get(&ApiPath::new(&["api", "agents", agent])?).await?;
        agent.endpoint.clone_into(&mut endpoint);
        agent.name.clone_into(&mut name);
        found = Some(agent);
    }
    let address = find_address(&endpoint, headers);
    let snippets = make_snippets(&name, &address, Some(&made.key), true);
    show(&MadeKeyPage { layout, made, snippets, agent: found })
}

fn write_body(typed: &Fields) -> Value {
    let mut body = json!({"name": typed.get("name")});
    for field in ["organizationId", "agent", "expiresAt"] {
        if !typed.get(field).is_empty() {
            body[field] = typed.get(field).into();
        }
    }
    for field in ["roles", "scopes"] {
        let mut words: Vec<&str> = Vec::new();
        for word in typed.all(field).flat_map(str::split_whitespace) {
            if !words.contains(&word) {
                words.push(word);
            }
        }
        body[field] = words.into();
    }
    body
}

/// A key that is about to be taken out of force.
pub(crate) async fn show_revocation(
    layout: Layout,
    api: ApiClient,
    Path(id): Path<String>,
) -> PageResult {
    let found = load_keys(&api).await?.items.into_iter().find(|key| key.id == id);
    let Some(key) = found else {
        return Err(PageError::not_found("There is no key of this id that you may see."));
    };
    show(&RevokePage { layout: &layout, key })
}

/// Takes a key out of force.
pub(crate) async fn revoke_key(
    layout: Layout,
    api: ApiClient,
    Path(id): Path<String>,
) -> PageResult {
    api.change(Method::DELETE, &ApiPath::new(&["api", "keys", &id])?, None, None).await?;
    let page = ApiPath::new(&["console", "keys"])?;
    let text = "The key was revoked. Requests and sessions that use it are refused.";
    Ok(layout.redirect_with(page, Severity::Good, text))
}
