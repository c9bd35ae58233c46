//! The table of legacy sessions. Each is bound to a caller and has an unguessable id. Idle sessions
//! are small: streams and subscriptions are allocated on first use. Only `Edge::end_session`
//! ends a session (DELETE, idle, invalid key); this module just removes it from the table.

mod log;
mod members;
pub(crate) mod portable;
mod question;
mod subscribed;

pub(crate) use log::{ABSENCE_GRACE_PERIOD, Log, Reader, parse_event_id};
pub(crate) use subscribed::{AtServer, NewSubscription, SessionTask, Subscribed};

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lockgate_admission::budget::Budget;
use lockgate_authn::Principal;
use lockgate_protocol::capabilities;
use lockgate_protocol::revision::Revision;
use lockgate_proxy::answers::Question;
use lockgate_proxy::catalog::View;
use lockgate_proxy::catalog::entry::{Audience, ListMarks};
use lockgate_proxy::own_lists::OwnServers;
use lockgate_proxy::quota::{Exhausted, QuotaPermit, Quotas};
use lockgate_proxy::transport::Endpoint;
use lockgate_text::hex;
use lockgate_upstream::{ClientSession, LogLevel, QuestionError};
use parking_lot::{Mutex, RwLock};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use members::Members;
use portable::{Ended, Opening};

/// Running calls of a session that can be cancelled.
const MAX_RUNNING: usize = 1024;
/// Resumable streams of a session.
const MAX_LOGS: usize = 64;

pub(crate) struct Session {
    pub(crate) id: Box<str>,
    /// The owner, with the grants of the latest request's credential.
    principal: RwLock<Principal>,
    pub(crate) endpoint: Endpoint,
    pub(crate) revision: Revision,
    /// JSON text of the client capabilities that the gateway supports.
    pub(crate) capabilities: Bytes,
    /// Set if the client accepts questions of servers.
    pub(crate) interactive: bool,
    roots_changes: bool,
    /// Set if the client loads definitions of tools on demand.
    pub(crate) defers_loading: bool,
    /// Set once the lists for interactive clients have been waited for.
    pub(crate) interactive_awaited: AtomicBool,
    /// Log level plus 1; 0 if unset.
    level: AtomicU8,
    pub(crate) began: Instant,
    /// Milliseconds since the table's epoch.
    touched: AtomicU64,
    /// The lists last seen by or announced to the client.
    lists: Mutex<ListMarks>,
    /// Servers where this session's connection may have its own lists.
    own_servers: Arc<OwnServers>,
    /// A bit for each list that changed while no stream was open.
    dirty: AtomicU8,
    /// Cancelled when the session was deleted or has expired.
    pub(crate) over: CancellationToken,
    state: Mutex<Option<Box<SessionState>>>,
    limits: Limits,
    /// Suffix of the question ids, if answers may arrive at another gateway.
    pub(crate) holder: OnceLock<Box<str>>,
    budget: Arc<Budget>,
    _share: QuotaPermit,
    this: Weak<Self>,
}

#[derive(Clone, Copy)]
struct Limits {
    buffer: usize,
    question_timeout: Duration,
    answer_bytes: usize,
}

#[derive(Default)]
struct SessionState {
    /// Streams by number; 0 is the stream outside of calls.
    logs: HashMap<u64, Arc<Log>>,
    next_log: u64,
    running: HashMap<Bytes, oneshot::Sender<()>>,
    questions: Questions,
    /// The elicitations that await completion.
    elicitations: VecDeque<Elicitation>,
    tasks: VecDeque<SessionTask>,
    /// Subscriptions by exposed URI.
    subscriptions: HashMap<String, AtServer>,
    next_subscription: u64,
}

pub(crate) struct Sessions {
    table: dashmap::DashMap<Box<str>, Arc<Session>>,
    members: Members<Session>,
    epoch: Instant,
    shares: Arc<Quotas>,
    budget: Arc<Budget>,
    ended: Ended,
}

