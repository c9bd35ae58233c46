//! API keys without their secrets: the list, a new key, which is shown once, and revocation.

use std::time::{Duration, SystemTime};

use askama::Template;
use axum::extract::Path;
use axum::http::{HeaderMap, Method, StatusCode};
use lockgate_text::date;
use serde::Deserialize;
use serde_json::{Value, json};

use super::agents::Agent;
use crate::console::api_client::{ApiClient, ApiError, ApiPath, List, sentence};
use crate::console::diagnosis::Severity;
use crate::console::error::{PageError, PageResult, render, show};
use crate::console::fields::{Fields, FormFields, QueryFields};
use crate::console::layout::Layout;
use crate::console::snippets::{Snippet, find_address, make_snippets};

const DAY: Duration = Duration::from_secs(86_400);
/// The lifetime that the form suggests for a new key.
const DEFAULT_LIFE: Duration = Duration::from_secs(90 * 86_400);

/// Number of keys per page of the API.
const PART: &str = "200";
/// Maximum number of API pages to read.
const MAX_PARTS: usize = 50;

/// A key as returned by the API.
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

/// A created key; only this response contains its secret.
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
    /// The field in error, and the reason.
    mistake: (String, String),
    /// The suggested expiry, 90 days from now, and the earliest allowed day.
    expires: String,
    today: String,
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
    /// Returns whether the key expires before a time, both as RFC 3339 in UTC.
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
    /// Returns the entered expiry, or the suggestion for a new form.
    fn expiry(&self) -> &str {
        if self.typed.has("expiresAt") { self.typed.get("expiresAt") } else { &self.expires }
    }

    /// Returns the error of a field, or of an item of it.
    fn at(&self, field: &str) -> &str {
        let (place, words) = &self.mistake;
        if place.split('/').next() == Some(field) { words } else { "" }
    }
}

/// Returns the keys that the visitor may see.
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

/// Lists the keys, filtered by name or prefix of the id, the active keys first.
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

pub(crate) async fn show_form(layout: Layout, QueryFields(typed): QueryFields) -> PageResult {
    show(&make_form(&layout, &typed, (String::new(), String::new())))
}

fn make_form<'a>(
    layout: &'a Layout,
    typed: &'a Fields,
    mistake: (String, String),
) -> NewKeyPage<'a> {
    let now = SystemTime::now();
    let expires = day_of(now + DEFAULT_LIFE);
    let today = day_of(now + DAY);
    NewKeyPage { layout, typed, mistake, expires, today }
}

fn day_of(time: SystemTime) -> String {
    let mut day = date::of_time(time);
    day.truncate("2027-01-31".len());
    day
}

/// Creates a key and shows it once.
pub(crate) async fn create_key(
    layout: Layout,
    api: ApiClient,
    headers: HeaderMap,
    QueryFields(query): QueryFields,
    FormFields(typed): FormFields,
) -> PageResult {
    let organisation = match typed.get("organizationId") {
        "" => layout.me.organization_id.as_str(),
        other => other,
    };
    let mut others = load_keys(&api).await?.items;
    others.retain(|key| key.state == "active" && key.organization_id == organisation);
    if others.iter().any(|key| key.name == typed.get("name")) {
        let words = "An active key has this name. Choose another, so that records tell them apart.";
        let mistake = ("name".to_owned(), words.to_owned());
        return render(StatusCode::UNPROCESSABLE_ENTITY, &make_form(&layout, &typed, mistake));
    }
    // Before the key, because an error must not hide its secret.
    let agent: Option<Agent> = match query.get("for") {
        "" => None,
        id => Some(api.get(&ApiPath::new(&["api", "agents", id])?).await?),
    };
    let path = ApiPath::new(&["api", "keys"])?;
    let made: Result<MadeKey, ApiError> = api.ask(&path, &write_body(&typed)).await;
    match made {
        Ok(made) => show_made(&layout, &headers, agent, made),
        Err(error) if error.is_of_form() || !error.pointer.is_empty() => {
            let field = error.pointer.trim_start_matches('/').to_owned();
            let mistake = (field, sentence(&error.detail));
            render(StatusCode::UNPROCESSABLE_ENTITY, &make_form(&layout, &typed, mistake))
        }
        Err(error) => Err(error.into()),
    }
}

/// Shows a key once, with the client configuration for its agent, or for the gateway.
fn show_made(
    layout: &Layout,
    headers: &HeaderMap,
    agent: Option<Agent>,
    made: MadeKey,
) -> PageResult {
    let (name, endpoint) = match &agent {
        Some(agent) => (agent.name.as_str(), &agent.endpoint),
        None => ("lockgate", &layout.me.endpoint),
    };
    let address = find_address(endpoint, headers);
    let snippets = make_snippets(name, &address, Some(&made.key), true);
    // Unlike a page that shows a form again, this one is remembered as sent.
    render(StatusCode::CREATED, &MadeKeyPage { layout, made, snippets, agent })
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

/// Asks for confirmation before a key is revoked.
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
