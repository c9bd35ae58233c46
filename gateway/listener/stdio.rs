//! MCP over stdin and stdout, both eras interleaved: every message is judged by itself. Legacy ones
//! share one session of the proxy; modern ones get the headers that HTTP would have given them, so
//! that the proxy has one path for all. Nothing but MCP is written to stdout.

mod lines;

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use lockgate_authn::{Credentials, Peer};
use lockgate_protocol::jsonrpc::{self, Message, Request, SentBy};
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::{Era, Revision};
use lockgate_protocol::{code, header, meta, write};
use lockgate_proxy::transport::{Endpoint, Exchange, ExchangeKind};
use lockgate_telemetry::Rejection;
use lockgate_telemetry::request::{Tag, within};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{AbortHandle, Id, JoinSet};

use crate::error::ListenerError;
use crate::exchange_handler::Handler;
use crate::session_client::{self, MessageQueue, SessionClient, text};

use self::lines::{Line, Lines};

/// How long `initialize` may take, because everything behind it waits.
const HANDSHAKE: Duration = Duration::from_secs(60);
/// How long the last bytes and the end of the session may take.
const FAREWELL: Duration = Duration::from_secs(1);
/// What the trail says of a message that belongs to a session, where there is none.
const NO_SESSION: &str = "no session is named";

/// What a stdio connection serves, and its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stdio {
    pub endpoint: Endpoint,
    /// Bytes of one line.
    pub line_bytes: usize,
    /// Nesting of one message.
    pub depth: usize,
    /// Requests that are worked on at once, and streams that stay open; one more is answered with
    /// an error.
    pub requests: usize,
    /// How long running requests may take after the input has ended.
    pub grace: Duration,
}

