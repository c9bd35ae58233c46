//! The modern era towards clients, in which every request describes itself. Pages: basic/index.mdx,
//! basic/versioning.mdx, basic/transports/streamable-http.mdx (2026-07-28). The order of the checks
//! is part of the behaviour.

use std::borrow::Cow;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, StatusCode};
use lockgate_authn::{Peer, Principal};
use lockgate_protocol::capabilities;
use lockgate_protocol::header as sentinel;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::key::Key;
use lockgate_protocol::meta;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::{Era, Revision};
use lockgate_protocol::scan;
use lockgate_upstream::{Caller, LogLevel};

use crate::authorize::require_tasks;
use crate::catalog::{Audience, View};
use crate::context::{RequestContext, is_passed};
use crate::directory::About;
use crate::dispatch;
use crate::gateway::Gateway;
use crate::own_lists::OwnClients;
use crate::rescue::RequestError;
use crate::server_operation::{ServerOperation, trace_of_exchange};
use crate::snapshot::Snapshot;
use crate::transport::{Exchange, METHOD, MODERN, NAME, Reply, VERSION};
use crate::{listen, search, skills};

/// Larger integers are not exact in every JSON reader.
const MAX_INTEGER: f64 = 9_007_199_254_740_992.0;

/// Handles a request of a modern client; its notifications have no effect.
pub async fn receive(
    gateway: &Arc<Gateway>,
    snapshot: Arc<Snapshot>,
    exchange: &Exchange,
    request: Request,
    operation: ServerOperation,
) -> Reply {
    if request.id().is_empty() {
        // Over HTTP a modern client cancels by closing its stream, so its notifications have no
        // effect.
        gateway.record_refused_notification(&request, exchange);
        return Reply::accepted();
    }
    let id = request.id_bytes();
    if let Some(single_client) = &gateway.single_client
        && single_client.is_new()
    {
        // Servers are started once the client's capabilities are available.
        let declared = request.meta(Key::MetaClientCapabilities).unwrap_or(b"{}");
        single_client.declare(&capabilities::carried(declared));
    }
    let deadline = snapshot.config.limits.discovery_deadline;
    let Exchange { principal, endpoint, .. } = exchange;
    gateway.settle_for(principal, || About::request(endpoint, &request), deadline).await;
    match check_request(gateway, snapshot, exchange, request) {
        Err(problem) => {
            operation.refuse(&problem);
            gateway.record_refused_request(&problem, exchange);
            problem.reply_in(&MODERN, Some(&id))
        }
        Ok(mut context) => {
            operation.set_protocol(context.revision, None);
            context.operation = Some(operation);
            if context.caller.interactive && gateway.modern_clients.has_own_lists() {
                // Boxed, like every rare branch, to keep the future of a request small.
                Box::pin(take_own_lists(gateway, &mut context)).await;
            }
            if context.request.method == Method::Listen {
                return listen::open_stream(gateway, &context);
            }
            if context.caller.interactive && context.request.method != Method::Discover {
                await_interactive(gateway, &mut context).await;
            }
            dispatch::answer_modern(gateway, context).await
        }
    }
}

/// Waits for the lists that servers offer to clients that accept questions. Free once those lists
/// have been read.
async fn await_interactive(gateway: &Gateway, context: &mut RequestContext) {
    let deadline = context.snapshot.config.limits.discovery_deadline;
    let directory = &gateway.directory;
    let organisation = context.rights.principal.organisation();
    if directory.wait_for_interactive_modern(organisation, deadline).await {
        look_again(gateway, context, &gateway.own_clients_of(context));
    }
}

/// Waits for the lists of the caller's own connections and merges them into the view.
async fn take_own_lists(gateway: &Gateway, context: &mut RequestContext) {
    let own = gateway.own_clients_of(context);
    if !own.is_empty() {
        let RequestContext { request, snapshot, rights, .. } = &*context;
        gateway.settle_own_lists(&own, request, snapshot, rights).await;
        look_again(gateway, context, &own);
    }
}

/// Replaces the view by the current view.
fn look_again(gateway: &Gateway, context: &mut RequestContext, own: &OwnClients) {
    if let Some(view) = gateway.view(own, &context.snapshot, &context.rights) {
        context.view = view;
    }
}

