//! Unsolicited messages of a server: log messages, change notifications and questions. Each is
//! routed to its call or session; messages that belong to neither are answered or dropped here.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lockgate_admission::clock;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::{code, scan, write};
use lockgate_telemetry::ServerMetrics;
use lockgate_text::json;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, SetOnce, oneshot, watch};

use crate::call::{
    ClientChannel, ClientSession, IdentityAssertion, QuestionError, ServerId, Subscription,
};
use crate::incoming::Inbox;
use crate::own_lists::{Announced, OwnState};
use crate::topics::Topic;
use crate::{BoxFuture, Event, Events, ResourceUpdate};

pub(crate) struct Receiver {
    pub(crate) id: ServerId,
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) events: Events,
    /// Signals that the server's lists have changed.
    pub(crate) stale: Arc<Notify>,
    pub(crate) announced: Arc<Announced>,
    /// The state of the connection's own lists, if it belongs to a client.
    pub(crate) own_lists: OwnState,
    pub(crate) behind: Behind,
    /// Whether the server speaks the modern era, as far as detected.
    pub(crate) modern: AtomicBool,
    /// Set once the connection has ended, with the reason.
    pub(crate) over: SetOnce<String>,
    pub(crate) acknowledgements: Acknowledgements,
    /// Rates of the notifications that are matched against all clients.
    pub(crate) logged: Pace,
    pub(crate) task_news: Pace,
    pub(crate) updates: Pace,
    pub(crate) last_heard: LastHeard,
}

/// Longest question or notification. They are parsed into trees and kept for many clients, which
/// takes many times their size.
const MAX_MESSAGE: usize = 1 << 20;
/// Log messages outside of calls forwarded per second.
const MAX_LOGS_PER_SECOND: u32 = 50;
/// Task updates forwarded per second. Clients of a server that sends more poll the tasks at its
/// `pollInterval`.
const TASK_NEWS: u32 = 200;
/// Resource updates forwarded per second.
const MAX_UPDATES_PER_SECOND: u32 = 500;

/// A rate limit per second, so that a server cannot crowd out the messages of others.
#[derive(Default)]
pub(crate) struct Pace(Mutex<Option<(Instant, u32)>>);

impl Pace {
    pub(crate) fn admits(&self, most: u32, now: Instant) -> bool {
        let mut state = self.0.lock();
        match state.as_mut() {
            Some((since, count)) if now.duration_since(*since) < Duration::from_secs(1) => {
                *count += 1;
                *count <= most
            }
            _ => {
                *state = Some((now, 1));
                true
            }
        }
    }
}

/// The clients behind a connection, whose capabilities for questions it declares.
#[derive(Clone)]
pub(crate) enum Behind {
    /// Any clients. No capability is declared, because a question could not be attributed to a
    /// client.
    Anybody,
    /// Always the same client.
    SingleClient(Arc<SingleClient>),
    Session(Arc<SessionBehind>),
    /// No client: the gateway reads the items for interactive clients on it. All capabilities that
    /// the gateway forwards are declared, although no client can answer.
    Nobody,
}

/// A client session with a connection of its own.
pub(crate) struct SessionBehind {
    pub(crate) key: u64,
    pub(crate) session: Weak<dyn ClientSession>,
    /// JSON text, because a tree would take many times as much memory for as long as the connection
    /// lives.
    pub(crate) capabilities: Bytes,
    pub(crate) assertion: Option<Arc<dyn IdentityAssertion>>,
}

impl Behind {
    fn session(&self) -> Option<Arc<dyn ClientSession>> {
        match self {
            Self::Session(client) => client.session.upgrade(),
            Self::SingleClient(client) => client.session(),
            Self::Anybody | Self::Nobody => None,
        }
    }

    /// Returns the key of the only session served by the connection.
    pub(crate) fn session_key(&self) -> Option<u64> {
        match self {
            Self::Session(client) => Some(client.key),
            Self::Anybody | Self::SingleClient(_) | Self::Nobody => None,
        }
    }

