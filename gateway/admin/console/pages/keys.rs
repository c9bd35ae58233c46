//! API keys without their secrets: the list, a new key, which is shown once, and revocation.

use std::time::{Duration, SystemTime};

use askama::Template;
use axum::Json;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use lockgate_text::date;
use serde_json::{Value, json};

use crate::api::agents::{Agent, show_agent};
use crate::api::body::body;
use crate::api::keys::{self, ApiKey, MadeKey};
use crate::console::api::Api;
use crate::console::diagnosis::Severity;
use crate::console::error::{PageError, PageResult, render, show};
use crate::console::fields::{Fields, FormFields, QueryFields};
use crate::console::layout::Layout;
use crate::console::redirect::PagePath;
use crate::console::snippets::{Snippet, find_address, make_snippets};
use crate::fault::sentence;

const DAY: Duration = Duration::from_secs(86_400);
/// The lifetime that the form suggests for a new key.
const DEFAULT_LIFE: Duration = Duration::from_secs(90 * 86_400);

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
    /// The key itself.
    secret: String,
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
        match self.state {
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

/// Lists the keys, filtered by name or prefix of the id, the active keys first.
pub(crate) async fn list_keys(
    layout: Layout,
    api: Api,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let search = fields.get("q");
    let mut keys = keys::list_visible(&api.by()?);
    let total = keys.len();
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
    api: Api,
    headers: HeaderMap,
    QueryFields(query): QueryFields,
    FormFields(typed): FormFields,
) -> PageResult {
    let organisation = match typed.get("organizationId") {
        "" => layout.me.organization_id.as_str(),
        other => other,
    };
    let mut others = keys::list_visible(&api.by()?);
    others.retain(|key| key.state == "active" && key.organization_id == organisation);
    if others.iter().any(|key| key.name == typed.get("name")) {
        let words = "An active key has this name. Choose another, so that records tell them apart.";
        let mistake = ("name".to_owned(), words.to_owned());
        return render(StatusCode::UNPROCESSABLE_ENTITY, &make_form(&layout, &typed, mistake));
    }
    // Before the key, because an error must not hide its secret.
    let agent = match query.get("for") {
        "" => None,
        id => Some(show_agent(api.by()?, Path(id.to_owned())).await?.value),
    };
    let made = match body(write_body(&typed)) {
        Ok(new) => keys::create_key(api.by()?, new).await,
        Err(problem) => Err(problem),
    };
    match made {
        Ok((_, Json(made))) => show_made(&layout, &headers, agent, made),
        Err(problem) if problem.is_of_form() || !problem.pointer().is_empty() => {
            let field = problem.pointer().trim_start_matches('/').to_owned();
            let mistake = (field, sentence(problem.detail()));
            let page = make_form(&layout, &typed, mistake);
            let mut response = render(StatusCode::UNPROCESSABLE_ENTITY, &page)?;
            if let Some(refusal) = problem.refusal() {
                response.extensions_mut().insert(refusal);
            }
            Ok(response)
        }
        Err(problem) => Err(problem.into()),
    }
}

/// Shows a key once, with the client configuration for its agent, or for the gateway.
fn show_made(
    layout: &Layout,
    headers: &HeaderMap,
    agent: Option<Agent>,
    mut made: MadeKey,
) -> PageResult {
    let secret = made.key.take().unwrap_or_default();
    let (name, endpoint) = match &agent {
        Some(agent) => (agent.name.as_str(), &agent.endpoint),
        None => ("lockgate", &layout.me.endpoint),
    };
    let address = find_address(endpoint, headers);
    let snippets = make_snippets(name, &address, Some(&secret), true);
    // Unlike a page that shows a form again, this one is remembered as sent.
    render(StatusCode::CREATED, &MadeKeyPage { layout, made, secret, snippets, agent })
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
    api: Api,
    Path(id): Path<String>,
) -> PageResult {
    let mut known = keys::list_visible(&api.by()?).into_iter();
    let Some(key) = known.find(|key| key.id == id) else {
        return Err(PageError::not_found("There is no key of this id that you may see."));
    };
    show(&RevokePage { layout: &layout, key })
}

pub(crate) async fn revoke_key(layout: Layout, api: Api, Path(id): Path<String>) -> PageResult {
    keys::revoke_key(api.by()?, Path(id)).await?;
    let page = PagePath::new(&["console", "keys"]);
    let text = "The key was revoked. Requests and sessions that use it are refused.";
    Ok(layout.redirect_with(page, Severity::Good, text))
}
