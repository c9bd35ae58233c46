//! Overview: problems that need attention, the state of the servers, and first steps for new users.

use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream::{empty, once, select};
use lockgate_text::date;

use super::approvals::load_approvals;
use super::pins::find_pins;
use super::servers::{count_states, load_unserved};
use super::usage::load_usage;
use super::*;
use crate::api::events;
use crate::api::keys::{ApiKey, list_visible};
use crate::api::servers::{self, Figures, Server, show_figures};
use crate::console::sessions::Visitor;
use crate::console::sign_in::SIGNED_OUT;
use crate::console::visit::ConsoleState;

/// Maximum number of problems of one kind that are listed.
const MAX_SHOWN: usize = 16;
/// Time before its expiry at which a key is listed.
const KEY_NOTICE: Duration = Duration::from_secs(14 * 86_400);

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage<'a> {
    visit: &'a Visit,
    counts: Vec<(Severity, usize)>,
    matters: Vec<Matter>,
    server_count: usize,
    tool_count: usize,
    now: Figures,
    /// Empty before the first call.
    plots: Vec<Plot>,
    /// The last 24 hours, for administrators; without calls or states, nothing is shown.
    usage: Option<Usage>,
    /// Steps before the first agent works; empty once all are done.
    steps: Vec<Step>,
    snippets: Vec<Snippet>,
}

struct Step {
    title: &'static str,
    detail: &'static str,
    /// `None` if only operators know.
    is_done: Option<bool>,
    /// The configuration of clients is shown with it.
    has_snippets: bool,
    /// The address and the label of the link.
    link: Option<(&'static str, &'static str)>,
}

impl Step {
    fn severity(&self) -> Severity {
        if self.is_done == Some(true) { Severity::Good } else { Severity::Waiting }
    }

    fn progress(&self) -> &'static str {
        match self.is_done {
            Some(true) => "done",
            Some(false) => "to do",
            None => "",
        }
    }
}

impl Figures {
    /// Returns the calls and failures of the current and the previous step.
    fn last_minute(&self) -> (u64, u64) {
        let mut calls = 0;
        let mut failed = 0;
        for step in self.recent.iter().rev().take(2) {
            calls += step.calls;
            failed += step.failed;
        }
        (calls, failed)
    }
}

/// A problem that needs attention.
struct Matter {
    severity: Severity,
    title: String,
    /// The server stage that failed; empty for other problems.
    stage: String,
    detail: String,
    /// The start of a server's failure; empty for other problems.
    since: String,
    address: String,
    action: &'static str,
}

impl Matter {
    /// Creates a problem other than the failure of a server.
    fn new(title: String, detail: String, address: &str, action: &'static str) -> Self {
        Self {
            severity: Severity::Waiting,
            stage: String::new(),
            since: String::new(),
            address: address.to_owned(),
            title,
            detail,
            action,
        }
    }

    fn of_server(server: &Server) -> Self {
        Self {
            severity: server.severity(),
            title: server.headline(),
            stage: server.stage().to_owned(),
            detail: format!("{} {}", server.cause(), server.advice()),
            since: server.failing_since().to_owned(),
            address: PagePath::new(&["servers", &server.name]).into_text(),
            action: "Fix",
        }
    }

    /// Describes an integration that has no server.
    fn of_unserved(integration: &Integration) -> Self {
        let title = format!("{} is not connected.", integration.slug);
        let address = integration.address("");
        let severity = integration.severity();
        Self { severity, ..Self::new(title, integration.cause(), &address, "Fix") }
    }
}