    /// Returns the mark of subscriptions on the connection.
    pub(crate) fn subscription(&self) -> Subscription {
        self.session_key().map_or(Subscription::Shared, Subscription::Session)
    }

    /// Asks the client of the only running call, or else the session, on behalf of `server`.
    async fn ask(
        &self,
        running: Option<Arc<dyn ClientChannel>>,
        server: &ServerId,
        method: Method,
        params: Bytes,
    ) -> Result<Bytes, QuestionError> {
        match (self, running, self.session()) {
            // The current caller need not be the client that the question is meant for.
            (Self::Anybody, ..) => Err(QuestionError::Undeclared),
            // A declared capability requires a response, even if it is empty.
            (Self::Nobody, ..) if method == Method::Roots => {
                Ok(Bytes::from_static(br#"{"roots":[]}"#))
            }
            (Self::Nobody, ..) => Err(QuestionError::Gone),
            (_, Some(channel), _) => channel.ask(method, params).await,
            (_, None, Some(session)) => session.ask(server, method, params).await,
            (_, None, None) => Err(QuestionError::Gone),
        }
    }
}

/// Receivers of listen acknowledgements, by request id.
pub(crate) type Acknowledgements = Mutex<HashMap<u64, oneshot::Sender<BTreeSet<Topic>>>>;

impl Inbox for Receiver {
    fn notification(&self, note: Request, running: Option<Arc<dyn ClientChannel>>) {
        if note.text.len() > MAX_MESSAGE {
            tracing::debug!(server = %self.id, bytes = note.text.len(), "a notification was \
                dropped: it is too long");
            return;
        }
        match note.method {
            Method::ToolsChanged | Method::PromptsChanged | Method::ResourcesChanged => {
                if let Behind::Session(..) = &self.behind {
                    self.own_lists.announce(note.method);
                    self.note_own_lists();
                } else {
                    self.announced.add(note.method);
                }
                // Also on a client's connection: the server may have no stream on which the
                // shared connection would receive changes that concern all clients.
                self.stale.notify_one();
            }
            Method::ResourceUpdated => {
                if let Some(uri) = note.param_str(Key::Uri)
                    && self.updates.admits(MAX_UPDATES_PER_SECOND, Instant::now())
                {
                    self.tell_updated(&uri);
                }
            }
            Method::Message => match (running, self.behind.session()) {
                (Some(channel), _) => channel.log(&note),
                (None, Some(session)) => session.log(&self.id, &note),
                // It may concern any client's call: the receiver of the event decides on its
                // audience.
                (None, None)
                    if !matches!(self.behind, Behind::Anybody)
                        || !self.logged.admits(MAX_LOGS_PER_SECOND, Instant::now()) =>
                {
                    tracing::debug!(server = %self.id, "log message dropped");
                }
                (None, None) => {
                    let server = self.id.clone();
                    let _ = self.events.send(Event::Logged { server, note: Arc::new(note) });
                }
            },
            Method::Acknowledged => self.acknowledge(&note),
            Method::TaskUpdated | Method::TaskStatus => self.tell_task(&note),
            Method::ElicitationComplete => {
                if let (Some(session), Some(id)) =
                    (self.behind.session(), note.param_str(Key::ElicitationId))
                {
                    session.complete_elicitation(&self.id, &id);
                }
            }
            Method::Progress | Method::Cancelled => {}
            _ => {
                tracing::debug!(server = %self.id, method = %note.method_name(), "notification \
                    dropped")
            }
        }
    }

    fn question(
        &self,
        question: Request,
        running: Option<Arc<dyn ClientChannel>>,
    ) -> BoxFuture<'static, Bytes> {
        let id = question.id_bytes();
        let server = self.id.clone();
        let behind = self.behind.clone();
        Box::pin(async move {
            let params = match question.method {
                Method::Ping => return write::result(&id, b"{}").into(),
                _ if question.text.len() > MAX_MESSAGE => {
                    return refuse(&id, code::INTERNAL, "the request is too long");
                }
                Method::Elicit | Method::Sample | Method::Roots => params_text(&question),
                _ => return refuse(&id, code::METHOD_NOT_FOUND, "method not found"),
            };
            match behind.ask(running, &server, question.method, params.into()).await {
                Ok(result) => write::result(&id, &result).into(),
                Err(QuestionError::Undeclared) => {
                    refuse(&id, code::METHOD_NOT_FOUND, "the client does not support this request")
                }
                Err(QuestionError::Refused { code, message }) => refuse(&id, code, &message),
                Err(QuestionError::Unusable(_)) => {
                    refuse(&id, code::INVALID_PARAMS, "the client's answer is not valid")
                }
                // Never a result: only the user may decline or cancel.
                Err(unasked) => refuse(&id, code::INTERNAL, &unasked.to_string()),
            }
        })
    }

    fn answers(&self) -> bool {
        !self.modern.load(Ordering::Relaxed)
    }

    fn heard(&self) {
        self.last_heard.record();
    }

    fn closed(&self, words: String) {
        let _ = self.over.set(words);
    }
}

impl Receiver {
    /// Reports that a resource has changed, or may have while notifications were missed.
    pub(crate) fn tell_updated(&self, uri: &str) {
        let on = self.behind.subscription();
        let update = ResourceUpdate { server: self.id.clone(), uri: uri.into(), on };
        let _ = self.events.send(Event::Updated(update));
    }

