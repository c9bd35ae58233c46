//! The legacy era towards clients: `initialize`, sessions, streams and batches. Pages:
//! basic/lifecycle.mdx, basic/transports.mdx (2025-11-25); basic/index.mdx (2025-03-26) for
//! batches.

mod call;
mod initialize;
mod subscribe;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::{HeaderMap, HeaderName, StatusCode};
use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::{Era, Revision};
use lockgate_protocol::write;
use lockgate_upstream::{ClientSession, LogLevel};
use serde_json::{Value, json};

use crate::context::{LegacySession, RequestContext, make_request};
use crate::directory::About;
use crate::dispatch::{self, Answered};
use crate::gateway::Gateway;
use crate::peers::{self, Peers, Sender};
use crate::rescue::RequestError;
use crate::rights::CallerRights;
use crate::search;
use crate::send_on::NOTE_TIMEOUT;
use crate::server_operation::{self, ServerOperation, trace_of_exchange};
use crate::session::{Log, Running, Session, parse_event_id};
use crate::session_stream::{self, silence};
use crate::snapshot::{Seeing, Snapshot};
use crate::transport::{
    Exchange, ExchangeKind, Reply, SESSION, Text, VERSION, header, session_header,
};

use call::run_call;
pub(crate) use initialize::initialize;
use subscribe::{subscribe, unsubscribe};

/// Handles a request or notification within a session.
pub(crate) async fn receive(
    gateway: &Arc<Gateway>,
    snapshot: Arc<Snapshot>,
    session: Arc<Session>,
    exchange: &Exchange,
    (request, operation): (Request, ServerOperation),
) -> Reply {
    operation.set_protocol(session.revision, Some(&session.id));
    if let Some(problem) = check_version(&exchange.headers) {
        operation.refuse(&problem);
        let id = if request.id().is_empty() { None } else { Some(request.id()) };
        return gateway.refuse(&problem, exchange, id);
    }
    if request.id().is_empty() {
        gateway.record_refused_notification(&request, exchange);
        take_notification(gateway, &session, &request);
        return Reply::accepted();
    }
    let id = request.id_bytes();
    match request.method {
        Method::Ping => write_done(&id, Ok(())),
        Method::SetLevel => match set_level(&session, &request) {
            Ok(()) => write_done(&id, Ok(())),
            Err(problem) => refuse(gateway, exchange, &id, &problem, &operation),
        },
        Method::Initialize => {
            let words = "the session is already initialized";
            let problem = RequestError::new(code::INVALID_REQUEST, words);
            refuse(gateway, exchange, &id, &problem, &operation)
        }
        _ if is_refused(&snapshot, &request) => {
            let problem = RequestError::method_not_found(&request.method_name());
            refuse(gateway, exchange, &id, &problem, &operation)
        }
        _ => answer(gateway, snapshot, session, exchange, (request, operation)).await,
    }
}

/// Answers a request that concerns servers.
async fn answer(
    gateway: &Arc<Gateway>,
    snapshot: Arc<Snapshot>,
    session: Arc<Session>,
    exchange: &Exchange,
    message: (Request, ServerOperation),
) -> Reply {
    let prepared = prepare_request(gateway, snapshot, &session, exchange, message).await;
    let (context, running) = match prepared {
        Ok(prepared) => prepared,
        Err(reply) => return *reply,
    };
    match context.request.method {
        Method::Subscribe => {
            // Boxed because it is rare, to keep the future of a request small.
            let subscribed = Box::pin(subscribe(gateway, &session, &context)).await;
            return write_noted(&context, subscribed);
        }
        Method::Unsubscribe => {
            return write_noted(&context, unsubscribe(gateway, &session, &context));
        }
        Method::TasksList if context.serves_tasks() => {
            let tasks = Box::pin(list_tasks(gateway, &session, &context)).await;
            return dispatch::write_reply(&context, tasks);
        }
        _ => {}
    }
    let (context, permitted) = match dispatch::answer_request(gateway, context).await {
        Answered::Reply(reply) => return reply,
        Answered::Call(context, permitted) => (context, permitted),
    };
    run_call(gateway, session, context, permitted, running).await
}

/// Concurrent polls for a list of tasks.
const MAX_CONCURRENT_POLLS: usize = 8;

