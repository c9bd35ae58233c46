//! MCP over stdin and stdout, with messages of both eras interleaved. Legacy messages share a
//! session of the proxy; modern messages get the headers that HTTP would carry, so that the proxy
//! has a single path for both. Only MCP messages are written to stdout.

mod lines;

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue};
use lockgate_admission::spawn;
use lockgate_authn::{Credentials, Peer};
use lockgate_protocol::jsonrpc::{self, Message, Request, SentBy};
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::{Era, Revision};
use lockgate_protocol::{code, header, meta, write};
use lockgate_proxy::transport::{Endpoint, Exchange, ExchangeKind};
use lockgate_telemetry::Rejection;
use lockgate_telemetry::request::{Tag, within};
use tokio::io::{AsyncRead, AsyncWrite, Stdin, Stdout};
use tokio::task::{AbortHandle, Id, JoinSet};

use crate::error::ListenerError;
use crate::gateway_handler::Handler;
use crate::session_client::{self, MessageQueue, SessionClient, text};

use self::lines::{Line, Lines};

/// Timeout of `initialize`, which blocks all later messages.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout for the last writes, and for ending the session.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// The audit text for a session message without a session.
const NO_SESSION: &str = "no session is named";

/// The endpoint and limits of a stdio connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stdio {
    pub endpoint: Endpoint,
    /// Maximum bytes of one line.
    pub line_bytes: usize,
    /// Maximum nesting of one message.
    pub depth: usize,
    /// Concurrent requests and open streams; further requests receive an error.
    pub requests: usize,
    /// Time for running requests to complete after the input has ended.
    pub grace: Duration,
}

/// Serves the client at the process's standard streams until its input ends or `shutdown` is ready,
/// then lets requests finish within the grace time. Returns the number of aborted requests. The
/// future is compiled here, in a crate optimised for speed.
///
/// # Errors
/// Reading from or writing to the client failed.
#[must_use]
#[inline(never)]
pub fn serve_stdio(
    stdin: Stdin,
    stdout: Stdout,
    handler: Arc<Handler>,
    limits: Stdio,
    shutdown: BoxFuture<'static, ()>,
) -> BoxFuture<'static, io::Result<usize>> {
    Box::pin(serve(stdin, stdout, handler, limits, shutdown))
}

async fn serve<I, W>(
    stdin: I,
    stdout: W,
    handler: Arc<Handler>,
    limits: Stdio,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<usize>
where
    I: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (out, texts) = MessageQueue::new(handler.budget());
    let mut writer = spawn(lines::write(stdout, texts));
    let mut lines = Lines::new(stdin, limits.line_bytes);
    let endpoint = limits.endpoint.clone();
    let credentials = Credentials { peer: Peer::Stdio, bearer: None, certificate: None };
    let Ok(principal) = handler.identify(&endpoint, &credentials).await else {
        return Err(io::Error::from(io::ErrorKind::PermissionDenied));
    };
    let caller = SessionClient { handler, peer: Peer::Stdio, principal, endpoint };
    let mut connection = StdioConnection::new(caller, limits, out);
    let mut shutdown = std::pin::pin!(shutdown);
    let (told, ended) = loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break (true, Ok(())),
            written = &mut writer => {
                // The client no longer reads, so nothing is left to finish.
                connection.running.abort_all();
                connection.end_session().await;
                written.unwrap_or_else(|error| Err(io::Error::other(error)))?;
                return Ok(0);
            }
            Some(done) = connection.running.join_next_with_id() => match done {
                Ok((id, ())) => connection.forget(id),
                Err(error) => connection.forget(error.id()),
            },
            line = lines.next() => match line {
                Ok(Some(line)) => connection.take(line).await,
                Ok(None) => break (false, Ok(())),
                Err(error) => break (false, Err(error)),
            },
        }
    };
    // After the input has ended, the client may still read responses until `shutdown` is ready.
    let hurry = async { if told { std::future::pending().await } else { shutdown.await } };
    let cut = connection.finish(hurry).await;
    drop(connection);
    let written = tokio::time::timeout(SHUTDOWN_TIMEOUT, &mut writer).await;
    writer.abort();
    ended?;
    match written {
        Ok(Ok(Err(error))) => Err(error),
        _ => Ok(cut),
    }
}

struct StdioConnection {
    caller: SessionClient,
    limits: Stdio,
    out: MessageQueue,
    /// The legacy session, after its handshake.
    session: Option<HeaderValue>,
    running: JoinSet<()>,
    flights: HashMap<Id, Flight>,
}

