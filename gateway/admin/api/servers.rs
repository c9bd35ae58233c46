//! Servers in a caller's view. Operators see all servers, with details of errors; other callers see
//! permitted servers, with the reason only.
//! Recent calls are summed over all servers with statistics that the caller may see.

use std::time::SystemTime;

use lockgate_telemetry::RecentCalls;
use lockgate_text::date;
use lockgate_upstream::{ListKind, Upstream, UpstreamState as ServerState};

use super::figures::{RecentStep, ServerMetrics, may_see_figures, rank_ms, rank_number};
use super::operation::*;
use super::state::Switch;
use crate::fault::Fault;

types! {
/// A server.
output pub(crate) struct Server {
    pub(crate) name: String,
    /// Its organisation; absent for servers of the configuration, which all organisations share.
    pub(crate) organization_id: Option<String>,
    /// `pending`, `connected`, `unresponsive`, `needs-auth`, `failed`, `disabled` or
    /// `resting`.
    pub(crate) state: &'static str,
    /// The stage that failed: `start`, `dns`, `connect`, `tls`, `http`, `auth`, `handshake`,
    /// `list`, `run` or `call`.
    pub(crate) stage: Option<String>,
    /// The cause of this state.
    pub(crate) reason: String,
    /// The failure, its cause and the fix; absent if the server works. A connected server has a
    /// fault if its lists or at least half of its recent calls fail.
    pub(crate) fault: Option<Fault>,
    /// The start of this state (RFC 3339).
    pub(crate) since: String,
    /// The time it was last connected (RFC 3339); for a connected server, its last message.
    pub(crate) last_good: Option<String>,
    /// The time of its last message (RFC 3339), except for built-in servers.
    pub(crate) last_heard: Option<String>,
    /// `stdio`, `http`, `sse` or `builtin`, once it has connected.
    pub(crate) transport: Option<&'static str>,
    /// The negotiated revision of MCP.
    pub(crate) revision: Option<&'static str>,
    pub(crate) capabilities: Capabilities,
    /// Restarts and reconnections.
    pub(crate) restarts: u64,
    /// Outcomes of the calls of its tools, for operators and for members of its organisation.
    pub(crate) metrics: Option<ServerMetrics>,
    /// Calls that ended in the last half hour, in steps of 30 s from the oldest to the current one.
    /// Only in the response for a single server, if its figures are shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) recent: Vec<RecentStep>,
    /// For operators: the original error of the server, the end of its standard error, and its load
    /// and limits.
    pub(crate) operator: Option<Internals>,
    /// Set if this was a dry run: `state` and `reason` are those after the change.
    pub(crate) dry_run: bool,
}

/// The number of items that a server offers.
output pub(crate) struct Capabilities {
    pub(crate) tools: usize,
    pub(crate) prompts: usize,
    pub(crate) resources: usize,
}

/// Details for operators only.
output pub(crate) struct Internals {
    pub(crate) trouble: Option<String>,
    pub(crate) stderr: Vec<String>,
    /// Items omitted from its lists, with the reasons.
    pub(crate) omitted: Vec<String>,
    #[cfg_attr(test, schema(value_type = Option<Object>))]
    pub(crate) load: Option<Value>,
}
}

