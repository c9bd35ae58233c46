//! Servers that the visitor may see, those that need attention first, and a page of each: its
//! state, the cause and the fix of a failure, and its tools, prompts and resources.

use super::integration::find_integration;
use super::pins::find_pins;
use super::tool::{load_prompts, load_resources};
use super::usage::load_usage;
use super::*;
use crate::api::integrations::list_unserved;
use crate::api::offers::{Prompt, Resource};
use crate::api::pins::Pin;
use crate::api::servers::{self, Server};
use crate::api::switch::{connect_server, reconnect_server};
use crate::api::tools::{self, Tool};
use crate::console::diagnosis::NextStep;

/// States that the list can be filtered by.
const STATES: [TabValue; 5] = [
    ("", "All"),
    ("bad", "Failing"),
    ("waiting", "Waiting"),
    ("good", "Working"),
    ("off", "Disabled"),
];

#[derive(Template)]
#[template(path = "servers.html")]
struct ServersPage<'a> {
    visit: &'a Visit,
    filters: Vec<Tab>,
    part: ListPart<Row>,
}

/// A server, or an integration without a server.
struct Row {
    name: String,
    address: String,
    severity: Severity,
    state: String,
    stage: String,
    cause: String,
    /// Empty if unknown.
    since: String,
    tools: usize,
}

impl Row {
    fn of_server(server: &Server) -> Self {
        Self {
            name: server.name.clone(),
            address: PagePath::new(&["servers", &server.name]).into_text(),
            severity: server.severity(),
            state: server.state_text().to_owned(),
            stage: server.stage().to_owned(),
            cause: server.cause(),
            since: server.failing_since().to_owned(),
            tools: server.capabilities.tools,
        }
    }

    fn of_integration(integration: &Integration) -> Self {
        Self {
            name: integration.slug.clone(),
            address: integration.address(""),
            severity: integration.severity(),
            state: integration.state_text().to_owned(),
            stage: integration.stage().to_owned(),
            cause: integration.cause(),
            since: String::new(),
            tools: 0,
        }
    }

    /// Returns whether it has the state of a filter, which is empty for all states.
    fn has_state(&self, state: &str) -> bool {
        state.is_empty() || self.severity.as_str() == state
    }
}

pub(crate) async fn list_servers(visit: Visit) -> PageResult {
    let search = visit.query.get("q");
    let chosen = visit.query.get("state");
    let servers = servers::list_visible(&visit.by()?, search);
    let mut unserved = load_unserved(&visit)?;
    unserved.retain(|integration| integration.slug.contains(search));
    let mut rows: Vec<Row> = servers.iter().map(Row::of_server).collect();
    rows.extend(unserved.iter().map(Row::of_integration));
    let mut filters = visit.tabs("state", &STATES, chosen);
    for (tab, (state, _)) in filters.iter_mut().zip(STATES) {
        tab.count = Some(rows.iter().filter(|row| row.has_state(state)).count());
    }
    rows.retain(|row| row.has_state(chosen));
    rows.sort_by(|one, other| (one.severity, &one.name).cmp(&(other.severity, &other.name)));
    show(&ServersPage { visit: &visit, filters, part: visit.cut(rows) })
}

/// Returns the integrations without a server, for administrators.
pub(crate) fn load_unserved(visit: &Visit) -> Result<Vec<Integration>, Problem> {
    if visit.is_admin() { Ok(list_unserved(&visit.by()?)) } else { Ok(Vec::new()) }
}

/// Counts the servers, and the integrations without a server, by state, the worst first.
pub(crate) fn count_states(servers: &[Server], unserved: &[Integration]) -> Vec<(Severity, usize)> {
    let all = [Severity::Bad, Severity::Waiting, Severity::Good, Severity::Off];
    let counts = all.map(|severity| {
        let of_same = servers.iter().filter(|server| server.severity() == severity);
        let others = unserved.iter().filter(|integration| integration.severity() == severity);
        (severity, of_same.count() + others.count())
    });
    counts.to_vec()
}

#[derive(Template)]
#[template(path = "server.html")]
struct ServerPage<'a> {
    visit: &'a Visit,
    server: &'a Server,
    next_step: NextStep,
    load: Vec<(&'static str, String)>,
    tools: Vec<Tool>,
    prompts: Page<Prompt>,
    resources: Page<Resource>,
    /// Empty before the first call.
    plots: Vec<Plot>,
    /// The last 24 hours, for administrators.
    usage: Option<Usage>,
    /// The integration, if the visitor's organisation added the server and the visitor may edit it.
    integration: Option<Integration>,
    /// The number of tools to review and the first of them, for visitors allowed to approve.
    pins: (usize, Option<Pin>),
}