struct Flight {
    /// The id as JSON text, for modern requests only, which are cancelled by dropping them.
    id: Bytes,
    /// A stream of notifications, aborted when the input ends.
    waits: bool,
    handle: AbortHandle,
}

struct Job {
    exchange: Exchange,
    /// The id as JSON text; `None` for messages without a response, empty if unreadable.
    answer: Option<Bytes>,
    modern: bool,
    waits: bool,
}

impl StdioConnection {
    fn new(caller: SessionClient, limits: Stdio, out: MessageQueue) -> Self {
        let running = JoinSet::new();
        let flights = HashMap::new();
        Self { caller, limits, out, session: None, running, flights }
    }

    async fn take(&mut self, line: Line) {
        let line = match line {
            Line::Text(line) => line,
            Line::TooLong => {
                return self
                    .refuse(ListenerError::TooLarge { limit: self.limits.line_bytes }, None)
                    .await;
            }
        };
        match jsonrpc::parse(line.clone(), self.limits.depth, SentBy::Client) {
            Ok(Message::Request(request)) => self.request(request).await,
            Ok(Message::Notification(notification)) => self.notification(&notification).await,
            Ok(Message::Response(_)) if self.session.is_some() => self.legacy(line, None).await,
            Ok(Message::Response(_)) => self.no_session(NO_SESSION),
            // A batch, or an invalid message that the proxy answers.
            Err(_) => self.legacy(line, Some(Bytes::new())).await,
        }
    }

    async fn request(&mut self, request: Request) {
        let id = request.id_bytes();
        if self.is_modern(&request) {
            let exchange = self
                .caller
                .with_headers(ExchangeKind::Post(request.text.clone()), standard_headers(&request));
            let waits = request.method == Method::Listen;
            return self.start(Job { exchange, answer: Some(id), modern: true, waits }).await;
        }
        match request.method {
            Method::Initialize => self.initialize(request.text.clone(), &id).await,
            _ if self.session.is_some() => self.legacy(request.text.clone(), Some(id)).await,
            Method::Ping => self.say(write::result(&id, b"{}")).await,
            _ => {
                let words = format!(
                    "`_meta` lacks `{}`, and no session was initialized",
                    meta::PROTOCOL_VERSION
                );
                let data = Some(&serde_json::json!({"code": code::NOT_INITIALIZED}));
                let answer = write::error(Some(&id), code::INVALID_PARAMS, &words, data);
                self.no_session(&words);
                self.say(answer).await;
            }
        }
    }

    async fn notification(&mut self, notification: &Request) {
        if notification.method == Method::Cancelled
            && let Some(id) = notification.param(Key::RequestId)
            && self.cancel(id)
        {
            return;
        }
        if self.is_modern(notification) {
            let headers = standard_headers(notification);
            let exchange =
                self.caller.with_headers(ExchangeKind::Post(notification.text.clone()), headers);
            return self.start(Job { exchange, answer: None, modern: true, waits: false }).await;
        }
        if let Some(session) = self.session.clone() {
            self.legacy(notification.text.clone(), None).await;
            if notification.method == Method::Initialized {
                self.listen(session);
            }
        } else if notification.method != Method::Cancelled {
            // A request may complete before its cancellation arrives, which is no error.
            self.no_session(NO_SESSION);
        }
    }

    /// Returns whether a message carries a modern protocol version. Legacy clients may carry a
    /// legacy version once they have a session.
    fn is_modern(&self, request: &Request) -> bool {
        if request.meta(Key::MetaProtocolVersion).is_none() {
            return false;
        }
        if self.session.is_none() {
            return true;
        }
        let Some(version) = request.meta_str(Key::MetaProtocolVersion) else { return true };
        Revision::parse(&version).is_none_or(|revision| revision.era() != Era::Legacy)
    }

    /// Performs the handshake. No further message is read until it completes, because it would
    /// belong to the new session.
    async fn initialize(&mut self, text: Bytes, id: &[u8]) {
        let exchange = self.caller.exchange(ExchangeKind::Post(text), None);
        let Ok(reply) = tokio::time::timeout(
            HANDSHAKE_TIMEOUT,
            within(Tag::new(None, None), self.caller.handler.handle(&exchange)),
        )
        .await
        else {
            return self.refuse(ListenerError::Busy, Some(id)).await;
        };
        if let Some(session) = session_client::find_session_id(&reply) {
            self.end_session().await;
            self.session = Some(session);
        }
        session_client::forward_reply(reply, &self.out).await;
    }

