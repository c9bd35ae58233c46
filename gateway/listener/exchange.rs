//! The steps of an HTTP exchange, in order: Host and Origin, path, method, headers, body, proxy,
//! response. An exchange is a single concrete future in pooled memory, without a
//! task or a copy of headers per request.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue,
};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use lockgate_admission::budget::Hold;
use lockgate_admission::future_pool::Slots;
use lockgate_authn::{KEY_SET, WELL_KNOWN};
use lockgate_protocol::write;
use lockgate_proxy::transport::{Endpoint, Exchange, ExchangeKind, Reply, ReplyBody, Transport};
use lockgate_telemetry::request::{self as telemetry, Tag};
use tower::ServiceExt;

use crate::config::Audience;
use crate::connection::ActiveRequest;
use crate::context::{ConnectionContext, ListenerResponse, Remote, Routed};
use crate::error::ListenerError;
use crate::gateway_handler::Handler;
use crate::incoming_body::IncomingBody;
use crate::origin_check;
use crate::request_headers::{accepts, check_framing, check_post};
use crate::response_body::{ResponseBody, answer_preflight, assemble_response, build_response};

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MCP_METHODS: &str = "POST, GET, DELETE, OPTIONS";
const METADATA_METHODS: &str = "GET, OPTIONS";
/// Ends of the paths of server cards (SEP-2127) and of a catalog of them.
const SERVER_CARD: &str = "/mcp/server-card";
const CATALOG: &str = "/.well-known/ai-catalog.json";

#[derive(Debug, PartialEq, Eq)]
enum Route {
    Mcp(Endpoint),
    Sse(Endpoint),
    Messages,
    /// Protected resource metadata, a key set, or a document for discovery, if the handler provides
    /// it.
    Metadata,
    Fallback,
}

/// Largest capacity of a request's header map that is reused for the response.
const MAX_KEPT_HEADERS: usize = 48;

/// The input of an exchange's future.
pub(crate) type Arrival = (Arc<ConnectionContext>, Request<Incoming>);
pub(crate) type Answer = Result<ListenerResponse, Infallible>;

