//! Sessions of people signed in to the console, which can be ended.

use askama::Template;
use axum::Json;
use axum::extract::Path;

use crate::api::connections::{self, Connection};
use crate::api::page::Page;
use crate::api::sessions::{self, ConsoleSession};
use crate::console::diagnosis::Severity;
use crate::console::redirect::PagePath;
use crate::console::render::{PageResult, show};
use crate::console::visit::Visit;

/// Sessions, and accounts, per page.
const PART: &str = "200";
/// Maximum number of sessions that one form ends: those of one person.
const MAX_ENDED: usize = 64;

struct Person {
    sessions: Vec<ConsoleSession>,
}

#[derive(Template)]
#[template(path = "sessions.html")]
struct SessionsPage<'a> {
    visit: &'a Visit,
    people: Vec<Person>,
    total: usize,
    next: Option<String>,
}

impl ConsoleSession {
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
pub(crate) async fn list_sessions(visit: Visit) -> PageResult {
    let filter = visit.list_query(PART, &[])?;
    let Json(found) = sessions::list_sessions(visit.by()?, filter).await?;
    let next = visit.next(&["q"], found.next_cursor.as_deref());
    let mut people: Vec<Person> = Vec::new();
    for session in found.items {
        match people.last_mut() {
            Some(person) if person.sessions.iter().any(|one| one.is_of(&session)) => {
                person.sessions.push(session);
            }
            _ => people.push(Person { sessions: vec![session] }),
        }
    }
    show(&SessionsPage { visit: &visit, people, total: found.total, next })
}

/// Ends sessions; ignores those that have already ended.
pub(crate) async fn end_sessions(visit: Visit) -> PageResult {
    for id in visit.form.all("session").take(MAX_ENDED) {
        match sessions::end_session(visit.by()?, Path(id.to_owned())).await {
            Err(problem) if problem.code() != "SESSION_NOT_FOUND" => return Err(problem.into()),
            _ => {}
        }
    }
    let page = PagePath::new(&["console", "sessions"]).with("q", visit.query.get("q"));
    Ok(visit.redirect_with(page, Severity::Good, "Signed out. The sessions have ended."))
}

// Accounts at servers: the visitor's own, to connect and disconnect, and for administrators
// those of all users, to disconnect.

#[derive(Template)]
#[template(path = "connections.html")]
struct ConnectionsPage<'a> {
    visit: &'a Visit,
    is_of_all: bool,
    connections: Vec<Connection>,
    total: usize,
    next: Option<String>,
}

impl Connection {
    fn severity(&self) -> Severity {
        if self.state == "connected" { Severity::Good } else { Severity::Waiting }
    }

    fn words(&self) -> &str {
        match self.state.as_str() {
            "connected" => "connected",
            "needs_scope" => "needs more permissions",
            _ => "not connected",
        }
    }

    fn link_text(&self) -> &'static str {
        if self.state == "connected" { "Connect again" } else { "Connect" }
    }

    /// Returns whether there is a grant that can be disconnected.
    fn is_stored(&self) -> bool {
        self.connected_at.is_some() || self.failure.is_some()
    }

    fn user(&self) -> String {
        format!("{} {}", self.issuer, self.subject)
    }
}

/// Lists the visitor's connections; with `all`, those of all users.
pub(crate) async fn list_connections(visit: Visit) -> PageResult {
    let is_of_all = visit.is_admin() && visit.query.get("all") == "true";
    let all = if is_of_all { "true" } else { "" };
    let filter = visit.list_query(PART, &[("all", all)])?;
    let Json(found) = connections::list_connections(visit.by()?, filter).await?;
    let next = visit.next(&["q", "all"], found.next_cursor.as_deref());
    let Page { items: connections, total, .. } = found;
    show(&ConnectionsPage { visit: &visit, is_of_all, connections, total, next })
}

/// Disconnects an account; ignores one that is gone already.
pub(crate) async fn disconnect(visit: Visit) -> PageResult {
    let id = visit.form.get("connection").to_owned();
    match connections::delete_connection(visit.by()?, Path(id)).await {
        Err(problem) if problem.code() != "CONNECTION_NOT_FOUND" => return Err(problem.into()),
        _ => {}
    }
    let page = PagePath::new(&["console", "connections"]);
    let page = page.with("q", visit.query.get("q")).with("all", visit.query.get("all"));
    Ok(visit.redirect_with(page, Severity::Good, "Disconnected. Calls no longer use the account."))
}