    /// Notes with the client session that it may have its own lists at this server.
    pub(crate) fn note_own_lists(&self) {
        if let Some(session) = self.behind.session() {
            session.note_own_lists(&self.id);
        }
    }

    fn tell_task(&self, note: &Request) {
        let Some(id) = note.param_str(Key::TaskId) else { return };
        if self.task_news.admits(TASK_NEWS, Instant::now()) {
            let task = Event::Task { server: self.id.clone(), id: (&*id).into() };
            let _ = self.events.send(task);
        }
    }

    fn acknowledge(&self, note: &Request) {
        let id = note.meta(Key::MetaSubscriptionId).and_then(scan::as_number);
        let Some(id) = id else { return };
        let Some(waiting) = self.acknowledgements.lock().remove(&id) else { return };
        let filter = note.param(Key::Notifications).unwrap_or(b"null");
        let filter: Value = json::from_slice(filter).unwrap_or(Value::Null);
        let mut topics = BTreeSet::new();
        topics.extend(texts_of(&filter, "resourceSubscriptions").map(Topic::Resource));
        topics.extend(texts_of(&filter, "taskIds").map(Topic::Task));
        let _ = waiting.send(topics);
    }
}

fn refuse(id: &[u8], code: i64, words: &str) -> Bytes {
    write::error(Some(id), code, words, None).into()
}

/// Returns the strings in a list member of an object.
fn texts_of<'a>(object: &'a Value, member: &str) -> impl Iterator<Item = String> + use<'a> {
    let list = object[member].as_array().map_or(&[][..], Vec::as_slice);
    list.iter().filter_map(Value::as_str).map(str::to_owned)
}

/// Returns the `params` of a message as JSON text; `{}` if absent.
fn params_text(message: &Request) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.text.len());
    let mut object = write::Object::open(&mut out);
    for member in message.params() {
        object.copy(member.key.of(&message.text), member.value.of(&message.text));
    }
    object.close();
    out
}

/// The clock of a connection, or of all connections of a server.
#[derive(Debug)]
pub(crate) struct LastHeard {
    epoch: Instant,
    /// Milliseconds from `epoch` to the last bytes of a connection, or the last start of a server.
    at_ms: AtomicU64,
    /// Milliseconds from `epoch` to the last bytes of the server, at least 1; 0 before the first.
    said_ms: AtomicU64,
    /// The clock of the connection's server.
    server: Option<Arc<LastHeard>>,
}