/// Processes a request, and echoes the request id if the client sent a valid one.
pub(crate) async fn answer_request(slots: Arc<Slots<Arrival, Answer>>) -> Answer {
    let Some((context, request)) = slots.take_input() else { return std::future::pending().await };
    let (mut head, body) = request.into_parts();
    let version = head.version;
    let body = IncomingBody::new(body, version);
    let given = head.headers.get(&REQUEST_ID).cloned();
    let trusted = &context.listener.config.trusted_proxies;
    let (address, port) = trusted.find_client(context.remote, &head.headers);
    let arrival = telemetry::Arrival { address, port, version: name_version(version) };
    let tag = Tag::new(given.as_ref().map(HeaderValue::as_bytes), Some(arrival));
    let given = if tag.given().is_some() { given } else { None };
    context.state.set_version(version);
    let mut origin = None;
    let routed = {
        // Pinned here, because a future that is passed as an argument is stored twice.
        let routed = std::pin::pin!(route_request(&context, &mut head, body, &mut origin));
        telemetry::within(tag, routed).await
    };
    let mut response = match routed {
        Ok(Routed::Reply(reply, held)) => {
            // The memory of the request's headers is used for those of the response. hyper keeps
            // it with the connection, so that it must be small.
            let mut headers = head.headers;
            headers.clear();
            if headers.capacity() > MAX_KEPT_HEADERS {
                headers = HeaderMap::new();
            }
            build_response(headers, reply, context.listener.config.http.keep_alive, held)
        }
        Ok(Routed::Response(response)) => *response,
        Err(refusal) => refusal.answer(&context.handler).map(ResponseBody::whole),
    };
    if let Some(origin) = origin {
        origin_check::add_cors_headers(response.headers_mut(), origin);
    }
    context.handler.record_response(response.status());
    if context.listener.draining.load(Ordering::Relaxed) {
        if version == Version::HTTP_2 {
            context.state.go_away();
        } else {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
    if let Some(id) = given {
        response.headers_mut().insert(REQUEST_ID.clone(), id);
    }
    context.state.mark_answering();
    Ok(response)
}

fn name_version(version: Version) -> Option<&'static str> {
    match version {
        Version::HTTP_10 => Some("1.0"),
        Version::HTTP_11 => Some("1.1"),
        Version::HTTP_2 => Some("2"),
        _ => None,
    }
}

/// Checks a request and passes it to the service of its path. Sets the origin of the page that sent
/// it, if any.
async fn route_request(
    context: &Arc<ConnectionContext>,
    head: &mut Parts,
    body: IncomingBody,
    origin: &mut Option<HeaderValue>,
) -> Result<Routed, ListenerError> {
    let active = context.state.begin_request();
    let check = &context.listener.origin_check;
    let checked = check_framing(&head.headers)
        .and_then(|()| check.check_request(&head.uri, &head.headers, context.local, &context.host));
    let checked = match checked {
        Ok(checked) => checked,
        Err(refusal) => {
            let answer = refusal.answer(&context.handler);
            let answer = context.handler.describe_rejection(head, answer).await;
            return Ok(answer.map(ResponseBody::whole).into());
        }
    };
    let config = &context.listener.config;
    let route = match config.audience {
        Audience::Clients => parse_route(head.uri.path(), config.http.sse),
        Audience::Operators => Route::Fallback,
    };
    *origin = checked;
    let document = match route {
        Route::Metadata => context.handler.metadata(head.uri.path()),
        _ => None,
    };
    // All but calls are boxed, because a future is moved as a whole when it is started.
    let response = match (route, document) {
        (Route::Mcp(endpoint), _) => {
            return answer_mcp(context, endpoint, head, body, active).await;
        }
        (Route::Sse(endpoint), _) => {
            return Box::pin(crate::sse::open_stream(context, endpoint, head, active)).await;
        }
        (Route::Messages, _) => {
            return Box::pin(crate::sse::answer_message(context, head, body, active)).await;
        }
        (_, Some(document)) => answer_metadata(head, document)?,
        (Route::Metadata | Route::Fallback, None) => {
            *origin = None;
            Box::pin(call_fallback(context, head, body, active)).await
        }
    };
    Ok(response.into())
}

fn parse_route(path: &str, sse: bool) -> Route {
    match path {
        "/mcp" => return Route::Mcp(Endpoint::All),
        "/sse" if sse => return Route::Sse(Endpoint::All),
        "/messages" if sse => return Route::Messages,
        _ => {}
    }
    if path.starts_with(WELL_KNOWN) || path.ends_with(KEY_SET) || is_discovery(path) {
        return Route::Metadata;
    }
    let Some((endpoint, transport)) = Endpoint::split_path(path) else { return Route::Fallback };
    match transport {
        "mcp" => Route::Mcp(endpoint),
        "sse" if sse => Route::Sse(endpoint),
        _ => Route::Fallback,
    }
}

/// Returns whether a path may be that of a server card or of a catalog of them.
fn is_discovery(path: &str) -> bool {
    path.ends_with(SERVER_CARD) || path.ends_with(CATALOG)
}

async fn call_fallback(
    context: &Arc<ConnectionContext>,
    head: &mut Parts,
    body: IncomingBody,
    active: ActiveRequest,
) -> ListenerResponse {
    let (empty, ()) = Request::new(()).into_parts();
    let mut request = Request::from_parts(std::mem::replace(head, empty), body);
    request.extensions_mut().insert(Remote::of(context));
    match context.fallback.clone().oneshot(request).await {
        Ok(response) => {
            let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
            let is_events = kind.is_some_and(|kind| kind.starts_with(b"text/event-stream"));
            response.map(|body| ResponseBody::Fallback { body, active, is_events })
        }
        Err(never) => match never {},
    }
}

async fn answer_mcp(
    context: &ConnectionContext,
    endpoint: Endpoint,
    head: &mut Parts,
    body: IncomingBody,
    active: ActiveRequest,
) -> Result<Routed, ListenerError> {
    let is_post = head.method == Method::POST;
    match head.method {
        Method::POST => check_post(&head.headers)?,
        Method::GET if !accepts(&head.headers, &["text/event-stream", "text/*"]) => {
            return Err(ListenerError::Accept);
        }
        Method::GET | Method::DELETE => {}
        Method::OPTIONS => return Ok(answer_preflight(&head.headers, MCP_METHODS).into()),
        _ => return Err(ListenerError::Method { allow: MCP_METHODS }),
    }
    let mut headers = std::mem::take(&mut head.headers);
    let credentials = context.credentials(&mut headers)?;
    let principal = match context.identify(&endpoint, &credentials).await {
        Ok(principal) => principal,
        Err(reply) => return Ok(Routed::Reply(reply, Hold::none(active))),
    };
    let (body, mut held) = if is_post {
        context.read_body(body, &principal, active).await?
    } else {
        (Bytes::new(), Hold::none(active))
    };
    let kind = match head.method {
        Method::POST => ExchangeKind::Post(body),
        Method::GET => ExchangeKind::Get,
        _ => ExchangeKind::Delete,
    };
    let exchange = Exchange {
        endpoint,
        transport: Transport::Mcp,
        peer: credentials.peer,
        credentials: Some(credentials),
        principal,
        kind,
        headers,
        takes_streamed_body: is_post,
    };
    let reply = context.handler.handle(&exchange).await;
    head.headers = exchange.headers;
    let reply = if is_post { charge_reply(&context.handler, reply, &mut held) } else { reply };
    Ok(Routed::Reply(reply, held))
}

/// Charges a reply to the budget while it is being written. If memory is insufficient, an error
/// response replaces the reply.
fn charge_reply(handler: &Handler, reply: Reply, held: &mut Hold<ActiveRequest>) -> Reply {
    let ReplyBody::Message(text) = &reply.body else {
        held.shrink(usize::MAX);
        return reply;
    };
    if held.set(text.own_len()).is_ok() {
        return reply;
    }
    let refusal = ListenerError::Unread;
    refusal.record(handler);
    let body = refusal.text(write::id_of_response(text.start()));
    held.shrink(usize::MAX);
    Reply::message(body).with_status(refusal.status())
}

/// Answers with protected resource metadata or a key set, which are public.
fn answer_metadata(
    head: &Parts,
    document: String,
) -> Result<Response<ResponseBody>, ListenerError> {
    match head.method {
        Method::GET => {}
        Method::OPTIONS => return Ok(answer_preflight(&head.headers, METADATA_METHODS)),
        _ => return Err(ListenerError::Method { allow: METADATA_METHODS }),
    }
    let path = head.uri.path();
    // New keys are published at least this long before they sign.
    let lasting = if path.ends_with(KEY_SET) { "max-age=300" } else { "max-age=3600" };
    let mut headers = HeaderMap::new();
    let kind = match () {
        () if path.ends_with(SERVER_CARD) => "application/mcp-server-card+json",
        () if path.ends_with(CATALOG) => "application/ai-catalog+json",
        () => "application/json",
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(lasting));
    if is_discovery(path) {
        // Public documents, for clients in browsers too.
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    }
    Ok(assemble_response(StatusCode::OK, headers, ResponseBody::whole(document.into())))
}

#[cfg(test)]
mod tests;
