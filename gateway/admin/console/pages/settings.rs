//! Settings: the current configuration with the source of each value, read-only; organisations; the
//! sessions of people signed in to the console, and accounts at servers, which can be ended.

use lockgate_authn::KEY;

use super::*;
use crate::api::connections::{self, Connection};
use crate::api::integrations::list_integrations;
use crate::api::me::{Setting, list_settings};
use crate::api::organisations::{self, Organisation};
use crate::api::sessions::{self, ConsoleSession};

/// Number of items per page.
const PART: &str = "200";

#[derive(Template)]
#[template(path = "settings.html")]
struct SettingsPage<'a> {
    visit: &'a Visit,
    /// Includes defaults.
    is_whole: bool,
    /// The settings, or the errors in the configuration files.
    found: Result<Page<Setting>, String>,
}

impl Setting {
    fn section(&self) -> &str {
        self.key.split('.').next().unwrap_or("")
    }

    fn is_beside(&self, other: &Self) -> bool {
        self.section() == other.section()
    }

    /// Returns the key without its section.
    fn name(&self) -> &str {
        self.key.split_once('.').map_or(&self.key, |(_, name)| name)
    }
}

/// Shows the configured values, or all values.
pub(crate) async fn show_settings(visit: Visit) -> PageResult {
    let is_whole = visit.query.get("all") == "yes";
    let filter = visit.list_query(PART, &[("only", if is_whole { "" } else { "given" })])?;
    let found = match list_settings(visit.by()?, filter).await {
        Ok(Json(found)) => Ok(found),
        Err(problem) if problem.status() == StatusCode::CONFLICT => Err(problem.detail().into()),
        Err(problem) => return Err(problem.into()),
    };
    visit.show(&SettingsPage { visit: &visit, is_whole, found })
}

// Organisations with their own servers or agents, and a page of each.

#[derive(Template)]
#[template(path = "organisations.html")]
struct OrganisationsPage<'a> {
    visit: &'a Visit,
    found: Page<Organisation>,
}

pub(crate) async fn list_organisations(visit: Visit) -> PageResult {
    let filter = visit.list_query("100", &[])?;
    let Json(found) = organisations::list_organisations(visit.by()?, filter).await?;
    visit.show(&OrganisationsPage { visit: &visit, found })
}

#[derive(Template)]
#[template(path = "organisation.html")]
struct OrganisationPage<'a> {
    visit: &'a Visit,
    name: &'a str,
    integrations: Page<Integration>,
    agents: Page<Agent>,
    /// The address of the next agents.
    more_agents: Option<String>,
}

/// Shows the servers and the agents of an organisation.
pub(crate) async fn show_organisation(visit: Visit, Path(name): Path<String>) -> PageResult {
    let filter = visit.list_query(PART, &[])?;
    let integrations = list_integrations(visit.by_in(&name).await?, filter).await?.0;
    let filter = query(&[("limit", PART), ("cursor", visit.query.get("agents"))])?;
    let agents = list_agents(visit.by_in(&name).await?, filter).await?.0;
    let cursor = agents.next_cursor.as_ref();
    let more_agents = cursor.map(|cursor| visit.tab("agents", cursor));
    visit.show(&OrganisationPage { visit: &visit, name: &name, integrations, agents, more_agents })
}

// Sessions of people signed in to the console.

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

    fn is_of(&self, other: &Self) -> bool {
        (&self.issuer, &self.subject, &self.organization_id)
            == (&other.issuer, &other.subject, &other.organization_id)
    }
}

/// Lists the sessions, those of each person together.
pub(crate) async fn list_sessions(visit: Visit) -> PageResult {
    let filter = visit.list_query(PART, &[])?;
    let Json(found) = sessions::list_sessions(visit.by()?, filter).await?;
    visit.show(&SessionsPage { visit: &visit, found })
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
    fn link_text(&self) -> &'static str {
        if self.state == "connected" { "Connect again" } else { "Connect" }
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
    visit.show(&ConnectionsPage { visit: &visit, is_of_all, found })
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
