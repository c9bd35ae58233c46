//! Sessions of people signed in to the console, which can be ended.

use askama::Template;
use axum::http::Method;
use serde::Deserialize;

use crate::console::api_client::{ApiClient, ApiPath, List};
use crate::console::diagnosis::Severity;
use crate::console::error::{PageResult, show};
use crate::console::fields::{FormFields, QueryFields};
use crate::console::layout::Layout;

const PART: &str = "200";
/// Maximum number of sessions that one form ends: those of one person.
const MAX_ENDED: usize = 64;

/// A session as returned by the API.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Session {
    id: String,
    issuer: String,
    subject: String,
    name: Option<String>,
    organization_id: String,
    began_at: String,
    used_at: String,
}

struct Person {
    sessions: Vec<Session>,
}

#[derive(Template)]
#[template(path = "sessions.html")]
struct SessionsPage<'a> {
    layout: &'a Layout,
    search: &'a str,
    people: Vec<Person>,
    total: usize,
    next: Option<String>,
}

impl Session {
    /// Returns the name of the key, or the subject of the account.
    fn text(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.subject)
    }

    /// Returns the kind of credential.
    fn way(&self) -> &str {
        match self.issuer.as_str() {
            lockgate_authn::KEY => "API key",
            issuer => issuer,
        }
    }

    fn is_of(&self, other: &Self) -> bool {
        (&self.issuer, &self.subject, &self.organization_id)
            == (&other.issuer, &other.subject, &other.organization_id)
    }
}

/// Lists the sessions by person.
pub(crate) async fn list_sessions(
    layout: Layout,
    api: ApiClient,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let search = fields.get("q");
    let path = ApiPath::new(&["api", "sessions"])?
        .with("limit", PART)
        .with("search", search)
        .with("cursor", fields.get("after"));
    let found: List<Session> = api.get(&path).await?;
    let mut next = None;
    if let Some(cursor) = &found.next_cursor {
        let page = ApiPath::new(&["console", "sessions"])?;
        next = Some(page.with("q", search).with("after", cursor).as_str().to_owned());
    }
    let mut people: Vec<Person> = Vec::new();
    for session in found.items {
        match people.last_mut() {
            Some(person) if person.sessions.iter().any(|one| one.is_of(&session)) => {
                person.sessions.push(session);
            }
            _ => people.push(Person { sessions: vec![session] }),
        }
    }
    show(&SessionsPage { layout: &layout, search, people, total: found.total, next })
}

/// Ends sessions; ignores those that have already ended.
pub(crate) async fn end_sessions(
    layout: Layout,
    api: ApiClient,
    QueryFields(query): QueryFields,
    FormFields(form): FormFields,
) -> PageResult {
    for id in form.all("session").take(MAX_ENDED) {
        let path = ApiPath::new(&["api", "sessions", id])?;
        match api.change(Method::DELETE, &path, None, None).await {
            Err(error) if error.code != "SESSION_NOT_FOUND" => return Err(error.into()),
            _ => {}
        }
    }
    let page = ApiPath::new(&["console", "sessions"])?.with("q", query.get("q"));
    Ok(layout.redirect_with(page, Severity::Good, "Signed out. The sessions have ended."))
}