/// Lists the tasks of a session, each as its server currently describes it.
async fn list_tasks(
    gateway: &Gateway,
    session: &Session,
    context: &RequestContext,
) -> Result<Text, RequestError> {
    dispatch::admit_list(gateway, context)?;
    let described = session.tasks().into_iter().map(|token| async move {
        let params = json!({"taskId": token});
        let request = make_request(Method::TasksGet, &params)?;
        let answer = dispatch::forward_nested(gateway, Box::new(context.instead(request))).await;
        let text = answer.ok()?.into_bytes();
        let mut whole: Value = serde_json::from_slice(&text).ok()?;
        match whole.get_mut("result") {
            Some(described) => Some(described.take()),
            None => {
                session.forget_task(&token);
                None
            }
        }
    });
    let mut described = futures_util::stream::iter(described).buffered(MAX_CONCURRENT_POLLS);
    let mut tasks: Vec<Value> = Vec::new();
    while let Some(task) = described.next().await {
        tasks.extend(task);
    }
    let tasks = json!({"tasks": tasks}).to_string();
    Ok(write::result(context.request.id(), tasks.as_bytes()).into())
}

/// Returns whether no endpoint serves the method of a request.
fn is_refused(snapshot: &Snapshot, request: &Request) -> bool {
    match request.method {
        Method::Unknown => !snapshot.config.methods.contains(&*request.method_name()),
        method => !method.exists_in(Era::Legacy) || method.as_str().starts_with("notifications/"),
    }
}

/// Waits for the lists that a request depends on and creates its context.
async fn prepare_request(
    gateway: &Arc<Gateway>,
    snapshot: Arc<Snapshot>,
    session: &Arc<Session>,
    exchange: &Exchange,
    (request, operation): (Request, ServerOperation),
) -> Result<(Box<RequestContext>, Running), Box<Reply>> {
    let principal = exchange.principal.clone();
    let rights = CallerRights::new(&snapshot.policy, principal.clone(), &session.endpoint);
    // Registered first, so that the client can also cancel the wait for servers.
    let mut running = session.run(request.id_bytes());
    tokio::select! {
        biased;
        () = await_lists(gateway, &snapshot, session, &rights, &request) => {}
        () = running.cancelled() => return Err(Box::new(silence())),
    }
    let own = session.own_clients();
    if !own.is_empty() {
        let seeing = Seeing { endpoint: &session.endpoint, snapshot: &snapshot, rights: &rights };
        tokio::select! {
            biased;
            // Boxed because it is rare, to keep the future of a request small.
            () = Box::pin(gateway.settle_own_lists(&own, &request, seeing)) => {}
            () = running.cancelled() => return Err(Box::new(silence())),
        }
    }
    let Some(view) = gateway.view_of_session(session, &snapshot, &rights) else {
        let problem = RequestError::no_endpoint();
        let id = request.id();
        return Err(Box::new(refuse(gateway, exchange, id, &problem, &operation)));
    };
    let mut context = Box::new(RequestContext {
        view,
        endpoint: session.endpoint.clone(),
        transport: exchange.transport,
        rights,
        caller: session.caller(snapshot.assertion(&principal)),
        // The session's owner, with the rights of this request's own credential.
        principal,
        revision: session.revision,
        session: Some(session.clone()),
        trace: trace_of_exchange(&exchange.headers),
        operation: Some(operation),
        takes_streamed_body: exchange.takes_streamed_body,
        request,
        snapshot,
    });
    if context.view.unwraps
        && let Err(problem) = search::unwrap_call(&mut context)
    {
        server_operation::refuse(context.operation.as_ref(), &problem);
        return Err(Box::new(gateway.refuse(&problem, exchange, Some(context.request.id()))));
    }
    Ok((context, running))
}

/// Writes the reply to a request with an empty result.
fn write_done(id: &[u8], result: Result<(), RequestError>) -> Reply {
    match result {
        Ok(()) => Reply::message(write::result(id, b"{}")),
        Err(problem) => problem.reply(Some(id)),
    }
}

/// Writes such a reply and records an error in the request's span.
fn write_noted(context: &RequestContext, result: Result<(), RequestError>) -> Reply {
    if let Err(problem) = &result {
        server_operation::refuse(context.operation.as_ref(), problem);
    }
    write_done(context.request.id(), result)
}