fn check_request(
    gateway: &Arc<Gateway>,
    snapshot: Arc<Snapshot>,
    exchange: &Exchange,
    request: Request,
) -> Result<Box<RequestContext>, RequestError> {
    let version = check_meta(&request)?;
    check_standard_headers(&exchange.headers, &request, &version)?;
    let revision = Revision::parse(&version).filter(|revision| revision.era() == Era::Modern);
    let revision = revision.ok_or_else(|| RequestError::version(&version))?;
    let rights = snapshot.rights_of(exchange.principal.clone(), &exchange.endpoint);
    let view = gateway.view(&[], &snapshot, &rights).ok_or_else(RequestError::no_endpoint)?;
    if !is_offered(request.method, &view) && !is_passed(&request, &view, &snapshot) {
        return Err(RequestError::method_not_found(&request.method_name()));
    }
    // Stdio has no headers.
    if request.method == Method::ToolsCall && view.has_param_headers && exchange.peer != Peer::Stdio
    {
        check_param_headers(&exchange.headers, &request, &view)?;
    }
    let assertion = snapshot.assertion(&rights.principal);
    let caller = Caller { assertion, ..read_caller(&rights.principal, &request)? };
    let mut context = Box::new(RequestContext {
        view,
        transport: exchange.transport,
        rights,
        revision,
        caller,
        session: None,
        trace: trace_of_exchange(&exchange.headers),
        operation: None,
        takes_streamed_body: exchange.takes_streamed_body,
        request,
        snapshot,
    });
    if context.request.method.as_str().starts_with("tasks/") {
        require_tasks(&context)?;
    }
    if context.view.unwraps {
        search::unwrap_call(&mut context)?;
    }
    Ok(context)
}

fn read_caller(principal: &Principal, request: &Request) -> Result<Caller, RequestError> {
    let log_level = request.meta(Key::MetaLogLevel).map(read_log_level).transpose()?;
    let declared = request.meta(Key::MetaClientCapabilities).unwrap_or(b"{}");
    let capabilities = capabilities::carried(declared);
    Ok(Caller {
        id: principal.caller_id(),
        assertion: None,
        interactive: capabilities::is_interactive(&capabilities),
        capabilities,
        log_level,
        session: None,
        era: Era::Modern,
    })
}

fn read_log_level(raw: &[u8]) -> Result<LogLevel, RequestError> {
    let level = scan::as_str(raw).and_then(|level| LogLevel::parse(&level));
    let words = "`_meta` io.modelcontextprotocol/logLevel is not a log level";
    level.ok_or_else(|| RequestError::invalid(words))
}

/// Checks the `_meta` members required in every modern request, and returns the protocol version.
fn check_meta(request: &Request) -> Result<Cow<'_, str>, RequestError> {
    let Some(version) = request.meta_str(Key::MetaProtocolVersion) else {
        return Err(missing_meta(meta::PROTOCOL_VERSION));
    };
    let capabilities = request.meta(Key::MetaClientCapabilities);
    let is_object = capabilities.is_some_and(|raw| raw.starts_with(b"{"));
    if is_object { Ok(version) } else { Err(missing_meta(meta::CLIENT_CAPABILITIES)) }
}

fn missing_meta(key: &str) -> RequestError {
    RequestError::invalid(format!("`params._meta` needs {key}")).status(StatusCode::BAD_REQUEST)
}

/// Checks the headers that repeat parts of the body for intermediaries. Both must agree.
fn check_standard_headers(
    headers: &HeaderMap,
    request: &Request,
    version: &str,
) -> Result<(), RequestError> {
    expect_header(headers, &VERSION, version)?;
    expect_header(headers, &METHOD, &request.method_name())?;
    let method = request.method;
    let Some(key) = method.target() else { return Ok(()) };
    if !method.has_name_header() || !method.exists_in(Era::Modern) {
        return Ok(());
    }
    let problem: Cow<'static, str> = match (request.param_str(key), single_header(headers, &NAME)?)
    {
        (None, None) => return Ok(()),
        (None, Some(_)) => {
            format!("the header Mcp-Name requires a string in `params.{key}`").into()
        }
        (Some(_), None) => "the header Mcp-Name is missing".into(),
        (Some(name), Some(value)) => match sentinel::decode_value(value) {
            Ok(decoded) if decoded == name => return Ok(()),
            Ok(_) => "the header Mcp-Name contradicts the body".into(),
            Err(_) => "the header Mcp-Name is not valid base64".into(),
        },
    };
    Err(RequestError::header(problem))
}

