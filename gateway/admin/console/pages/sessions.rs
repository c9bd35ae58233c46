//! Sessions of people signed in to the console, which can be ended.

use super::*;
use crate::api::connections::{self, Connection};
use crate::api::sessions::{self, ConsoleSession};

/// Sessions, and accounts, per page.
const PART: &str = "200";
/// Maximum number of sessions that one form ends: those of one person.
const MAX_ENDED: usize = 64;

#[derive(Template)]
#[template(path = "sessions.html")]
struct SessionsPage<'a> {
    visit: &'a Visit,
    found: Page<ConsoleSession>,
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

/// Lists the sessions, those of each person together.
pub(crate) async fn list_sessions(visit: Visit) -> PageResult {
    let filter = visit.list_query(PART, &[])?;
    let Json(found) = sessions::list_sessions(visit.by()?, filter).await?;
    show(&SessionsPage { visit: &visit, found })
}

/// Ends sessions; ignores those that have already ended.
pub(crate) async fn end_sessions(visit: Visit) -> PageResult {
    for id in visit.form.all("session").take(MAX_ENDED) {
        match sessions::end_session(visit.by()?, Path(id.to_owned())).await {
            Err(problem) if problem.code() != "SESSION_NOT_FOUND" => return Err(problem.into()),
            _ => {}
        }
    }
    let page = PagePath::new(&["sessions"]).with("q", visit.query.get("q"));
    visit.done(page, "Signed out. The sessions have ended.")
}

// Accounts at servers: the visitor's own, to connect and disconnect, and for administrators
// those of all users, to disconnect.

#[derive(Template)]
#[template(path = "connections.html")]
struct ConnectionsPage<'a> {
    visit: &'a Visit,
    is_of_all: bool,
    found: Page<Connection>,
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
    show(&ConnectionsPage { visit: &visit, is_of_all, found })
}

/// Disconnects an account; ignores one that is gone already.
pub(crate) async fn disconnect(visit: Visit) -> PageResult {
    let id = visit.form.get("connection").to_owned();
    match connections::delete_connection(visit.by()?, Path(id)).await {
        Err(problem) if problem.code() != "CONNECTION_NOT_FOUND" => return Err(problem.into()),
        _ => {}
    }
    let page = PagePath::new(&["connections"]);
    let page = page.with("q", visit.query.get("q")).with("all", visit.query.get("all"));
    visit.done(page, "Disconnected. Calls no longer use the account.")
}
