//! An open connection to a server: the server's identity and era, and requests in that era's form,
//! with their headers over HTTP.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use lockgate_admission::clock;
use lockgate_egress::{PostHead, PostRequest};
use lockgate_protocol::jsonrpc::{Outcome, Response};
use lockgate_protocol::key::Key;
use lockgate_protocol::legacy::ServerDescription;
use lockgate_protocol::meta::Sender;
use lockgate_protocol::method::Method;
use lockgate_protocol::outbound::Outbound;
use lockgate_protocol::revision::{Era, Revision};
use lockgate_protocol::{code, header, meta, modern, outbound, scan, write};
use lockgate_telemetry::{
    Ending, Network, OperationLabels, OperationSpan, ServerMetrics, TOOL_ERROR, ToolMetrics,
};
use parking_lot::Mutex;
use scopeguard::{ScopeGuard, guard};
use tokio::sync::oneshot;

use crate::call::{ClientChannel, IdentityAssertion, LogLevel, ResponseSink};
use crate::duplex::{Duplex, Role};
use crate::failure::{Result, UpstreamError};
use crate::http::{HttpTransport, Post, Posted, status_failure};
use crate::outstanding::Outstanding;
use crate::process::Child;
use crate::receiver::Receiver;
use crate::topics::Topic;

/// Time for a connection to close, and for its process to exit by itself.
pub(crate) const CLOSE_GRACE_PERIOD: Duration = Duration::from_secs(2);
/// The first id after those of the handshake.
const FIRST_ID: u64 = 4;
/// Longest silent processing of one of the gateway's own requests.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) enum ServerTransport {
    Http(Arc<HttpTransport>),
    Duplex(Arc<Duplex>),
}

pub(crate) struct Connection {
    pub(crate) transport: ServerTransport,
    pub(crate) peer: Peer,
    pub(crate) child: Mutex<Option<Child>>,
    info: Arc<[u8]>,
    ids: AtomicU64,
    pub(crate) receiver: Arc<Receiver>,
    began: Instant,
    pub(crate) outstanding: Outstanding,
    /// Legacy HTTP: the server refused a separate stream, so its questions arrive with calls.
    pub(crate) has_no_stream: AtomicBool,
    /// Legacy: the level last set with `logging/setLevel`, plus one; 0 if never set.
    level: AtomicU8,
    pub(crate) subscribed: Mutex<BTreeSet<String>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) revision: Revision,
    pub(crate) server: ServerDescription,
}

/// A request of the gateway or of a client, ready to be written.
pub(crate) struct Ask<'a> {
    /// A preassigned id, from `Connection::expect_acknowledgement` or `Connection::mint_id`.
    pub(crate) id: Option<u64>,
    pub(crate) method: Method,
    /// The value of `Mcp-Name`.
    pub(crate) target: Option<&'a str>,
    pub(crate) outbound: Outbound<'a>,
    /// JSON text of the client's capabilities, for modern servers.
    pub(crate) capabilities: &'a [u8],
    pub(crate) params: &'a [(&'a str, String)],
    pub(crate) channel: Option<Arc<dyn ClientChannel>>,
    pub(crate) sink: Option<Arc<dyn ResponseSink>>,
    /// The requester's identity; `None` for the connection's owner.
    pub(crate) assertion: Option<Arc<dyn IdentityAssertion>>,
    pub(crate) tool: Option<Arc<ToolMetrics>>,
    pub(crate) span: Option<Box<OperationSpan>>,
    /// The start of the call that the request belongs to.
    pub(crate) since: Instant,
    /// Longest silent processing; `None` for requests that stay open or answer elsewhere.
    pub(crate) limit: Option<Duration>,
}

impl<'a> Ask<'a> {
    pub(crate) fn own(method: Method, replaced: &'a [(Key, Option<Vec<u8>>)]) -> Self {
        Self {
            id: None,
            method,
            target: None,
            outbound: Outbound { replaced, ..Outbound::default() },
            capabilities: b"{}",
            params: &[],
            channel: None,
            sink: None,
            assertion: None,
            tool: None,
            span: None,
            since: clock::now(),
            limit: Some(DEFAULT_TIMEOUT),
        }
    }
}