fn expect_header(headers: &HeaderMap, name: &HeaderName, value: &str) -> Result<(), RequestError> {
    match single_header(headers, name)? {
        None => Err(RequestError::header(format!("the header {name} is missing"))),
        Some(sent) if sent == value.as_bytes() => Ok(()),
        Some(_) => Err(RequestError::header(format!("the header {name} contradicts the body"))),
    }
}

/// Returns the trimmed value of a header that must not be repeated.
fn single_header<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a [u8]>, RequestError> {
    let first = headers.get(name).map(|v| v.as_bytes().trim_ascii());
    // The counts differ only if some header is repeated, which is rare.
    if headers.len() != headers.keys_len() && headers.get_all(name).iter().nth(1).is_some() {
        return Err(RequestError::header(format!("the header {name} is repeated")));
    }
    Ok(first)
}

/// Checks `Mcp-Param-*`: arguments that the listed definition of a tool maps to headers must be
/// repeated there with equal values.
fn check_param_headers(
    headers: &HeaderMap,
    request: &Request,
    view: &View,
) -> Result<(), RequestError> {
    let Some(name) = request.param_str(Key::Name) else { return Ok(()) };
    let Some(seen) = view.tool(&name) else { return Ok(()) };
    // Only legacy servers offer tools to some clients alone, and legacy tools use no headers.
    if seen.entry.audience != Audience::Everybody {
        return Ok(());
    }
    let Some(wanted) = &seen.entry.item.headers else { return Ok(()) };
    let arguments = request.param(Key::Arguments).unwrap_or(b"{}");
    let values = wanted.values(arguments);
    for name in wanted.shallow_names() {
        let body = values.iter().find(|(n, _)| *n == name);
        let header = HeaderName::from_bytes(name.as_bytes()).ok();
        let sent = header.map(|header| single_header(headers, &header)).transpose()?.flatten();
        match (sent, body) {
            (None, None) => {}
            (Some(sent), Some((_, body))) if is_same_value(sent, body) => {}
            (None, Some(_)) => {
                return Err(RequestError::header(format!("the header {name} is missing")));
            }
            (Some(_), _) => {
                return Err(RequestError::header(format!(
                    "the header {name} contradicts the body"
                )));
            }
        }
    }
    Ok(())
}

/// Compares a header with the body's value after decoding both; integers are compared by value.
fn is_same_value(sent: &[u8], body: &str) -> bool {
    let Ok(sent) = sentinel::decode_value(sent) else { return false };
    let Ok(body) = sentinel::decode_value(body.as_bytes()) else { return false };
    if sent == body {
        return true;
    }
    let plain = sent.bytes().all(|b| b.is_ascii_digit() || b == b'-' || b == b'.');
    match (sent.parse::<f64>(), body.parse::<f64>()) {
        (Ok(sent), Ok(body)) => {
            plain
                && sent.fract() == 0.0
                && sent.abs() < MAX_INTEGER
                && sent.total_cmp(&body).is_eq()
        }
        _ => false,
    }
}

/// Returns whether the method exists and its capability is advertised at this endpoint.
fn is_offered(method: Method, view: &View) -> bool {
    let offers = &view.offers;
    match method {
        Method::Discover | Method::Listen => true,
        Method::ToolsList | Method::ToolsCall => offers.tools,
        Method::PromptsList | Method::PromptsGet => offers.prompts,
        Method::ResourcesList | Method::TemplatesList | Method::ResourcesRead => offers.resources,
        Method::SkillsList | Method::SkillsGet | Method::DirectoryRead => {
            skills::is_offered(method, offers)
        }
        // Servers may complete without declaring the capability.
        Method::Complete => offers.completions || offers.prompts || offers.resources,
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => {
            offers.tasks || offers.legacy_tasks
        }
        _ => false,
    }
}
