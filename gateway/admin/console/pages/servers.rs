//! Servers that the visitor may see, those that need attention first, and a page of each: its
//! state, the cause and the fix of a failure, and its tools, prompts and resources.

use super::integrations::find_integration;
use super::pins::find_pins;
use super::usage::load_usage;
use super::*;
use crate::api::integrations::list_unserved;
use crate::api::pins::Pin;
use crate::api::servers::{self, Server, connect_server, reconnect_server};
use crate::api::tools::{self, Prompt, Resource, Tool, list_prompts, list_resources};
use crate::console::diagnosis::{NextStep, say_server_state};

/// States that the list can be filtered by.
const STATES: [(&str, &str); 5] = [
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
    /// The number of servers in each of the states.
    counts: [usize; STATES.len()],
    part: ListPart<ServerRow>,
}

/// A server, or an integration without a server.
pub(crate) struct ServerRow {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) severity: Severity,
    pub(crate) state: &'static str,
    /// The fault, or a description of the state.
    pub(crate) fault: Fault,
    pub(crate) tools: usize,
    pub(crate) is_shared: bool,
    /// The first attempt to connect.
    is_connecting: bool,
}

impl ServerRow {
    fn of_server(server: &Server) -> Self {
        Self {
            name: server.name.clone(),
            address: PagePath::new(&["servers", &server.name]).into_text(),
            severity: server.severity(),
            state: say_server_state(server.state, server.fault.as_ref()),
            fault: server.describe(),
            tools: server.capabilities.tools,
            is_shared: server.organization_id.is_none(),
            is_connecting: server.state == "pending" && server.fault.is_none(),
        }
    }

    fn of_integration(integration: &Integration) -> Self {
        Self {
            name: integration.slug.clone(),
            address: integration.address(""),
            severity: integration.severity(),
            state: say_server_state(integration.state, integration.fault.as_ref()),
            fault: Fault {
                summary: format!("{} is not connected.", integration.slug),
                ..integration.describe()
            },
            tools: 0,
            is_shared: false,
            is_connecting: false,
        }
    }

    /// Returns whether it has the state of a filter, which is empty for all states.
    fn has_state(&self, state: &str) -> bool {
        state.is_empty() || self.severity.as_str() == state
    }

    pub(crate) fn needs_attention(&self) -> bool {
        self.severity <= Severity::Waiting && !self.is_connecting
    }
}

pub(crate) fn make_rows(servers: &[Server], unserved: &[Integration]) -> Vec<ServerRow> {
    let mut rows: Vec<_> = servers.iter().map(ServerRow::of_server).collect();
    rows.extend(unserved.iter().map(ServerRow::of_integration));
    rows
}

pub(crate) async fn list_servers(visit: Visit) -> PageResult {
    let search = visit.query.get("q");
    let chosen = visit.query.get("state");
    let servers = servers::list_visible(&visit.by()?, search);
    let mut unserved = load_unserved(&visit)?;
    unserved.retain(|integration| integration.slug.contains(search));
    let mut rows = make_rows(&servers, &unserved);
    let mut counts = [0; STATES.len()];
    for (count, (state, _)) in counts.iter_mut().zip(STATES) {
        *count = rows.iter().filter(|row| row.has_state(state)).count();
    }
    rows.retain(|row| row.has_state(chosen));
    rows.sort_by(|one, other| (one.severity, &one.name).cmp(&(other.severity, &other.name)));
    visit.show(&ServersPage { visit: &visit, counts, part: visit.cut(rows) })
}

/// Returns the integrations without a server, for administrators.
pub(crate) fn load_unserved(visit: &Visit) -> Result<Vec<Integration>, Problem> {
    if visit.is_admin() { Ok(list_unserved(&visit.by()?)) } else { Ok(Vec::new()) }
}

#[derive(Template)]
#[template(path = "server.html")]
struct ServerPage<'a> {
    visit: &'a Visit,
    server: &'a Server,
    next_step: NextStep,
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

/// Number of tools shown on the page of their server, and of prompts and resources.
const SHOWN_TOOLS: &str = "12";
const SHOWN_OTHERS: &str = "50";

impl Prompt {
    /// Returns the arguments, as declared by the server.
    fn list_arguments(&self) -> &[Value] {
        let arguments = self.arguments.as_ref().and_then(Value::as_array);
        arguments.map_or(&[], Vec::as_slice)
    }
}

pub(crate) async fn show_server(visit: Visit, Path(name): Path<String>) -> PageResult {
    let Json(server) = servers::show_server(visit.by()?, Path(name.clone())).await?;
    let filter = [("limit", SHOWN_TOOLS), ("server", &*name)];
    let tools = tools::list_tools(visit.by()?, query(&filter)?).await?.0.items;
    let filter = [("limit", SHOWN_OTHERS), filter[1]];
    let prompts = list_prompts(visit.by()?, query(&filter)?).await?.0;
    let resources = list_resources(visit.by()?, query(&filter)?).await?.0;
    let integration = match server.organization_id {
        Some(_) if visit.is_admin() => find_integration(&visit, &name).await?,
        _ => None,
    };
    let pins = if visit.is_admin() { find_pins(&visit, &name).await? } else { (0, None) };
    // Without it, the page shows the rest.
    let usage = if visit.is_admin() { load_usage(&visit, &[filter[1]]).await.ok() } else { None };
    visit.show(&ServerPage {
        next_step: server.next_step(visit.is_operator()),
        tools,
        prompts,
        resources,
        plots: plot_calls(&server.recent),
        usage,
        integration,
        pins,
        visit: &visit,
        server: &server,
    })
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

/// Returns the first line of the first of these texts.
fn first_line<'a>(texts: &[Option<&'a str>]) -> &'a str {
    let text = texts.iter().flatten().next();
    text.and_then(|text| text.lines().next()).unwrap_or("")
}

pub(crate) async fn list_tools(visit: Visit) -> PageResult {
    let server = visit.query.get("server");
    let filter = visit.list_query(PART, &[("server", server)])?;
    let found = tools::list_tools(visit.by()?, filter).await?.0;
    visit.show(&ToolsPage { visit: &visit, server, found })
}