pub(crate) async fn show_overview(visit: Visit) -> PageResult {
    let servers = servers::list_visible(&visit.by()?, "");
    let unserved = load_unserved(&visit)?;
    let mut matters = Vec::new();
    add_approvals(&mut matters, &visit).await?;
    add_servers(&mut matters, &servers, &unserved, visit.is_operator());
    if visit.is_admin() {
        add_changed(&mut matters, &visit).await?;
        add_keys(&mut matters, &list_visible(&visit.by()?));
    }
    let Json(now) = show_figures(visit.by()?).await;
    let mut usage = None;
    // Partial updates leave the day as it is.
    if visit.is_admin() && !visit.is_script() {
        usage = load_usage(&visit, &[]).await.ok();
    }
    let agents = list_agents(visit.by()?, query(&[("limit", "1")])?).await;
    let has_agent = agents.is_ok_and(|Json(agents)| agents.total > 0);
    let steps = list_steps(&visit, &servers, has_agent);
    show(&OverviewPage {
        snippets: visit.make_snippets("lockgate", &visit.me.endpoint, None),
        plots: plot_calls(&now.recent),
        now,
        usage,
        counts: count_states(&servers, &unserved),
        matters,
        server_count: servers.len() + unserved.len(),
        tool_count: servers.iter().map(|server| server.capabilities.tools).sum(),
        visit: &visit,
        steps,
    })
}

/// Returns the first steps; empty once all are done.
fn list_steps(visit: &Visit, servers: &[Server], has_agent: bool) -> Vec<Step> {
    let mut others = servers.iter().filter(|one| one.transport != Some("builtin"));
    let has_server = others.any(|one| one.state == "connected" || one.state == "resting");
    let has_calls = servers.iter().any(|one| one.metrics.as_ref().is_some_and(|m| m.calls > 0));
    // The calls of shared servers are counted for operators only.
    let is_shared = servers.iter().all(|one| one.organization_id.is_none());
    let is_unknown = has_server && is_shared && !visit.is_operator();
    if has_server && (has_calls || is_unknown) && has_agent {
        return Vec::new();
    }
    let add = ("/console/integrations/new", "Add a server");
    vec![
        Step {
            title: "Add a server",
            detail: "Connect an MCP server by its address. Its tools appear here.",
            is_done: Some(has_server),
            has_snippets: false,
            link: visit.is_admin().then_some(add),
        },
        Step {
            title: "Connect a client",
            detail: "Copy the configuration for your MCP client, then call a tool from it.",
            is_done: (!is_unknown || has_calls).then_some(has_calls),
            has_snippets: true,
            link: visit.creates_keys().then_some(("/console/keys/new", "Create a key")),
        },
        Step {
            title: "Create an agent",
            detail: "Give an agent an endpoint of its own, with the servers that it needs.",
            is_done: Some(has_agent),
            has_snippets: false,
            link: Some(("/console/agents#new", "Create an agent")),
        },
    ]
}

/// Adds failed servers: a line for each server that the visitor can repair, and a single line for
/// servers that only an operator can repair.
fn add_servers(
    matters: &mut Vec<Matter>,
    servers: &[Server],
    unserved: &[Integration],
    is_operator: bool,
) {
    let mut broken = Vec::new();
    let mut shared = 0;
    for server in servers {
        let is_connecting = server.state == "pending" && server.fault.is_none();
        if server.severity() > Severity::Waiting || is_connecting {
            continue;
        }
        if is_operator || server.organization_id.is_some() {
            broken.push(Matter::of_server(server));
        } else {
            shared += 1;
        }
    }
    let unserved = unserved.iter().filter(|one| one.severity() <= Severity::Waiting);
    broken.extend(unserved.map(Matter::of_unserved));
    broken.sort_by_key(|matter| matter.severity);
    let more = broken.len().saturating_sub(MAX_SHOWN);
    matters.extend(broken.into_iter().take(MAX_SHOWN));
    let rests = [(more, "more", ""), (shared, "shared", "Only an operator can repair them.")];
    for (count, which, detail) in rests {
        if count > 0 {
            let noun = if count == 1 { "server is" } else { "servers are" };
            matters.push(Matter {
                severity: Severity::Bad,
                ..Matter::new(
                    format!("{count} {which} {noun} failing."),
                    detail.to_owned(),
                    "/console/servers?state=bad",
                    "Show failing servers",
                )
            });
        }
    }
}