impl Server {
    pub(crate) fn new(state: &ApiState, caller: &Caller, server: &dyn Upstream) -> Self {
        let status = server.status();
        let catalog = server.catalog();
        let peer = status.peer.as_ref();
        let sees_figures = may_see_figures(caller, server);
        let is_operator = caller.role == Role::Operator;
        let fault = Fault::find(&state.gateway, server, is_operator, sees_figures);
        // The time changes with every call, including those of other callers.
        let last_heard = if sees_figures { last_heard(server) } else { None };
        let metrics = if sees_figures { state.gateway.figures_of(server) } else { None };
        let metrics = metrics.map(ServerMetrics::from);
        let organization_id = server.organisation().map(ToString::to_string);
        let operator = is_operator.then(|| Internals::new(server));
        let stage = fault.as_ref().map(|fault| fault.stage.clone());
        let last_good = match status.state {
            ServerState::Connected => {
                Some(last_heard.clone().unwrap_or_else(|| status.since_text()))
            }
            _ => status.last_good.map(date::of_time),
        };
        Self {
            name: server.slug().to_owned(),
            organization_id,
            state: status.state.as_str(),
            stage,
            reason: status.reason(),
            fault,
            since: status.since_text(),
            last_good,
            last_heard,
            transport: peer.map(|peer| peer.transport),
            revision: peer.map(|peer| peer.revision.as_str()),
            capabilities: Capabilities {
                tools: catalog.items(ListKind::Tools).len(),
                prompts: catalog.items(ListKind::Prompts).len(),
                resources: catalog.items(ListKind::Resources).len(),
            },
            restarts: status.restarts,
            metrics,
            recent: Vec::new(),
            operator,
            dry_run: false,
        }
    }

    /// Returns the server as a switch would leave it.
    pub(crate) fn after_trial(mut self, to: Switch) -> Self {
        self.dry_run = true;
        let after = match to {
            Switch::Disconnect => ServerState::Disabled,
            // A server that is connected, or about to be, stays as it is.
            Switch::Connect if matches!(self.state, "connected" | "unresponsive" | "pending") => {
                return self;
            }
            Switch::Connect | Switch::Reconnect => ServerState::Pending,
        };
        self.state = after.as_str();
        self.reason = format!("a dry run: it would be {}", to.as_str());
        self.stage = None;
        self.fault = None;
        self
    }

    /// Returns the rank for a sort order other than by name. It is empty for statistics that the
    /// caller may not see.
    fn rank(&self, sort: ServerSort) -> Option<String> {
        Some(match (sort, &self.metrics) {
            (ServerSort::Name, _) => return None,
            (ServerSort::State, _) => self.state.to_owned(),
            (ServerSort::Since, _) => self.since.clone(),
            (_, None) => String::new(),
            (ServerSort::Calls, Some(metrics)) => rank_number(metrics.calls),
            (ServerSort::Errors, Some(metrics)) => rank_number(metrics.errors.values().sum()),
            (ServerSort::P95, Some(metrics)) => rank_ms(metrics.p95_ms),
        })
    }
}

impl Internals {
    fn new(server: &dyn Upstream) -> Self {
        let status = server.status();
        let mut trouble = None;
        let mut stderr = server.stderr();
        if let Some(found) = &status.trouble {
            trouble = Some(found.to_string());
            stderr.clone_from(&found.stderr);
        }
        let load = server.stats().map(|stats| stats.json());
        Self { trouble, stderr, omitted: server.catalog().omitted.clone(), load }
    }
}

fn last_heard(server: &dyn Upstream) -> Option<String> {
    let at = SystemTime::now().checked_sub(server.stats()?.silent?)?;
    Some(date::of_time(at))
}

types! {
filter pub(crate) struct ServersQuery {
    /// Part of the name.
    search: Option<String> max 256,
    /// Only servers in this state.
    state: Option<StateName>,
    /// Default `name`.
    sort: Option<ServerSort>,
    /// `desc`: in descending order.
    order: Option<SortOrder>,
}
}

lockgate_text::words! {
    /// States of servers.
    #[derive(Deserialize)]
    #[cfg_attr(test, derive(utoipa::ToSchema), schema(as = ServerState))]
    #[serde(rename_all = "kebab-case")]
    pub(crate) enum StateName {
        Pending = "pending",
        Connected = "connected",
        Unresponsive = "unresponsive",
        NeedsAuth = "needs-auth",
        Failed = "failed",
        Disabled = "disabled",
        Resting = "resting",
    }
}

types! {
/// The sort key of servers.
choice pub(crate) enum ServerSort {
    Name,
    State,
    Since,
    Calls,
    Errors,
    P95,
}
}

impl Paged<ServersQuery> {
    fn cut(self, all: Vec<Server>) -> Result<Page<Server>> {
        let sort = self.filter.sort.unwrap_or(ServerSort::Name);
        let is_descending = SortOrder::is_descending(self.filter.order);
        let search = self.filter.search.as_deref();
        self.part.cut_sorted(search, all, |one| &one.name, is_descending, |one| one.rank(sort))
    }
}