impl LastHeard {
    /// Creates the clock of a server: a start counts as a sign of life.
    pub(crate) fn new() -> Self {
        let epoch = Instant::now();
        Self { epoch, at_ms: AtomicU64::new(0), said_ms: AtomicU64::new(0), server: None }
    }

    /// Creates the clock of a connection to the server with the clock `server`.
    pub(crate) fn of_connection(server: &Arc<Self>) -> Self {
        server.at_ms.store(server.ms_until(clock::now()), Ordering::Relaxed);
        Self { server: Some(Arc::clone(server)), ..Self::new() }
    }

    pub(crate) fn record(&self) {
        let now = clock::now();
        self.at_ms.store(self.ms_until(now), Ordering::Relaxed);
        if let Some(server) = &self.server {
            server.said_ms.store(server.ms_until(now).max(1), Ordering::Relaxed);
        }
    }

    fn ms_until(&self, now: Instant) -> u64 {
        let ms = u64::try_from(now.saturating_duration_since(self.epoch).as_millis());
        ms.unwrap_or(u64::MAX)
    }

    /// Returns the last sign of life: bytes or a start.
    pub(crate) fn get(&self) -> Instant {
        let at = self.at_ms.load(Ordering::Relaxed).max(self.said_ms.load(Ordering::Relaxed));
        self.epoch + Duration::from_millis(at)
    }

    /// Returns how long a server has sent nothing, or `None` before its first bytes. Starts do not
    /// count.
    pub(crate) fn silent_for(&self) -> Option<Duration> {
        match self.said_ms.load(Ordering::Relaxed) {
            0 => None,
            ms => Some((self.epoch + Duration::from_millis(ms)).elapsed()),
        }
    }
}

/// Longest wait for the client's capabilities, which its first message contains.
const CAPABILITIES_TIMEOUT: Duration = Duration::from_secs(3);

/// The client of a gateway that serves a single client over stdio. Its capabilities are declared to
/// legacy servers on the connection that is otherwise shared, so that one process per server
/// suffices.
pub struct SingleClient {
    /// JSON text of its capabilities, once declared.
    declared: watch::Sender<Option<Bytes>>,
    session: Mutex<Option<Weak<dyn ClientSession>>>,
}

impl SingleClient {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { declared: watch::Sender::new(None), session: Mutex::new(None) })
    }

    /// Reports whether the client has not declared capabilities yet.
    pub fn is_new(&self) -> bool {
        self.declared.borrow().is_none()
    }

    /// Records the client's capabilities (JSON text). Only the first call has an effect.
    pub fn declare(&self, capabilities: &Bytes) {
        self.declared.send_if_modified(|declared| {
            let is_first = declared.is_none();
            if is_first {
                *declared = Some(capabilities.clone());
            }
            is_first
        });
    }

    /// Records the client's legacy session.
    pub fn open_session(&self, session: &Arc<dyn ClientSession>) {
        *self.session.lock() = Some(Arc::downgrade(session));
    }

    pub(crate) fn session(&self) -> Option<Arc<dyn ClientSession>> {
        self.session.lock().as_ref().and_then(Weak::upgrade)
    }

    /// Reports whether exactly these capabilities were declared to servers.
    pub(crate) fn has_declared(&self, capabilities: &Bytes) -> bool {
        self.declared.borrow().as_ref() == Some(capabilities)
    }

    /// Returns the capabilities to declare to servers. Waits briefly for the client; after that,
    /// the empty set is final.
    pub(crate) async fn capabilities(&self) -> Value {
        let mut declared = self.declared.subscribe();
        let _ =
            tokio::time::timeout(CAPABILITIES_TIMEOUT, declared.wait_for(Option::is_some)).await;
        self.declare(&Bytes::from_static(b"{}"));
        let declared = self.declared.borrow();
        let text = declared.as_deref().unwrap_or(b"{}");
        json::from_slice(text).unwrap_or_else(|_| json!({}))
    }
}

#[cfg(test)]
mod tests;
