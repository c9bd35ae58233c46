//! Requests and notifications in a session. Pages: basic/lifecycle.mdx, basic/utilities
//! (2025-11-25).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::StreamExt;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use lockgate_protocol::{code, write};
use lockgate_proxy::Gateway;
use lockgate_proxy::context::{LegacySession, RequestContext, make_request};
use lockgate_proxy::directory::About;
use lockgate_proxy::dispatch::{self, Answered};
use lockgate_proxy::rescue::RequestError;
use lockgate_proxy::rights::CallerRights;
use lockgate_proxy::search;
use lockgate_proxy::server_operation::{self, ServerOperation, trace_of_exchange};
use lockgate_proxy::snapshot::Snapshot;
use lockgate_proxy::transport::{Exchange, Reply, Text};
use lockgate_text::json;
use lockgate_upstream::{ClientSession, LogLevel};
use serde_json::{Value, json};

use crate::call::run_call;
use crate::session::{Running, Session};
use crate::stream::{check_version, silence};
use crate::subscribe::{subscribe, unsubscribe};

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
        return gateway.refuse(&problem, exchange, known_id(&request));
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
    match dispatch::answer_request(gateway, context).await {
        Answered::Reply(reply) => reply,
        Answered::Call(call) => run_call(gateway, session, call, running).await,
    }
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
        let answer = gateway.forward(Box::new(context.instead(request))).await;
        let text = answer.ok()?.into_bytes();
        let mut whole: Value = json::from_slice(&text).ok()?;
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

/// Returns the id of a request; notifications have none.
pub(crate) fn known_id(request: &Request) -> Option<&[u8]> {
    if request.id().is_empty() { None } else { Some(request.id()) }
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
    // The session's owner, with the rights of this request's own credential.
    let rights = snapshot.rights_of(exchange.principal.clone(), &session.endpoint);
    // Registered first, so that the client can also cancel the wait for servers.
    let mut running = session.run(request.id_bytes());
    tokio::select! {
        biased;
        () = await_lists(gateway, &snapshot, session, &rights, &request) => {}
        () = running.cancelled() => return Err(Box::new(silence())),
    }
    let Some(view) = session.view(gateway, &snapshot, &rights) else {
        let problem = RequestError::no_endpoint();
        let id = request.id();
        return Err(Box::new(refuse(gateway, exchange, id, &problem, &operation)));
    };
    let mut context = Box::new(RequestContext {
        view,
        transport: exchange.transport,
        caller: session.caller(snapshot.assertion(&rights.principal)),
        rights,
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
pub(crate) fn refuse(
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
/// servers' offers to such clients; also for changes of the client's own lists. Returns immediately
/// once all are known.
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
        if let Some(view) = gateway.view(&[], snapshot, rights) {
            let directory = &gateway.directory;
            let organisation = caller.organisation();
            let wait =
                directory.wait_for_interactive(organisation, &view.servers, Era::Legacy, deadline);
            // Boxed because it is rare, to keep the future of a request small.
            Box::pin(wait).await;
        }
        session.interactive_awaited.store(true, Ordering::Relaxed);
    }
    let own = session.own_clients();
    if !own.is_empty() {
        // Boxed, as above.
        Box::pin(gateway.settle_own_lists(&own, request, snapshot, rights)).await;
    }
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