pub(crate) async fn show_server(visit: Visit, Path(name): Path<String>) -> PageResult {
    let Json(server) = servers::show_server(visit.by()?, Path(name.clone())).await?;
    let tools = load_tools_of(&visit, &name).await?;
    let integration = match server.organization_id {
        Some(_) if visit.is_admin() => find_integration(&visit, &name).await?,
        _ => None,
    };
    let pins = if visit.is_admin() { find_pins(&visit, &name).await? } else { (0, None) };
    let usage = load_day(&visit, &name).await;
    let mut limits = Vec::new();
    if let Some(internals) = &server.operator
        && let Some(load) = &internals.load
    {
        limits = list_limits(load);
    }
    show(&ServerPage {
        next_step: server.next_step(visit.is_operator()),
        load: limits,
        tools,
        prompts: load_prompts(&visit, &name).await?,
        resources: load_resources(&visit, &name).await?,
        plots: plot_calls(&server.recent),
        usage,
        integration,
        pins,
        visit: &visit,
        server: &server,
    })
}

/// Returns the usage of the server over the day. Without it, the page shows the rest.
async fn load_day(visit: &Visit, name: &str) -> Option<Usage> {
    if !visit.is_admin() {
        return None;
    }
    load_usage(visit, &[("server", name)]).await.ok()
}

/// Returns the limits of the server and their use.
fn list_limits(load: &Value) -> Vec<(&'static str, String)> {
    let running = (read_number(load, "running"), read_number(load, "concurrency"));
    let waiting = (read_number(load, "waiting"), read_number(load, "queue"));
    let mut limits = vec![
        ("Calls running", format!("{} of {}", running.0, running.1)),
        ("Calls waiting", format!("{} of {}", waiting.0, waiting.1)),
        ("Call time limit", format!("{} s", read_number(load, "timeoutMs") / 1000)),
        ("Start time limit", format!("{} s", read_number(load, "startTimeoutMs") / 1000)),
    ];
    if let Some(Value::String(state)) = load.pointer("/breaker/state") {
        let words = match load.pointer("/breaker/why") {
            Some(Value::String(why)) => format!("{state}: {why}"),
            _ => state.clone(),
        };
        limits.push(("Breaker", words));
    }
    limits
}

fn read_number(load: &Value, name: &str) -> u64 {
    load.get(name).map_or(0, |figure| figure.as_u64().unwrap_or(0))
}

/// Ends the connection and reconnects.
pub(crate) async fn reconnect(visit: Visit, Path(name): Path<String>) -> PageResult {
    let Json(_) = reconnect_server(visit.by()?, Path(name.clone())).await?;
    follow(&visit, &name, format!("Reconnecting to {name}. This page follows."))
}

/// Connects a disconnected server.
pub(crate) async fn connect(visit: Visit, Path(name): Path<String>) -> PageResult {
    let Json(_) = connect_server(visit.by()?, Path(name.clone())).await?;
    follow(&visit, &name, format!("Connecting to {name}. This page follows."))
}

/// Redirects to the page of a server whose state changes.
fn follow(visit: &Visit, name: &str, done: String) -> PageResult {
    visit.redirect_with(PagePath::new(&["servers", name]), Severity::Waiting, done)
}

// Tools that the visitor may use.

const PART: &str = "100";

#[derive(Template)]
#[template(path = "tools.html")]
struct ToolsPage<'a> {
    visit: &'a Visit,
    /// The server to filter by; empty for all servers.
    server: &'a str,
    found: Page<Tool>,
}

impl Tool {
    /// Returns the first line of the description.
    pub(crate) fn first_line(&self) -> &str {
        let description = self.description.as_deref().unwrap_or("");
        description.lines().next().unwrap_or("")
    }

    pub(crate) fn address(&self) -> String {
        PagePath::new(&["tools", &self.name]).into_text()
    }
}

/// Number of tools shown on the page of their server.
const FIRST: &str = "12";

/// Returns the first tools of a server.
pub(crate) async fn load_tools_of(visit: &Visit, server: &str) -> Result<Vec<Tool>, Problem> {
    let filter = query(&[("limit", FIRST), ("server", server)])?;
    Ok(tools::list_tools(visit.by()?, filter).await?.0.items)
}

pub(crate) async fn list_tools(visit: Visit) -> PageResult {
    let server = visit.query.get("server");
    let filter = visit.list_query(PART, &[("server", server)])?;
    let found = tools::list_tools(visit.by()?, filter).await?.0;
    show(&ToolsPage { visit: &visit, server, found })
}