    async fn legacy(&mut self, text: Bytes, answer: Option<Bytes>) {
        let exchange = self.caller.exchange(ExchangeKind::Post(text), self.session.as_ref());
        self.start(Job { exchange, answer, modern: false, waits: false }).await;
    }

    /// Forwards the legacy session's messages outside calls.
    fn listen(&mut self, session: HeaderValue) {
        let caller = self.caller.clone();
        let out = self.out.clone();
        self.spawn(Bytes::new(), true, async move {
            if let Some(events) = caller.listen(ExchangeKind::Get, &session).await {
                session_client::forward_events(events, &out).await;
            }
        });
    }

    /// Polls a job once, so that a later message cannot overtake it, and spawns a task if it takes
    /// longer.
    async fn start(&mut self, job: Job) {
        let Job { exchange, answer, modern, waits } = job;
        if let Some(id) = &answer
            && self.running.len() >= self.limits.requests
        {
            return self.refuse(ListenerError::Busy, known_id(id)).await;
        }
        let id = answer.clone().filter(|_| modern).unwrap_or_default();
        let handler = Arc::clone(&self.caller.handler);
        let out = self.out.clone();
        let mut work = Box::pin(async move {
            match answer {
                Some(id) => ask(&handler, &exchange, &id, &out).await,
                None => drop(handler.handle(&exchange).await),
            }
        });
        if poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await.is_pending() {
            self.spawn(id, waits, work);
        }
    }

    fn spawn(&mut self, id: Bytes, waits: bool, work: impl Future<Output = ()> + Send + 'static) {
        let handle = self.running.spawn(work);
        self.flights.insert(handle.id(), Flight { id, waits, handle });
    }

    fn forget(&mut self, task: Id) {
        self.flights.remove(&task);
    }

    /// Cancels the modern request with this id. Returns `false` if there is none.
    fn cancel(&self, id: &[u8]) -> bool {
        for flight in self.flights.values() {
            if flight.id == id {
                flight.handle.abort();
                return true;
            }
        }
        false
    }

    /// Rejects a message: records the rejection, as over HTTP, and sends the error.
    async fn refuse(&self, refusal: ListenerError, id: Option<&[u8]>) {
        refusal.record(&self.caller.handler);
        self.say(refusal.text(id)).await;
    }

    fn no_session(&self, words: &str) {
        self.caller.handler.record_rejection(Rejection::Session, words);
    }

    async fn say(&self, bytes: impl Into<Bytes>) {
        // If the receiver is dropped, the main loop detects it.
        let _ = self.out.send(text(bytes)).await;
    }

    async fn end_session(&mut self) {
        if let Some(session) = self.session.take() {
            let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, self.caller.end(&session)).await;
        }
    }

    /// Lets requests finish within the grace time, or until `hurry`. Returns the number of
    /// unfinished requests.
    async fn finish(&mut self, hurry: impl Future<Output = ()>) -> usize {
        for flight in self.flights.values() {
            if flight.waits {
                flight.handle.abort();
            }
        }
        let all = async { while self.running.join_next().await.is_some() {} };
        let cut = tokio::select! {
            () = all => 0,
            () = hurry => self.running.len(),
            () = tokio::time::sleep(self.limits.grace) => self.running.len(),
        };
        self.running.shutdown().await;
        self.end_session().await;
        cut
    }
}

/// Passes a request or unreadable message to the proxy, and sends the reply.
async fn ask(handler: &Handler, exchange: &Exchange, id: &[u8], out: &MessageQueue) {
    let reply = within(Tag::new(None, None), handler.handle(exchange)).await;
    if !session_client::forward_reply(reply, out).await
        && let Some(id) = known_id(id)
    {
        let silence =
            write::error(Some(id), code::INTERNAL, "the gateway returned no response", None);
        let _ = out.send(text(silence)).await;
    }
}

/// Returns the id of a request. Unreadable messages have an empty id.
fn known_id(id: &[u8]) -> Option<&[u8]> {
    if id.is_empty() { None } else { Some(id) }
}

/// Returns the headers that HTTP requires for a modern message, derived from the message.
fn standard_headers(request: &Request) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(3);
    if let Some(version) = request.meta_str(Key::MetaProtocolVersion) {
        insert(&mut headers, "mcp-protocol-version", &version);
    }
    insert(&mut headers, "mcp-method", &request.method_name());
    if request.method.has_name_header()
        && let Some(target) = request.method.target()
        && let Some(name) = request.param_str(target)
    {
        insert(&mut headers, "mcp-name", &header::encode_value(&name));
    }
    headers
}

/// Inserts a header. Invalid values are omitted, so that the proxy rejects the message.
fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

#[cfg(test)]
mod tests;