/// Refuses and records a request that no later step will record.
fn refuse(
    gateway: &Gateway,
    exchange: &Exchange,
    id: &[u8],
    problem: &RequestError,
    operation: &ServerOperation,
) -> Reply {
    operation.refuse(problem);
    gateway.refuse(problem, exchange, Some(id))
}

/// Waits for servers that are still starting and, if the client can be asked questions, for the
/// servers' offers to such clients. Returns immediately once both are known.
async fn await_lists(
    gateway: &Gateway,
    snapshot: &Snapshot,
    session: &Session,
    rights: &CallerRights,
    request: &Request,
) {
    let deadline = snapshot.config.limits.discovery_deadline;
    let caller = &rights.principal;
    gateway.settle_for(caller, || About::request(&session.endpoint, request), deadline).await;
    if session.interactive && !session.interactive_awaited.load(Ordering::Relaxed) {
        if let Some(view) = gateway.view(&session.endpoint, snapshot, rights) {
            let directory = &gateway.directory;
            let organisation = caller.organisation();
            let wait =
                directory.wait_for_interactive(organisation, &view.servers, Era::Legacy, deadline);
            // Boxed because it is rare, to keep the future of a request small.
            Box::pin(wait).await;
        }
        session.interactive_awaited.store(true, Ordering::Relaxed);
    }
}

/// Returns the error for an unknown version in a session.
fn check_version(headers: &HeaderMap) -> Option<RequestError> {
    let version = header(headers, &VERSION)?;
    if matches!(Revision::parse(version), Some(revision) if revision.era() == Era::Legacy) {
        return None;
    }
    let words = format!("unsupported protocol version in a session: {version:.64}");
    Some(RequestError::new(code::INVALID_REQUEST, words).status(StatusCode::BAD_REQUEST))
}

fn take_notification(gateway: &Gateway, session: &Session, note: &Request) {
    match note.method {
        Method::Cancelled => {
            if let Some(id) = note.param(Key::RequestId) {
                session.cancel(id);
            }
        }
        Method::RootsChanged if session.tells_roots_changes() => {
            for server in gateway.directory.servers_for(session.principal().organisation()) {
                server.tell_roots_changed(session.key());
            }
        }
        _ => {}
    }
}

fn set_level(session: &Session, request: &Request) -> Result<(), RequestError> {
    if let Some(level) = request.param_str(Key::Level)
        && let Some(level) = LogLevel::parse(&level)
    {
        session.set_level(level);
        return Ok(());
    }
    Err(RequestError::invalid("`params.level` is not a log level"))
}

/// Opens the stream for messages outside calls, or resumes the stream of a call.
pub(crate) fn open_stream(
    gateway: &Arc<Gateway>,
    snapshot: &Arc<Snapshot>,
    exchange: &Exchange,
) -> Reply {
    let named = header(&exchange.headers, &SESSION);
    if named.is_none() {
        return refuse_without_session(gateway, snapshot, exchange, "GET");
    }
    let Some(session) = gateway.session(named, exchange) else {
        return gateway.refuse_unknown_session(exchange, None, None);
    };
    if let Some(problem) = check_version(&exchange.headers) {
        return gateway.refuse(&problem, exchange, None);
    }
    let counted = matches!(exchange.kind, ExchangeKind::Listen);
    let open = if counted { Ok(None) } else { gateway.stream(&exchange.principal).map(Some) };
    let open = match open {
        Ok(open) => open,
        Err(too_many) => {
            let problem = RequestError::too_many_streams(too_many);
            let problem = problem.status(StatusCode::SERVICE_UNAVAILABLE);
            return gateway.refuse(&problem, exchange, None);
        }
    };
    gateway.end_subscriptions(&session, snapshot);
    let reader = match find_resumed(&session, &exchange.headers) {
        Some((log, after)) => log.read(after),
        // A new stream begins with the messages that earlier streams have not delivered.
        None => {
            let log = session.listen();
            log.read(log.delivered())
        }
    };
    let events = session_stream::events(gateway, &session, reader, None, open);
    Reply::events(events).with_headers(session_header(&session.id))
}

/// Returns the stream to resume and the last event that the client received. An unknown or expired
/// event is not an error: the client gets a new stream.
fn find_resumed(session: &Session, headers: &HeaderMap) -> Option<(Arc<Log>, u64)> {
    let last = header(headers, &HeaderName::from_static("last-event-id"))?;
    let (number, after) = parse_event_id(last)?;
    let log = session.log(number)?;
    if log.has_numbered(after) { Some((log, after)) } else { None }
}