/// Serves one client at an endpoint until its input ends or `shutdown` is ready, then lets requests
/// finish within the grace time. Gives the number of requests that were cut.
///
/// # Errors
/// Reading from or writing to the client failed.
pub async fn serve_stdio<I, W, H>(
    stdin: I,
    stdout: W,
    handler: Arc<H>,
    limits: Stdio,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<usize>
where
    I: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
    H: Handler,
{
    let (out, texts) = MessageQueue::new(handler.budget());
    let mut writer = tokio::spawn(lines::write(stdout, texts));
    let mut lines = Lines::new(stdin, limits.line_bytes);
    let endpoint = limits.endpoint.clone();
    let credentials = Credentials { peer: Peer::Stdio, bearer: None, certificate: None };
    let Ok(principal) = handler.identify(&endpoint, &credentials).await else {
        return Err(io::Error::from(io::ErrorKind::PermissionDenied));
    };
    let caller = SessionClient { peer: Peer::Stdio, principal, endpoint };
    let mut connection = StdioConnection::new(handler, caller, limits, out);
    let mut shutdown = std::pin::pin!(shutdown);
    let (told, ended) = loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break (true, Ok(())),
            written = &mut writer => {
                // Nobody reads any more: there is nothing to finish.
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
    // Who has closed stdin may still read answers; who says so again does not wait for them.
    let hurry = async { if told { std::future::pending().await } else { shutdown.await } };
    let cut = connection.finish(hurry).await;
    drop(connection);
    let written = tokio::time::timeout(FAREWELL, &mut writer).await;
    writer.abort();
    ended?;
    match written {
        Ok(Ok(Err(error))) => Err(error),
        _ => Ok(cut),
    }
}

struct StdioConnection<H> {
    handler: Arc<H>,
    caller: SessionClient,
    limits: Stdio,
    out: MessageQueue,
    /// The legacy session, from its handshake on.
    session: Option<HeaderValue>,
    running: JoinSet<()>,
    flights: HashMap<Id, Flight>,
}

/// A message that is being worked on.
struct Flight {
    /// The id as JSON text, of modern requests only: those can be cancelled by dropping them.
    id: Bytes,
    /// Waits for news instead of working on an answer.
    waits: bool,
    handle: AbortHandle,
}

/// What is known of a message when it is handed to the proxy.
struct Job {
    exchange: Exchange,
    /// The id as JSON text; `None` when it gets no answer; empty when it could not be read.
    answer: Option<Bytes>,
    modern: bool,
    waits: bool,
}

impl<H: Handler> StdioConnection<H> {
    fn new(handler: Arc<H>, caller: SessionClient, limits: Stdio, out: MessageQueue) -> Self {
        let running = JoinSet::new();
        let flights = HashMap::new();
        Self { handler, caller, limits, out, session: None, running, flights }
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
            // A batch, or something that the proxy has the words for.
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
            Method::Initialize => self.initialize(request.text, &id).await,
            _ if self.session.is_some() => self.legacy(request.text, Some(id)).await,
            Method::Ping => self.say(write::result(&id, b"{}")).await,
            _ => {
                let words = format!(
                    "`_meta` lacks `{}`, and no session was initialized",
                    meta::PROTOCOL_VERSION
                );
                let data = Some(&serde_json::json!({"code": code::NOT_INITIALIZED}));
                let answer = write::error(Some(&id), code::INVALID_PARAMS, &words, data);
                self.no_session(words);
                self.say(answer).await;
            }
        }
    }

    async fn notification(&mut self, notification: &Request) {
        if notification.method == Method::Cancelled
            && let Some(id) = notification.param("requestId")
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
            // A request may be over before its cancellation comes, which is nothing to speak of.
            self.no_session(NO_SESSION);
        }
    }

    /// Whether a message describes itself. Legacy clients that decorate theirs with a legacy
    /// version do not.
    fn is_modern(&self, request: &Request) -> bool {
        if request.meta(meta::PROTOCOL_VERSION).is_none() {
            return false;
        }
        if self.session.is_none() {
            return true;
        }
        let Some(version) = request.meta_str(meta::PROTOCOL_VERSION) else { return true };
        match Revision::parse(&version) {
            Some(revision) => revision.era() != Era::Legacy,
            None => true,
        }
    }

    /// The handshake. Nothing else is read meanwhile, because what follows belongs to the new
    /// session.
    async fn initialize(&mut self, text: Bytes, id: &[u8]) {
        let exchange = self.caller.exchange(ExchangeKind::Post(text), None);
        let Ok(reply) = tokio::time::timeout(
            HANDSHAKE,
            within(Tag::new(None, None), self.handler.handle(exchange)),
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

    /// Forwards what the legacy session says outside calls.
    fn listen(&mut self, session: HeaderValue) {
        let caller = self.caller.clone();
        let handler = Arc::clone(&self.handler);
        let out = self.out.clone();
        self.spawn(Bytes::new(), true, async move {
            if let Some(events) = caller.listen(&*handler, ExchangeKind::Get, &session).await {
                session_client::forward_events(events, &out).await;
            }
        });
    }

    /// Begins a job at once, so that what is sent next cannot overtake it, and leaves it to a task
    /// if it takes longer.
    async fn start(&mut self, job: Job) {
        let Job { exchange, answer, modern, waits } = job;
        if let Some(id) = &answer
            && self.running.len() >= self.limits.requests
        {
            return self.refuse(ListenerError::Busy, known_id(id)).await;
        }
        let id = answer.clone().filter(|_| modern).unwrap_or_default();
        let handler = Arc::clone(&self.handler);
        let out = self.out.clone();
        let mut work = Box::pin(async move {
            match answer {
                Some(id) => ask(&*handler, exchange, &id, &out).await,
                None => drop(handler.handle(exchange).await),
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

    /// Drops the modern request with this id; `false` if there is none.
    fn cancel(&self, id: &[u8]) -> bool {
        for flight in self.flights.values() {
            if flight.id == id {
                flight.handle.abort();
                return true;
            }
        }
        false
    }

    /// Turns a message away: for the record, as over HTTP, and in words for the client.
    async fn refuse(&self, refusal: ListenerError, id: Option<&[u8]>) {
        refusal.record(&*self.handler);
        self.say(refusal.text(id)).await;
    }

    fn no_session(&self, words: impl Into<Cow<'static, str>>) {
        self.handler.record_rejection(Rejection::Session, words.into());
    }

    async fn say(&self, bytes: impl Into<Bytes>) {
        // Nobody there: the reading loop notices by itself.
        let _ = self.out.send(text(bytes)).await;
    }

    async fn end_session(&mut self) {
        if let Some(session) = self.session.take() {
            let _ = tokio::time::timeout(FAREWELL, self.caller.end(&*self.handler, &session)).await;
        }
    }

    /// Lets requests finish within the grace time, or until `hurry`; gives the number of those that
    /// did not.
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

/// One request, or something unreadable: asks the proxy, writes what comes back.
async fn ask<H: Handler>(handler: &H, exchange: Exchange, id: &[u8], out: &MessageQueue) {
    let reply = within(Tag::new(None, None), handler.handle(exchange)).await;
    if !session_client::forward_reply(reply, out).await
        && let Some(id) = known_id(id)
    {
        let silence = write::error(Some(id), code::INTERNAL, "the gateway gave no answer", None);
        let _ = out.send(text(silence)).await;
    }
}

/// The id of a request; something unreadable has an empty one, which is none.
fn known_id(id: &[u8]) -> Option<&[u8]> {
    if id.is_empty() { None } else { Some(id) }
}

/// The headers that HTTP requires of a modern message, made from the message itself.
fn standard_headers(request: &Request) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(3);
    if let Some(version) = request.meta_str(meta::PROTOCOL_VERSION) {
        insert(&mut headers, "mcp-protocol-version", &version);
    }
    insert(&mut headers, "mcp-method", &request.method_name());
    if let Some(target) = request.method.target()
        && let Some(name) = request.param_str(target)
    {
        insert(&mut headers, "mcp-name", &header::encode_value(&name));
    }
    headers
}

/// A value that cannot be a header is left out: the proxy refuses the message then.
fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

#[cfg(test)]
mod tests;