impl Sessions {
    /// Creates an empty table. `budget` bounds the buffers of all streams.
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self {
            table: dashmap::DashMap::new(),
            members: Members::default(),
            epoch: Instant::now(),
            shares: Arc::default(),
            budget,
            ended: Ended::default(),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Opens a session with this initial view, or resumes a session under its id.
    ///
    /// # Errors
    /// A limit on sessions is reached, or no random bytes are available.
    pub(crate) fn open(
        &self,
        (principal, endpoint): (Principal, Endpoint),
        opening: Opening,
        id: Option<Box<str>>,
        limits: &lockgate_proxy::Limits,
        view: &View,
    ) -> Result<Arc<Session>, Exhausted> {
        if self.table.len() >= limits.sessions {
            return Err(Exhausted::All);
        }
        let own = limits.of_principal();
        let share = self.shares.take_of_all(&principal, own, limits.sessions)?;
        let id = id.or_else(|| hex::random::<16>().map(Into::into));
        let Some(id) = id else { return Err(Exhausted::All) };
        let Opening { revision, capabilities, defers_loading } = opening;
        let roots_changes = capabilities::declares(&capabilities, &["roots", "listChanged"]);
        // `carried` drops `roots.listChanged`, which applies only to the session's own connections.
        let capabilities = capabilities::carried(&capabilities);
        let interactive = capabilities::is_interactive(&capabilities);
        let session = Arc::new_cyclic(|this| Session {
            own_servers: OwnServers::new(Arc::default()),
            principal: RwLock::new(principal),
            endpoint,
            revision,
            interactive,
            roots_changes,
            defers_loading,
            lists: Mutex::new(view.marks(Audience::of(interactive, true))),
            interactive_awaited: AtomicBool::new(false),
            capabilities,
            level: AtomicU8::new(0),
            began: Instant::now(),
            touched: AtomicU64::new(self.now()),
            dirty: AtomicU8::new(0),
            over: CancellationToken::new(),
            state: Mutex::new(None),
            limits: Limits {
                buffer: limits.stream_buffer,
                question_timeout: limits.question_timeout,
                answer_bytes: limits.answer_bytes,
            },
            holder: OnceLock::new(),
            budget: Arc::clone(&self.budget),
            _share: share,
            this: this.clone(),
            id: id.clone(),
        });
        Ok(self.keep(id, &session))
    }

    fn keep(&self, id: Box<str>, session: &Arc<Session>) -> Arc<Session> {
        // Before the table, because a concurrent request may find and remove the session there.
        self.members.add(session.principal().organisation(), session.key(), session);
        // Two requests may resume a session concurrently.
        let kept = Arc::clone(self.table.entry(id).or_insert_with(|| Arc::clone(session)).value());
        if kept.key() != session.key() {
            self.members.remove(session.principal().organisation(), session.key());
        }
        kept
    }

    /// Records that a client ended its session, so that the session cannot be resumed.
    pub(crate) fn record_ended(&self, id: &str) {
        self.ended.record(id);
    }

    /// Returns whether a session may be resumed: it is not in the table, and its client has not
    /// ended it.
    pub(crate) fn may_go_on(&self, id: &str) -> bool {
        !self.table.contains_key(id) && !self.ended.contains(id)
    }

    /// Returns whether any caller has a session with this id.
    pub(crate) fn exists(&self, id: &str) -> bool {
        self.table.contains_key(id)
    }

    /// Returns the caller's session with this id at this endpoint. Sessions of other callers look
    /// the same as unknown ids.
    pub(crate) fn find(
        &self,
        id: &str,
        principal: &Principal,
        endpoint: &Endpoint,
    ) -> Option<Arc<Session>> {
        let session = Arc::clone(self.table.get(id)?.value());
        if *session.principal.read() != *principal || session.endpoint != *endpoint {
            return None;
        }
        session.renew(|_| Some(principal.clone()));
        session.touched.store(self.now(), Ordering::Relaxed);
        Some(session)
    }

    /// Removes a session. Returns whether it was in the table.
    pub(crate) fn remove(&self, session: &Session) -> bool {
        let removed = self.table.remove(&session.id);
        self.members.remove(session.principal().organisation(), session.key());
        session.over.cancel();
        removed.is_some()
    }

    /// Returns the sessions to end: those without a request for `idle` and without an open stream.
    /// Drops expired stream buffers of all sessions.
    pub(crate) fn find_expired(&self, idle: Duration) -> Vec<Arc<Session>> {
        let now = self.now();
        let idle = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
        let mut ended = Vec::new();
        for entry in &self.table {
            let session = entry.value();
            let quiet = now.saturating_sub(session.touched.load(Ordering::Relaxed));
            if quiet > idle && !session.is_listening() {
                ended.push(Arc::clone(session));
            }
        }
        for session in self.all() {
            session.forget_stale();
        }
        ended
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.table.iter().map(|entry| Arc::clone(entry.value())).collect()
    }

    /// Returns the sessions of an organisation's members, or all sessions.
    pub(crate) fn of(&self, organisation: Option<&str>) -> Vec<Arc<Session>> {
        organisation.map_or_else(|| self.all(), |organisation| self.members.of(organisation))
    }
}

impl SessionState {
    fn forget_stale(&mut self) {
        self.logs.retain(|&number, log| number == 0 || !log.is_stale());
    }
}

impl Session {
    fn state<T>(&self, use_it: impl FnOnce(&mut SessionState) -> T) -> T {
        let mut state = self.state.lock();
        use_it(state.get_or_insert_default())
    }

    fn forget_stale(&self) {
        if let Some(state) = self.state.lock().as_mut() {
            state.forget_stale();
        }
    }

    fn new_stream(&self, number: u64) -> Arc<Log> {
        Arc::new(Log::new(number, self.limits.buffer, Arc::clone(&self.budget)))
    }

    fn is_listening(&self) -> bool {
        let state = self.state.lock();
        let Some(state) = state.as_ref() else { return false };
        matches!(state.logs.get(&0), Some(log) if log.has_reader())
    }

