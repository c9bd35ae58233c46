//! Connecting and disconnecting servers while the gateway runs: configured servers by operators,
//! servers of an organisation also by its administrators. A switch is local to this gateway, until
//! the next switch, a change of the server's configuration or integration, or a restart.

use lockgate_upstream::{Upstream, UpstreamState as ServerState};

use super::operation::*;
use super::servers::{Server, find_server, unknown_server};
use super::state::Switch;

/// Connects a server that was disconnected, is disabled, or has failed.
///
/// A server that is connected or connecting is not changed.
#[cfg_attr(test, utoipa::path(
    post, path = "/servers/{name}/connect", tag = "servers", params(ChangeQuery, OrganisationQuery),
    responses((status = 200, body = Server), (status = 404, description = "No such server")),
))]
pub(crate) async fn connect_server(
    by: By<Admin>,
    Path(name): Path<String>,
) -> Result<Json<Server>, Problem> {
    switch(by, &name, |_| Ok(Switch::Connect)).await
}

/// Disconnects a server until it is connected again.
///
/// Running calls are aborted. The server stays disconnected when the configuration is reloaded,
/// unless its own entry has changed, and until the gateway restarts. An integration is disconnected
/// from this gateway only: `POST /mcp-integrations/{id}/disable` disables it for all gateways.
#[cfg_attr(test, utoipa::path(
    post, path = "/servers/{name}/disconnect", tag = "servers",
    params(ChangeQuery, OrganisationQuery),
    responses((status = 200, body = Server), (status = 404, description = "No such server")),
))]
pub(crate) async fn disconnect_server(
    by: By<Admin>,
    Path(name): Path<String>,
) -> Result<Json<Server>, Problem> {
    switch(by, &name, |_| Ok(Switch::Disconnect)).await
}

/// Connects a disconnected server, and disconnects any other.
#[cfg_attr(test, utoipa::path(
    post, path = "/servers/{name}/toggle", tag = "servers", params(ChangeQuery, OrganisationQuery),
    responses((status = 200, body = Server), (status = 404, description = "No such server")),
))]
pub(crate) async fn toggle_server(
    by: By<Admin>,
    Path(name): Path<String>,
) -> Result<Json<Server>, Problem> {
    switch(by, &name, |state| match state {
        ServerState::Disabled => Ok(Switch::Connect),
        _ => Ok(Switch::Disconnect),
    })
    .await
}

/// Closes the connection to a server and reconnects.
///
/// Running calls are aborted. A disconnected server stays disconnected.
#[cfg_attr(test, utoipa::path(
    post, path = "/servers/{name}/reconnect", tag = "servers",
    params(ChangeQuery, OrganisationQuery),
    responses(
        (status = 200, body = Server), (status = 404, description = "No such server"),
        (status = 409, description = "The server is disconnected, or built in"),
    ),
))]
pub(crate) async fn reconnect_server(
    by: By<Admin>,
    Path(name): Path<String>,
) -> Result<Json<Server>, Problem> {
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
pub(crate) fn require_control(caller: &Caller, server: &dyn Upstream) -> Result<(), Problem> {
    let is_own = matches!(server.organisation(), Some(own) if **own == *caller.organisation());
    if caller.role == Role::Operator || is_own && caller.role == Role::Admin {
        return Ok(());
    }
    let detail = "this server is shared by all organisations: ask an operator";
    Err(Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail))
}

/// Switches a server, as chosen for its state.
async fn switch(
    By { state, caller, options, .. }: By<Admin>,
    name: &str,
    choose: impl FnOnce(ServerState) -> Result<Switch, Problem>,
) -> Result<Json<Server>, Problem> {
    let server = find_server(&state, &caller, name)?;
    require_control(&caller, &*server)?;
    let to = choose(server.status().state)?;
    let own = server.organisation().cloned();
    if own.is_none() && !state.operations.can_switch(name) {
        let detail = "this server is built in: it has no connection";
        return Err(Problem::new(StatusCode::CONFLICT, "SERVER_BUILT_IN", detail));
    }
    if options.dry_run {
        return Ok(Json(Server::new(&state, &caller, &*server).after_trial(to)));
    }
    let making = make_switch(Arc::clone(&state), own.clone(), name.to_owned(), to);
    make_recorded(&state, &caller.principal, making).await?;
    if let Some(organisation) = &own {
        state.operations.serve_changes(organisation).await;
    }
    let server = find_server(&state, &caller, name)?;
    Ok(Json(Server::new(&state, &caller, &*server)))
}

async fn make_switch(
    state: Arc<ApiState>,
    own: Option<Arc<str>>,
    name: String,
    to: Switch,
) -> Result<((), Option<ChangeRecord>), Problem> {
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