/// Refuses a GET or DELETE without a session: 404 if the endpoint does not exist, otherwise 405.
fn refuse_without_session(
    gateway: &Gateway,
    snapshot: &Snapshot,
    exchange: &Exchange,
    verb: &str,
) -> Reply {
    let rights =
        CallerRights::new(&snapshot.policy, exchange.principal.clone(), &exchange.endpoint);
    if gateway.view(&exchange.endpoint, snapshot, &rights).is_none() {
        return gateway.refuse(&RequestError::no_endpoint(), exchange, None);
    }
    gateway.refuse_unknown_session(exchange, None, None);
    let words = format!("{verb} needs a session: send `initialize` by POST first");
    RequestError::new(code::INVALID_REQUEST, words)
        .status(StatusCode::METHOD_NOT_ALLOWED)
        .reply(None)
}

/// Ends the session that a request names: here, and at all other gateways if a client sent the
/// request.
pub(crate) async fn end_session(
    gateway: &Gateway,
    snapshot: &Snapshot,
    exchange: &Exchange,
) -> Reply {
    let mut others = None;
    if let Some(peers) = gateway.peers.get() {
        let own = peers.address();
        let body = Bytes::new();
        match peers::find_sender(&snapshot.sealer, own, exchange, http::Method::DELETE, body) {
            Sender::Client => others = Some(&**peers),
            Sender::Peer => {}
            Sender::Forger => {
                return gateway.refuse(&peers::refuse(Sender::Forger), exchange, None);
            }
        }
    }
    let Some(named) = header(&exchange.headers, &SESSION) else {
        return refuse_without_session(gateway, snapshot, exchange, "DELETE");
    };
    let mut is_ended = end_named_session(gateway, exchange, named);
    if let Some(others) = others
        && end_elsewhere(others, snapshot, exchange).await
        && !is_ended
    {
        // Prevents this gateway from opening the session later.
        gateway.sessions.record_ended(named);
        is_ended = true;
    }
    if is_ended {
        Reply::empty(StatusCode::NO_CONTENT)
    } else {
        gateway.refuse_unknown_session(exchange, None, None)
    }
}

/// Ends a session, even if it is not open here. Returns whether it is the caller's.
fn end_named_session(gateway: &Gateway, exchange: &Exchange, named: &str) -> bool {
    let Exchange { principal, endpoint, .. } = exchange;
    if let Some(session) = gateway.sessions.find(named, principal, endpoint) {
        gateway.sessions.record_ended(&session.id);
        gateway.end_session(&session);
        return true;
    }
    // Not opened for this, because the table may be full.
    let is_own = gateway.may_go_on_with(named, exchange);
    if is_own {
        gateway.sessions.record_ended(named);
    }
    is_own
}

/// Ends the session of a DELETE request at all other gateways. Returns whether any of them had it.
async fn end_elsewhere(peers: &dyn Peers, snapshot: &Snapshot, exchange: &Exchange) -> bool {
    let own = peers.address();
    let limit = Some(NOTE_TIMEOUT);
    let Some(message) = peers::write_message(exchange, http::Method::DELETE, Bytes::new(), limit)
    else {
        tracing::warn!(
            "session ended only at this gateway: client certificates cannot be forwarded"
        );
        return false;
    };
    let mut is_ended = false;
    let mut sent = FuturesUnordered::new();
    for address in peers.all().await {
        if address == own {
            continue;
        }
        if let Some(message) = peers::sign(&snapshot.sealer, address, message.clone()) {
            sent.push(async move { (address, peers.send(address, message).await) });
        }
    }
    while let Some((address, answer)) = sent.next().await {
        match answer {
            Ok(answer) if answer.status.is_success() => is_ended = true,
            // The session is unknown there and will not be opened.
            Ok(answer) if answer.status == StatusCode::NOT_FOUND => {}
            Ok(answer) => {
                let status = answer.status.as_u16();
                tracing::warn!(gateway = %address, status, "a session did not end at a gateway");
            }
            Err(error) => {
                tracing::warn!(gateway = %address, ?error, "a session did not end at a gateway");
            }
        }
    }
    is_ended
}