async fn add_approvals(matters: &mut Vec<Matter>, visit: &Visit) -> Result<(), Problem> {
    let waiting = load_approvals(visit).await?;
    if let Some(first) = waiting.first() {
        let count = waiting.len();
        let noun = if count == 1 { "call waits" } else { "calls wait" };
        matters.push(Matter::new(
            format!("{count} {noun} for your approval."),
            format!(
                "{} calls {} at {}. Expires in {} min.",
                first.caller_text(),
                first.tool,
                first.server,
                first.minutes_left()
            ),
            "/console/approvals",
            "Decide",
        ));
    }
    Ok(())
}

async fn add_changed(matters: &mut Vec<Matter>, visit: &Visit) -> Result<(), Problem> {
    let (total, first) = find_pins(visit, "").await?;
    if let Some(first) = first {
        let noun = if total == 1 { "tool" } else { "tools" };
        matters.push(Matter::new(
            format!("{total} {noun} changed or not approved."),
            format!("{} {}. {}", first.name, first.standing_text(), first.effect()),
            "/console/pins",
            "Review",
        ));
    }
    Ok(())
}

fn add_keys(matters: &mut Vec<Matter>, keys: &[ApiKey]) {
    let soon = date::of_time(SystemTime::now() + KEY_NOTICE);
    let ending = keys.iter().filter(|key| key.state == "active" && key.ends_before(&soon));
    for key in ending.take(MAX_SHOWN) {
        matters.push(Matter::new(
            format!("The key {} expires soon.", key.name),
            format!("It expires on {}.", key.expires_at.as_deref().unwrap_or("")),
            "/console/keys",
            "Open keys",
        ));
    }
}

// Live updates of open pages, from the events of the API. On an event, a page requests its own
// content again. The stream ends with the visitor's session, with an event that reloads the page.

/// Reloads the page of a running call.
const CALL_CHANGED: Bytes = Bytes::from_static(b"event: called\ndata: {}\n\n");

/// Streams the events that the visitor may receive, and with `call` changes of that call.
pub(crate) async fn follow_events(
    State(console): State<Arc<ConsoleState>>,
    Extension(visitor): Extension<Visitor>,
    Extension(visit): Extension<Visit>,
) -> Response {
    let owner = console.sessions.form_token(&visitor);
    let changes = match console.results.find(&owner, visit.query.get("call")) {
        Some(Kept::Call(call)) => call.changes().left_stream(),
        _ => empty().right_stream(),
    };
    let (head, events) = open_events(&visit).await.into_response().into_parts();
    if head.status != StatusCode::OK {
        return Response::from_parts(head, events);
    }
    let sessions = Arc::clone(&console.sessions);
    let leaver = visitor.clone();
    let end = Box::pin(async move { sessions.wait_for_end(&leaver).await });
    let sessions = Arc::clone(&console.sessions);
    let last = once(async move { sessions.has_ended(&visitor).then_some(SIGNED_OUT) });
    let last = last.filter_map(|words| async move { words.map(|words| Ok(Bytes::from(words))) });
    // The stream ends with the events of the API.
    let events = events.into_data_stream().map(Some).chain(once(async { None }));
    let changes = changes.map(|()| Some(Ok(CALL_CHANGED)));
    let events = select(events, changes).take_while(|event| ready(event.is_some()));
    let events = events.filter_map(ready).take_until(end);
    Response::from_parts(head, Body::from_stream(events.chain(last)))
}

async fn open_events(visit: &Visit) -> Result<impl IntoResponse, Problem> {
    let names = ["decisions", "position"];
    let position = query(&names.map(|name| (name, visit.query.get(name))))?;
    events::follow_events(visit.by()?, visit.headers.clone(), position).await
}
