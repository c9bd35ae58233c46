//! `initialize`, which opens a legacy session. Page: basic/lifecycle.mdx (2025-11-25).

use std::sync::Arc;

use http::StatusCode;
use lockgate_admission::spawn;
use lockgate_protocol::capabilities::{self, Offers};
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::{Era, Revision};
use lockgate_protocol::{code, write};
use lockgate_proxy::Gateway;
use lockgate_proxy::authorize::admit;
use lockgate_proxy::catalog::View;
use lockgate_proxy::dispatch::join_instructions;
use lockgate_proxy::rescue::RequestError;
use lockgate_proxy::server_operation::ServerOperation;
use lockgate_proxy::snapshot::Snapshot;
use lockgate_proxy::transport::{Exchange, Reply, session_header};
use lockgate_text::json;
use lockgate_upstream::ClientSession;
use serde_json::{Value, json};

use crate::edge::Edge;
use crate::request::refuse;
use crate::session::Session;
use crate::session::portable::{self, Opening};

/// Opens a session.
pub(crate) fn initialize(
    edge: &Edge,
    snapshot: &Snapshot,
    exchange: &Exchange,
    request: &Request,
    operation: &ServerOperation,
) -> Reply {
    let gateway = &*edge.gateway;
    let id = request.id();
    if id.is_empty() {
        let problem = RequestError::new(code::INVALID_REQUEST, "`initialize` needs an id")
            .status(StatusCode::BAD_REQUEST);
        operation.refuse(&problem);
        return problem.reply(None);
    }
    let principal = exchange.principal.clone();
    let rights = snapshot.rights_of(principal.clone(), &exchange.endpoint);
    let Some(view) = gateway.view(&[], snapshot, &rights) else {
        return refuse(gateway, exchange, id, &RequestError::no_endpoint(), operation);
    };
    if let Err(problem) = admit(snapshot, &rights, Method::Initialize) {
        return refuse(gateway, exchange, id, &problem, operation);
    }
    let revision =
        lockgate_protocol::legacy::negotiate(request.param_str(Key::ProtocolVersion).as_deref());
    let declared = match read_declared(request) {
        Ok(declared) => declared,
        Err(problem) => return refuse(gateway, exchange, id, &problem, operation),
    };
    let limits = &snapshot.config.limits;
    let endpoint = &exchange.endpoint;
    let capabilities = capabilities::carried_of(declared, revision);
    let defers_loading = is_deferring(snapshot, request);
    let opening = Opening { revision, capabilities, defers_loading };
    // Without an operator's secret, no other process could resume the session.
    let secret = snapshot.config.secret.as_ref();
    let portable =
        secret.and_then(|_| portable::seal(&snapshot.sealer, &principal, endpoint, &opening));
    let owner = (principal, endpoint.clone());
    let session = match edge.sessions.open(owner, opening, portable, limits, &view) {
        Ok(session) => session,
        Err(too_many) => {
            let problem = RequestError::too_many_sessions(too_many);
            return refuse(gateway, exchange, id, &problem, operation);
        }
    };
    operation.set_protocol(revision, Some(&session.id));
    edge.name_holder(&session, snapshot);
    tell_servers(gateway, &session, &view);
    let result = write_initialize_result(snapshot, &view, request, revision);
    Reply::message(write::result(id, result.to_string().as_bytes()))
        .with_headers(session_header(&session.id))
}

/// Announces a new session to the servers that can ask its client questions.
fn tell_servers(gateway: &Gateway, session: &Arc<Session>, view: &View) {
    if let Some(single_client) = &gateway.single_client {
        single_client.declare(&session.capabilities);
        let session: Arc<dyn ClientSession> = session.clone();
        single_client.open_session(&session);
    }
    if session.interactive {
        // Started now to shorten the wait of the first list.
        for server in view.servers.values() {
            let server = Arc::clone(server);
            spawn(async move { server.wait_for_interactive(Era::Legacy).await });
        }
    }
}

/// Returns whether the client loads definitions of tools on demand.
fn is_deferring(snapshot: &Snapshot, request: &Request) -> bool {
    let client = request.param(Key::ClientInfo).unwrap_or(b"{}");
    snapshot.config.tool_search.is_deferring(client)
}

fn read_declared(request: &Request) -> Result<&[u8], RequestError> {
    if request.params().is_empty() {
        return Err(RequestError::invalid("`initialize` needs `params`"));
    }
    match request.param(Key::Capabilities) {
        Some(declared) if !declared.starts_with(b"{") => {
            Err(RequestError::invalid("`params.capabilities` must be an object"))
        }
        declared => Ok(declared.unwrap_or(b"{}")),
    }
}

fn write_initialize_result(
    snapshot: &Snapshot,
    view: &View,
    request: &Request,
    revision: Revision,
) -> Value {
    let mut capabilities = Offers::legacy_superset();
    if revision < Revision::V2025_03_26
        && let Some(all) = capabilities.as_object_mut()
    {
        all.remove("completions");
    }
    if revision == Revision::V2025_11_25 && view.offers.legacy_tasks {
        capabilities["tasks"] =
            json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    }
    capabilities::add_extensions(&mut capabilities, &view.extensions);
    let info = json::from_slice(&snapshot.info).unwrap_or(Value::Null);
    let mut result = json!({
        "protocolVersion": revision.as_str(),
        "capabilities": capabilities,
        "serverInfo": info,
    });
    let search = view.search.as_deref();
    let search = search.filter(|search| !search.is_auto || !is_deferring(snapshot, request));
    if let Some(text) = join_instructions(snapshot, view, search) {
        result["instructions"] = text.into();
    }
    result
}