/// Returns the servers that a caller may see: for operators those of the configuration and the
/// organisation, for administrators those of the organisation and those that policy permits, for
/// others the latter.
pub(crate) fn visible_servers(state: &ApiState, caller: &Caller) -> Vec<Arc<dyn Upstream>> {
    let gateway = &state.gateway;
    if caller.role == Role::Operator {
        return gateway.servers_for(caller.organisation());
    }
    let mut servers = gateway.visible_servers(&caller.principal);
    if caller.role == Role::Admin {
        for server in gateway.servers_for(caller.organisation()) {
            let is_known = servers.iter().any(|known| known.slug() == server.slug());
            if server.organisation().is_some() && !is_known {
                servers.push(server);
            }
        }
    }
    servers
}

fn find_server(by: &Context, name: &str) -> Result<Arc<dyn Upstream>> {
    let mut servers = visible_servers(&by.state, &by.caller).into_iter();
    servers.find(|server| server.slug() == name).ok_or_else(unknown_server)
}

pub(crate) fn unknown_server() -> Problem {
    let detail = "there is no such server: check its name in the list of servers";
    Problem::not_found("SERVER_NOT_FOUND", detail)
}

/// Returns all servers that the caller may see, with this part in their names.
pub(crate) fn list_visible(by: &By<User>, search: &str) -> Vec<Server> {
    let mut servers = visible_servers(&by.state, &by.caller);
    servers.retain(|server| server.slug().contains(search));
    servers.sort_by(|one, other| one.slug().cmp(other.slug()));
    servers.iter().map(|server| Server::new(&by.state, &by.caller, &**server)).collect()
}

pub(crate) async fn list_servers(
    by: By<User>,
    Query(query): Query<Paged<ServersQuery>>,
) -> Result<Reply<Page<Server>>> {
    let registry = by.state.operations.registry();
    let version = registry.map(|registry| registry.set_version(by.caller.organisation()));
    let mut all = list_visible(&by, "");
    if let Some(state) = query.filter.state {
        all.retain(|server| server.state == state.as_str());
    }
    Ok(Reply::new(query.cut(all)?, version))
}

pub(crate) async fn show_server(by: By<User>, Path(name): Path<String>) -> Result<Json<Server>> {
    let server = find_server(&by, &name)?;
    let mut shown = Server::new(&by.state, &by.caller, &*server);
    if may_see_figures(&by.caller, &*server) {
        let recent = by.state.gateway.recent_calls_of(&*server);
        shown.recent = recent.into_iter().map(RecentStep::from).collect();
    }
    Ok(Json(shown))
}

types! {
/// Outcomes of recent calls at several servers.
output pub(crate) struct Figures {
    /// The number of servers counted.
    pub(crate) servers: usize,
    /// Calls that ended in the last half hour, in steps of 30 s from the oldest to the current one.
    /// Empty before the first call.
    pub(crate) recent: Vec<RecentStep>,
}
}

pub(crate) async fn show_figures(by: By<User>) -> Json<Figures> {
    let mut servers = visible_servers(&by.state, &by.caller);
    servers.retain(|server| may_see_figures(&by.caller, &**server));
    let counted = servers.iter().map(|server| by.state.gateway.recent_calls_of(&**server));
    let recent = add_up(counted.collect()).into_iter().map(RecentStep::from);
    Json(Figures { servers: servers.len(), recent: recent.collect() })
}

/// Sums the steps of several servers. All lists end with the current step.
fn add_up(all: Vec<Vec<RecentCalls>>) -> Vec<RecentCalls> {
    let longest = all.iter().map(Vec::len).max().unwrap_or(0);
    let mut sums = vec![RecentCalls::default(); longest];
    for steps in all {
        let first = longest - steps.len();
        for (sum, step) in sums[first..].iter_mut().zip(steps) {
            *sum += step;
        }
    }
    sums
}

