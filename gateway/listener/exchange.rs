//! The steps of an HTTP exchange, in order: Host and Origin, path, method, headers, body, proxy,
//! response. An exchange is a single concrete future in pooled memory (`future_pool`), without a
//! task or a copy of headers per request.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue,
};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use lockgate_admission::budget::Hold;
use lockgate_authn::{KEY_SET, WELL_KNOWN};
use lockgate_protocol::write;
use lockgate_proxy::transport::{Endpoint, Exchange, ExchangeKind, Reply, Text, Transport};
use lockgate_telemetry::request::{Arrival, Tag};
use tower::ServiceExt;

use crate::config::Audience;
use crate::connection::ActiveRequest;
use crate::context::{ConnectionContext, ListenerResponse};
use crate::error::ListenerError;
use crate::exchange_handler::Handler;
use crate::fallback::Fallback;
use crate::incoming_body::IncomingBody;
use crate::origin_check;
use crate::remote::Remote;
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

/// Processes a request, and echoes the request id if the client sent a valid one.
pub(crate) async fn answer_request<H: Handler, F: Fallback>(
    context: Arc<ConnectionContext<H, F>>,
    request: Request<IncomingBody>,
) -> Result<ListenerResponse<F>, Infallible> {
    let given = request.headers().get(&REQUEST_ID).cloned();
    let version = request.version();
    let trusted = &context.listener.config.trusted_proxies;
    let (address, port) = trusted.find_client(context.remote, request.headers());
    let arrival = Arrival { address, port, version: name_version(version) };
    let tag = Tag::new(given.as_ref().map(HeaderValue::as_bytes), Some(arrival));
    let given = if tag.given().is_some() { given } else { None };
    context.state.set_version(version);
    let mut response = {
        // Pinned here, because a future that is passed as an argument is stored twice.
        let routed = std::pin::pin!(route_request(&context, request));
        lockgate_telemetry::request::within(tag, routed).await
    };
    if let Ok(response) = &response {
        context.handler.record_response(response.status());
    }
    if let (Ok(response), true) = (&mut response, context.listener.draining.load(Ordering::Relaxed))
    {
        if version == Version::HTTP_2 {
            context.state.go_away();
        } else {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
    if let (Ok(response), Some(id)) = (&mut response, given) {
        response.headers_mut().insert(REQUEST_ID.clone(), id);
    }
    context.state.mark_answering();
    response
}

fn name_version(version: Version) -> Option<&'static str> {
    match version {
        Version::HTTP_10 => Some("1.0"),
        Version::HTTP_11 => Some("1.1"),
        Version::HTTP_2 => Some("2"),
        _ => None,
    }
}

async fn route_request<H: Handler, F: Fallback>(
    context: &ConnectionContext<H, F>,
    request: Request<IncomingBody>,
) -> Result<ListenerResponse<F>, Infallible> {
    let active = context.state.begin_request();
    if let Err(refusal) = check_framing(request.version(), request.headers(), &context.state) {
        return Ok(Box::pin(refuse_request(&*context.handler, request, refusal)).await);
    }
    let origin = match context.listener.origin_check.check_request(
        request.uri(),
        request.headers(),
        context.local,
        &context.host,
    ) {
        Ok(origin) => origin,
        Err(refusal) => {
            return Ok(Box::pin(refuse_request(&*context.handler, request, refusal)).await);
        }
    };
    let config = &context.listener.config;
    let route = match config.audience {
        Audience::Clients => parse_route(request.uri().path(), config.sse),
        Audience::Operators => Route::Fallback,
    };
    let reacted = match route {
        Route::Mcp(endpoint) => answer_mcp(context, endpoint, request, active).await,
        // All but calls are boxed, because a future is moved as a whole when it is started.
        Route::Sse(endpoint) => {
            Box::pin(crate::sse::open_stream(context, endpoint, request, active)).await
        }
        Route::Messages => Box::pin(crate::sse::answer_message(context, request)).await,
        Route::Metadata => match context.handler.metadata(request.uri().path()) {
            Some(document) => answer_metadata(&request, document),
            None => return Ok(Box::pin(call_fallback(context, request, active)).await),
        },
        Route::Fallback => return Ok(Box::pin(call_fallback(context, request, active)).await),
    };
    let mut response = match reacted {
        Ok(response) => response,
        Err(refusal) => answer_error(&*context.handler, refusal),
    };
    if let Some(origin) = origin {
        origin_check::add_cors_headers(response.headers_mut(), origin);
    }
    Ok(response)
}

fn answer_error<B>(handler: &impl Handler, refusal: ListenerError) -> Response<ResponseBody<B>> {
    refusal.record(handler);
    refusal.response().map(ResponseBody::whole)
}

/// Answers a request that is rejected before it is routed.
async fn refuse_request<B>(
    handler: &impl Handler,
    request: Request<IncomingBody>,
    refusal: ListenerError,
) -> Response<ResponseBody<B>> {
    refusal.record(handler);
    let (parts, _) = request.into_parts();
    handler.describe_rejection(&parts, refusal.response()).await.map(ResponseBody::whole)
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

async fn call_fallback<H: Handler, F: Fallback>(
    context: &ConnectionContext<H, F>,
    mut request: Request<IncomingBody>,
    active: ActiveRequest,
) -> ListenerResponse<F> {
    request.extensions_mut().insert(Remote::of(context));
    match context.fallback.clone().oneshot(request).await {
        Ok(response) => response.map(|body| ResponseBody::Fallback { body, active }),
        Err(never) => match never {},
    }
}

async fn answer_mcp<H: Handler, F: Fallback>(
    context: &ConnectionContext<H, F>,
    endpoint: Endpoint,
    request: Request<IncomingBody>,
    active: ActiveRequest,
) -> Result<ListenerResponse<F>, ListenerError> {
    let keep_alive = context.listener.config.keep_alive;
    if request.method() == Method::POST {
        let (mut headers, body) = split_request(request);
        check_post(&headers)?;
        let credentials = context.credentials(&mut headers)?;
        let principal = match context.identify(&endpoint, &credentials).await {
            Ok(principal) => principal,
            Err(reply) => return Ok(build_response(reply, keep_alive, Hold::none(active))),
        };
        let (body, mut held) = context.read_body(body, &principal, active).await?;
        let kind = ExchangeKind::Post(body);
        let exchange = Exchange {
            endpoint,
            transport: Transport::Mcp,
            peer: credentials.peer,
            credentials: Some(credentials),
            principal,
            kind,
            headers,
            takes_streamed_body: true,
        };
        let reply = context.handler.handle(exchange).await;
        let reply = charge_reply(&*context.handler, reply, &mut held);
        return Ok(build_response(reply, keep_alive, held));
    }
    answer_without_body(context, endpoint, request, active).await
}

/// Answers the MCP requests that have no body: GET, DELETE and OPTIONS.
async fn answer_without_body<H: Handler, F: Fallback>(
    context: &ConnectionContext<H, F>,
    endpoint: Endpoint,
    request: Request<IncomingBody>,
    active: ActiveRequest,
) -> Result<ListenerResponse<F>, ListenerError> {
    let keep_alive = context.listener.config.keep_alive;
    let kind = match *request.method() {
        Method::GET => ExchangeKind::Get,
        Method::DELETE => ExchangeKind::Delete,
        Method::OPTIONS => return Ok(answer_preflight(request.headers(), MCP_METHODS)),
        _ => return Err(ListenerError::Method { allow: MCP_METHODS }),
    };
    let (mut headers, _) = split_request(request);
    if matches!(kind, ExchangeKind::Get) && !accepts(&headers, &["text/event-stream", "text/*"]) {
        return Err(ListenerError::Accept);
    }
    let credentials = context.credentials(&mut headers)?;
    let principal = match context.identify(&endpoint, &credentials).await {
        Ok(principal) => principal,
        Err(reply) => return Ok(build_response(reply, keep_alive, Hold::none(active))),
    };
    let exchange = Exchange {
        endpoint,
        transport: Transport::Mcp,
        peer: credentials.peer,
        credentials: Some(credentials),
        principal,
        kind,
        headers,
        takes_streamed_body: false,
    };
    let reply = context.handler.handle(exchange).await;
    Ok(build_response(reply, keep_alive, Hold::none(active)))
}

/// Charges a reply to the budget while it is being written. If memory is insufficient, an error
/// response replaces the reply.
fn charge_reply(handler: &impl Handler, reply: Reply, held: &mut Hold<ActiveRequest>) -> Reply {
    let Reply::Message { body, .. } = &reply else {
        held.shrink(usize::MAX);
        return reply;
    };
    if held.set(body.own_len()).is_ok() {
        return reply;
    }
    let refusal = ListenerError::Unread;
    handler.record_rejection(refusal.why(), refusal.describe().2);
    let body = refusal.text(write::id_of_response(body.start()));
    held.shrink(usize::MAX);
    Reply::Message {
        status: refusal.describe().0,
        headers: HeaderMap::new(),
        body: Text::Whole(body),
    }
}

fn split_request(request: Request<IncomingBody>) -> (HeaderMap, IncomingBody) {
    let (parts, body) = request.into_parts();
    (parts.headers, body)
}

/// Answers with protected resource metadata or a key set, which are public.
fn answer_metadata<B>(
    request: &Request<IncomingBody>,
    document: String,
) -> Result<Response<ResponseBody<B>>, ListenerError> {
    match *request.method() {
        Method::GET => {}
        Method::OPTIONS => return Ok(answer_preflight(request.headers(), METADATA_METHODS)),
        _ => return Err(ListenerError::Method { allow: METADATA_METHODS }),
    }
    // New keys are published at least this long before they sign.
    let is_key_set = request.uri().path().ends_with(KEY_SET);
    let lasting = if is_key_set { "max-age=300" } else { "max-age=3600" };
    let mut headers = HeaderMap::new();
    let path = request.uri().path();
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