/// A request, serialized for its transport.
enum Written<'a> {
    Line(&'a Arc<Duplex>, Bytes),
    Post(&'a Arc<HttpTransport>, PostRequest),
}

impl ServerTransport {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Duplex(duplex) => duplex.name,
        }
    }

    /// Sends a notification on behalf of the caller, or of the connection's owner.
    pub(crate) fn notify(&self, text: Bytes, assertion: Option<Arc<dyn IdentityAssertion>>) {
        match self {
            Self::Duplex(duplex) => drop(duplex.notify(text, assertion)),
            Self::Http(transport) => transport.notify(text, assertion.as_deref()),
        }
    }
}

impl Connection {
    pub(crate) fn new(
        transport: ServerTransport,
        peer: Peer,
        child: Option<Child>,
        info: Arc<[u8]>,
        receiver: Arc<Receiver>,
    ) -> Self {
        receiver.modern.store(peer.revision.era() == Era::Modern, Ordering::Relaxed);
        if let (Era::Modern, ServerTransport::Http(transport)) = (peer.revision.era(), &transport) {
            let version = HeaderValue::from_static(peer.revision.as_str());
            let name = HeaderName::from_static(modern::VERSION_HEADER);
            transport.carry(HeaderMap::from_iter([(name, version)]));
        }
        Self {
            transport,
            peer,
            child: Mutex::new(child),
            info,
            ids: AtomicU64::new(FIRST_ID),
            receiver,
            began: Instant::now(),
            outstanding: Outstanding::default(),
            has_no_stream: AtomicBool::new(false),
            level: AtomicU8::new(0),
            subscribed: Mutex::new(BTreeSet::new()),
        }
    }

    /// Reports whether the connection has not ended, as far as detected.
    pub(crate) fn is_open(&self) -> bool {
        !self.receiver.over.initialized() && matches!(&self.transport, ServerTransport::Http(_))
            || matches!(&self.transport, ServerTransport::Duplex(d) if d.exchange.is_open())
    }

    /// Returns the metric labels common to all requests on this connection.
    fn labels(&self) -> OperationLabels {
        let network = match &self.transport {
            ServerTransport::Http(transport) => Network::Http(transport.version()),
            ServerTransport::Duplex(duplex) if duplex.name == "stdio" => Network::Pipe,
            ServerTransport::Duplex(_) => Network::Http(None),
        };
        OperationLabels {
            method: "",
            revision: Some(self.peer.revision.as_str()),
            network,
            ending: Ending::Success,
        }
    }

    /// Reports whether the server waits for an answer to its own question.
    pub(crate) fn is_asking(&self) -> bool {
        matches!(&self.transport, ServerTransport::Duplex(duplex) if duplex.exchange.is_asking())
    }

    /// Waits for the process to exit; pending forever without a process.
    pub(crate) async fn exit(&self) -> String {
        let exit = self.child.lock().as_ref().map(Child::exit);
        match exit {
            Some(exit) => format!("the server's process {}", exit.await),
            None => std::future::pending().await,
        }
    }

    pub(crate) fn stderr_tail(&self) -> Vec<String> {
        self.child.lock().as_ref().map_or(Vec::new(), |child| child.stderr_tail())
    }

    /// Returns a fresh id for a listen request and a receiver for its acknowledged topics.
    pub(crate) fn expect_acknowledgement(&self) -> (u64, oneshot::Receiver<BTreeSet<Topic>>) {
        let id = self.mint_id();
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.receiver.acknowledgements.lock();
        waiting.retain(|_, sender: &mut oneshot::Sender<_>| !sender.is_closed());
        waiting.insert(id, sender);
        (id, receiver)
    }

    pub(crate) fn era(&self) -> Era {
        self.peer.revision.era()
    }

    /// Reports whether arguments are repeated in `Mcp-Param-*` headers, which only modern servers
    /// over HTTP read.
    pub(crate) fn takes_param_headers(&self) -> bool {
        self.era() == Era::Modern && matches!(self.transport, ServerTransport::Http(_))
    }