// Connecting and disconnecting servers: configured servers by operators, servers of an organisation
// also by its administrators. A switch is local to this gateway, until the next switch, a change of
// the server's configuration or integration, or a restart.

pub(crate) async fn connect_server(
    by: By<Admin>,
    Path(name): Path<String>,
) -> Result<Json<Server>> {
    switch(by, &name, |_| Ok(Switch::Connect)).await
}

pub(crate) async fn disconnect_server(
    by: By<Admin>,
    Path(name): Path<String>,
) -> Result<Json<Server>> {
    switch(by, &name, |_| Ok(Switch::Disconnect)).await
}

pub(crate) async fn toggle_server(by: By<Admin>, Path(name): Path<String>) -> Result<Json<Server>> {
    switch(by, &name, |state| match state {
        ServerState::Disabled => Ok(Switch::Connect),
        _ => Ok(Switch::Disconnect),
    })
    .await
}

pub(crate) async fn reconnect_server(
    by: By<Admin>,
    Path(name): Path<String>,
) -> Result<Json<Server>> {
    switch(by, &name, |state| match state {
        ServerState::Disabled => {
            let detail = "this server is disconnected: POST …/connect connects it";
            Err(Problem::new(StatusCode::CONFLICT, "SERVER_DISCONNECTED", detail))
        }
        _ => Ok(Switch::Reconnect),
    })
    .await
}

/// Checks that the caller may change the state of a visible server: operators may, and
/// administrators of the server's organisation.
pub(crate) fn require_control(caller: &Caller, server: &dyn Upstream) -> Result<()> {
    let is_own = matches!(server.organisation(), Some(own) if **own == *caller.organisation());
    if caller.role == Role::Operator || is_own && caller.role == Role::Admin {
        return Ok(());
    }
    let detail = "this server is shared by all organisations: ask an operator";
    Err(Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail))
}

/// Switches a server, as chosen for its state.
async fn switch(
    by: By<Admin>,
    name: &str,
    choose: impl FnOnce(ServerState) -> Result<Switch>,
) -> Result<Json<Server>> {
    let server = find_server(&by, name)?;
    require_control(&by.caller, &*server)?;
    let to = choose(server.status().state)?;
    let own = server.organisation().cloned();
    if own.is_none() && !by.state.operations.can_switch(name) {
        let detail = "this server is built in: it has no connection";
        return Err(Problem::new(StatusCode::CONFLICT, "SERVER_BUILT_IN", detail));
    }
    if by.options.dry_run {
        return Ok(Json(Server::new(&by.state, &by.caller, &*server).after_trial(to)));
    }
    by.record(make_switch(Arc::clone(&by.state), own.clone(), name.to_owned(), to)).await?;
    if let Some(organisation) = &own {
        by.state.operations.serve_changes(organisation).await;
    }
    let server = find_server(&by, name)?;
    Ok(Json(Server::new(&by.state, &by.caller, &*server)))
}

async fn make_switch(
    state: Arc<ApiState>,
    own: Option<Arc<str>>,
    name: String,
    to: Switch,
) -> Result<((), Option<ChangeRecord>)> {
    let before = describe_state(&state, own.as_deref(), &name);
    if !state.operations.switch(own.as_deref(), &name, to) {
        // The configuration or the organisation has changed in the meantime.
        return Err(unknown_server());
    }
    let after = describe_state(&state, own.as_deref(), &name);
    let action = match to {
        Switch::Connect => "connect server",
        Switch::Disconnect => "disconnect server",
        Switch::Reconnect => "reconnect server",
    };
    let organisation = own.as_deref().map(str::to_owned);
    Ok(((), Some(ChangeRecord { action, organisation, before, after })))
}

/// Describes a configured server, or a server of an organisation, for the record.
fn describe_state(state: &ApiState, own: Option<&str>, name: &str) -> Option<String> {
    let servers = state.gateway.directory.servers_of(own);
    let server = servers.into_iter().find(|server| server.slug() == name)?;
    Some(json!({"server": name, "state": server.status().state.as_str()}).to_string())
}

#[cfg(test)]
mod tests;