    pub(crate) fn principal(&self) -> Principal {
        self.principal.read().clone()
    }

    /// Updates the owner's grants. Returns `None` and keeps the old grants if `now` does.
    pub(crate) fn renew(
        &self,
        now: impl FnOnce(&Principal) -> Option<Principal>,
    ) -> Option<Principal> {
        let mut owner = self.principal.write();
        *owner = now(&owner)?;
        Some(owner.clone())
    }

    /// Registers a running call for cancellation by its id, until the guard is dropped.
    pub(crate) fn run(self: &Arc<Self>, id: Bytes) -> Running {
        let (cancel, cancelled) = oneshot::channel();
        self.state(|state| {
            if state.running.len() < MAX_RUNNING {
                state.running.insert(id.clone(), cancel);
            }
        });
        Running { session: Arc::clone(self), id, cancelled: Some(cancelled) }
    }

    pub(crate) fn cancel(&self, id: &[u8]) {
        if let Some(cancel) = self.state(|state| state.running.remove(id)) {
            let _ = cancel.send(());
        }
    }

    /// Creates the log for the stream of a call. Displaces the oldest if there are too many.
    pub(crate) fn new_log(&self) -> Arc<Log> {
        self.state(|state| {
            state.forget_stale();
            if state.logs.len() >= MAX_LOGS {
                let mut oldest = u64::MAX;
                for &number in state.logs.keys() {
                    if number != 0 {
                        oldest = oldest.min(number);
                    }
                }
                state.logs.remove(&oldest);
            }
            if state.next_log == 0 {
                state.next_log = random_start();
            }
            state.next_log += 1;
            let log = self.new_stream(state.next_log);
            state.logs.insert(log.number, Arc::clone(&log));
            log
        })
    }

    pub(crate) fn log(&self, number: u64) -> Option<Arc<Log>> {
        match number {
            0 => Some(self.outside()),
            _ => self.state(|state| state.logs.get(&number).cloned()),
        }
    }

    /// Returns the stream outside of calls.
    pub(crate) fn outside(&self) -> Arc<Log> {
        self.state(|state| Arc::clone(state.logs.entry(0).or_insert_with(|| self.new_stream(0))))
    }
}

/// Returns a random start for the stream numbers of a session. Gateways with the same session use
/// different numbers, so that an event id of one matches no stream of another.
fn random_start() -> u64 {
    let mut random = [0; 4];
    // Without randomness, numbers start at 1.
    let _ = getrandom::fill(&mut random);
    u64::from(u32::from_be_bytes(random))
}

/// A running call that its client can cancel.
pub(crate) struct Running {
    session: Arc<Session>,
    id: Bytes,
    cancelled: Option<oneshot::Receiver<()>>,
}

impl Running {
    /// Completes when the client cancels the call.
    pub(crate) async fn cancelled(&mut self) {
        poll_fn(|cx| self.poll_cancelled(cx)).await;
    }

    pub(crate) fn poll_cancelled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(cancelled) = &mut self.cancelled else { return Poll::Pending };
        let is_cancelled = ready!(Pin::new(cancelled).poll(cx)).is_ok();
        // The sender is dropped if there are too many calls, or another with the same id.
        self.cancelled = None;
        if is_cancelled { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The receiver is dropped first, so that the sender's drop wakes no task.
        self.cancelled = None;
        self.session.state(|state| drop(state.running.remove(&self.id)));
    }
}

impl Session {
    pub(crate) fn level(&self) -> Option<LogLevel> {
        LogLevel::ALL.get(usize::from(self.level.load(Ordering::Relaxed)).checked_sub(1)?).copied()
    }

    /// Returns the minimum level sent to the client. Until the client sets a level, every message
    /// of the server is sent, as on a direct connection.
    pub(crate) fn wanted_level(&self) -> LogLevel {
        self.level().unwrap_or(LogLevel::Debug)
    }

    pub(crate) fn set_level(&self, level: LogLevel) {
        self.level.store(level as u8 + 1, Ordering::Relaxed);
    }
}

/// Pending questions to a session's client.
#[derive(Default)]
struct Questions {
    open: HashMap<u64, Asked>,
    /// The id of the latest question.
    last: u64,
    /// The latest questions that ended without an answer. An answer to such a question is late, not
    /// an error.
    cancelled: VecDeque<u64>,
}

struct Asked {
    question: Question,
    /// The number of the stream that carried the question.
    stream: u64,
    /// Set if the question is asked again after an unusable answer.
    is_repeatable: bool,
    waiting: oneshot::Sender<Result<Bytes, QuestionError>>,
}

/// An elicitation that sends the client to a URL (`mode: url`). In 2025-11-25 it has an id, with
/// which its server later announces its completion. Clients see ids of ours; modern servers send
/// none.
struct Elicitation {
    /// The id that the client received.
    shown: Box<str>,
    slug: String,
    own: String,
}