    /// Returns an id for a request, if it is needed before the request is written.
    pub(crate) fn mint_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a request in the server's era and waits for its response, without a timeout. The
    /// request is written before the first await, which keeps the future small.
    pub(crate) fn ask<'a>(
        &'a self,
        ask: Ask<'_>,
    ) -> impl Future<Output = Result<Response>> + Send + use<'a> {
        let id = ask.id.unwrap_or_else(|| self.mint_id());
        let modern = self.era() == Era::Modern;
        let written = self.write(id, &ask, modern);
        let Ask { method, channel, sink, tool, span, assertion, since, limit, .. } = ask;
        let labels = OperationLabels { method: method.as_str(), ..self.labels() };
        let metrics = Arc::clone(&self.receiver.metrics);
        let began = clock::now();
        let deadline = limit.map(|limit| since + limit);
        let is_over = false;
        let operation =
            ClientOperation { server: metrics, tool, span, labels, began, deadline, is_over };
        let bounded = limit.filter(|_| method != Method::Listen);
        let unanswered = bounded.map(|limit| self.outstanding.begin(limit));
        async move {
            let answer = match written {
                Written::Line(duplex, line) => {
                    let is_listen = method == Method::Listen;
                    let role = if is_listen { Role::Listen } else { Role::Call(channel) };
                    duplex.request(id, line, role, assertion, true).await
                }
                Written::Post(transport, message) => {
                    let post = Post {
                        id: Some(id),
                        message,
                        channel: channel.as_ref(),
                        sink: sink.as_deref(),
                        assertion: assertion.as_deref(),
                        keeps_headers: false,
                    };
                    // Closing the stream does not cancel a call at a legacy server: it needs a
                    // notification.
                    let told = (!modern).then_some(transport);
                    let open = guard(told, |told| cancel(told, id, assertion.as_deref()));
                    let posted = transport.post(post).await;
                    ScopeGuard::into_inner(open);
                    posted.and_then(|posted| read_posted(transport, posted))
                }
            };
            if let Some(unanswered) = unanswered {
                unanswered.end();
            }
            operation.end(&answer);
            let response = answer?;
            if method == Method::ToolsCall && is_unknown_method(&response) {
                // The server lacks a method that it had listed.
                self.receiver.stale.notify_one();
            }
            Ok(response)
        }
    }

    /// Writes a request for the transport, in the server's era.
    fn write(&self, id: u64, ask: &Ask<'_>, modern: bool) -> Written<'_> {
        let revision = self.peer.revision.as_str();
        let sender = Sender { revision, capabilities: ask.capabilities, info: &self.info };
        let sender = if modern { Some(sender) } else { None };
        let outbound = Outbound { sender, ..ask.outbound };
        let transport = match &self.transport {
            ServerTransport::Duplex(duplex) => {
                return Written::Line(duplex, outbound.text(id, ask.method));
            }
            ServerTransport::Http(transport) => transport,
        };
        let mut head = transport.head(outbound.size_hint(), ask.assertion.as_deref());
        describe_trace(&mut head, ask.outbound.trace);
        if modern {
            let method = outbound.method_name(ask.method);
            describe_request(&mut head, &method, ask.target, ask.params);
        }
        let message = write::with_buffer(|text| match outbound.write(text, id, ask.method) {
            None => head.with_body(text, Bytes::new()),
            Some((at, value)) => {
                let (start, end) = text.split_at_checked(at).unwrap_or((text, b""));
                head.with_body(start, [value, Bytes::copy_from_slice(end)])
            }
        });
        Written::Post(transport, message)
    }

    /// Sends a request of the gateway itself and returns the response with its result.
    pub(crate) async fn simple(&self, ask: Ask<'_>) -> Result<Response> {
        let method = ask.method;
        let response = self.ask(ask).await?;
        match &response.outcome {
            Outcome::Result(..) => Ok(response),
            Outcome::Error(error) => Err(UpstreamError::refused(method, *error, &response.text)),
        }
    }

    /// Legacy: has the server log at `level` or below, unless it already does.
    pub(crate) async fn ensure_level(&self, level: LogLevel) {
        let wanted = level as u8 + 1;
        let now = self.level.load(Ordering::Relaxed);
        if self.era() == Era::Modern
            || !self.peer.server.offers.logging
            || (now != 0 && now <= wanted)
        {
            return;
        }
        self.level.store(wanted, Ordering::Relaxed);
        let params = [(Key::Level, Some(write::quoted(level.as_str())))];
        if let Err(failure) = self.simple(Ask::own(Method::SetLevel, &params)).await {
            tracing::debug!(%failure, "setting the log level failed");
        }
    }

    /// Treats its lists and subscribed resources as changed.
    pub(crate) fn tell_missed(&self) {
        self.receiver.stale.notify_one();
        self.receiver.own_lists.read_again();
        self.tell_updated();
    }

    pub(crate) fn tell_updated(&self) {
        let uris = self.subscribed.lock().clone();
        for uri in uris {
            self.receiver.tell_updated(&uri);
        }
    }

    pub(crate) async fn close(&self, grace: Duration) {
        let _ = self.receiver.over.set("the connection was closed".to_owned());
        match &self.transport {
            ServerTransport::Http(transport) => {
                drop(tokio::time::timeout(grace, transport.delete()).await)
            }
            ServerTransport::Duplex(duplex) => {
                duplex.close();
                let child = self.child.lock().take();
                if let Some(child) = child {
                    child.close(grace).await;
                }
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Ends the tasks that follow its stream.
        let _ = self.receiver.over.set("the connection is no longer used".to_owned());
        if self.era() == Era::Legacy {
            self.receiver.metrics.session_ended(self.labels(), self.began.elapsed());
        }
    }
}

/// Adds `traceparent` and `tracestate` for a request in a trace.
fn describe_trace(head: &mut PostHead, trace: Option<(&str, Option<&str>)>) {
    let Some((parent, state)) = trace else { return };
    head.add(meta::TRACEPARENT, parent.as_bytes());
    if let Some(state) = state {
        head.add(meta::TRACESTATE, state.as_bytes());
    }
}

/// Adds the headers that describe a modern request. The version is sent with all requests of the
/// connection.
fn describe_request(
    head: &mut PostHead,
    method: &str,
    target: Option<&str>,
    params: &[(&str, String)],
) {
    head.add(modern::METHOD_HEADER, method.as_bytes());
    if let Some(name) = target {
        head.add(modern::NAME_HEADER, header::encode_value(name).as_bytes());
    }
    for (name, value) in params {
        if HeaderName::from_bytes(name.as_bytes()).is_ok() {
            head.add(name, value.as_bytes());
        }
    }
}

/// Returns the response to a request, or an error for the status.
fn read_posted(transport: &HttpTransport, posted: Posted) -> Result<Response> {
    if posted.status == http::StatusCode::NOT_FOUND && transport.has_session() {
        return Err(status_failure(&posted, true));
    }
    match posted.response {
        Some(response) if posted.status.as_u16() != 401 => Ok(response),
        _ => {
            transport.note_refusal(&posted);
            Err(status_failure(&posted, transport.has_session()))
        }
    }
}

fn is_unknown_method(response: &Response) -> bool {
    matches!(&response.outcome, Outcome::Error(error) if error.code == code::METHOD_NOT_FOUND)
}

/// The metrics and span of a request; recorded on drop.
struct ClientOperation {
    server: Arc<ServerMetrics>,
    tool: Option<Arc<ToolMetrics>>,
    span: Option<Box<OperationSpan>>,
    labels: OperationLabels,
    began: Instant,
    /// A request that is dropped after it counts as timed out, not as cancelled.
    deadline: Option<Instant>,
    is_over: bool,
}

impl ClientOperation {
    fn end(mut self, answer: &Result<Response>) {
        self.is_over = true;
        self.labels.ending = match answer {
            Ok(response) => match &response.outcome {
                Outcome::Error(error) => Ending::Error(error.code),
                Outcome::Result(_, members) => match scan::get(members, Key::IsError) {
                    Some(span) if span.of(&response.text) == b"true" => Ending::Failed(TOOL_ERROR),
                    _ => Ending::Success,
                },
            },
            Err(failure) => Ending::Failed(failure.kind.as_str()),
        };
        if let Some(span) = &mut self.span {
            let message = match answer {
                Ok(Response { outcome: Outcome::Error(error), text, .. }) => error.message(text),
                Ok(_) => "".into(),
                Err(failure) => (&*failure.words).into(),
            };
            span.ended(self.labels.ending, &message);
        }
    }
}

impl Drop for ClientOperation {
    fn drop(&mut self) {
        let duration = clock::elapsed(self.began);
        if !self.is_over {
            let is_late = self.deadline.is_some_and(|deadline| clock::now() >= deadline);
            self.labels.ending = Ending::Failed(if is_late { "timeout" } else { "cancelled" });
            if let Some(span) = &mut self.span {
                span.ended(self.labels.ending, "");
            }
        }
        self.server.asked(self.tool.as_deref(), self.labels, duration);
    }
}

/// Sends a cancellation to a legacy server, with the identity of the caller that gave up.
fn cancel(
    transport: Option<&Arc<HttpTransport>>,
    id: u64,
    assertion: Option<&dyn IdentityAssertion>,
) {
    if let Some(transport) = transport
        && tokio::runtime::Handle::try_current().is_ok()
    {
        let id = id.to_string();
        let text = outbound::cancelled(id.as_bytes(), "the caller is no longer waiting");
        transport.notify(text.into(), assertion);
    }
}
