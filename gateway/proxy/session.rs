//! The table of legacy sessions: each bound to one caller and found by an unguessable id. An idle
//! one is small: streams and subscriptions are made when they are first needed.
//! `Gateway::end_session` alone ends one (DELETE, idle, a key no longer good); here it is only
//! taken out of the table.

mod asked;
mod bounds;
mod changes;
mod client_session;
mod elicitation;
mod level;
mod log;
mod members;
pub(crate) mod portable;
mod question;
mod subscribed;
mod tasks;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lockgate_authn::Principal;
use lockgate_protocol::capabilities;
use lockgate_protocol::revision::Revision;
use lockgate_text::hex;
use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;

use asked::Questions;
pub(crate) use bounds::TooMany;
use elicitation::Elicitations;
pub(crate) use log::{AWAY, Log, Reader, parse_event_id};
use members::Members;
use portable::{Ended, Opening};
pub(crate) use subscribed::{AtServer, NewSubscription, Subscribed, covers};
pub(crate) use tasks::SessionTask;

use crate::catalog::{View, mark::ListMarks};
use crate::own_lists::{OwnClient, OwnClients, OwnServers};
use crate::quota::{QuotaPermit, Quotas};
use crate::transport::Endpoint;
use lockgate_admission::budget::Budget;

/// Calls of one session that run and can be cancelled.
const MAX_RUNNING: usize = 1024;
/// Streams of one session that can be resumed.
const MAX_LOGS: usize = 64;

/// One legacy session.
pub(crate) struct Session {
    pub(crate) id: Box<str>,
    key: u64,
    /// Its owner, with what the credential of the latest request grants.
    principal: RwLock<Principal>,
    pub(crate) endpoint: Endpoint,
    pub(crate) revision: Revision,
    /// JSON text of what the client declared, as far as the gateway carries it.
    pub(crate) capabilities: Bytes,
    /// Servers can ask its client things.
    pub(crate) interactive: bool,
    /// Its client tells when its roots change.
    roots_changes: bool,
    /// What servers offer to such clients alone has been waited for.
    pub(crate) interactive_awaited: AtomicBool,
    /// Log level, plus one; 0 when none was set.
    level: AtomicU8,
    pub(crate) began: Instant,
    /// Milliseconds since the table's epoch.
    touched: AtomicU64,
    /// The lists that the client knows of, or was told of.
    lists: Mutex<ListMarks>,
    /// The servers with a connection for it that may list something else.
    own_servers: Arc<OwnServers>,
    /// Lists that changed while no stream was open, a bit each.
    dirty: AtomicU8,
    /// The session was deleted or has expired.
    pub(crate) over: CancellationToken,
    state: Mutex<Option<Box<State>>>,
    limits: Limits,
    /// The end of the ids of its questions, where their answers may come to another gateway.
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
struct State {
    /// Streams by number; 0 is the one outside of calls.
    logs: HashMap<u64, Arc<Log>>,
    next_log: u64,
    running: HashMap<Bytes, CancellationToken>,
    questions: Questions,
    elicitations: Elicitations,
    /// Tasks that the client follows.
    tasks: VecDeque<SessionTask>,
    /// Subscriptions by exposed URI.
    subscriptions: HashMap<String, AtServer>,
    next_subscription: u64,
}

/// All sessions.
pub(crate) struct Sessions {
    table: dashmap::DashMap<Box<str>, Arc<Session>>,
    members: Members<Session>,
    epoch: Instant,
    next_key: AtomicU64,
    /// How many have lists of their own.
    with_own_lists: Arc<AtomicUsize>,
    shares: Arc<Quotas>,
    budget: Arc<Budget>,
    ended: Ended,
}

impl Sessions {
    /// `budget` is what the streams of all may take.
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self {
            table: dashmap::DashMap::new(),
            members: Members::default(),
            epoch: Instant::now(),
            next_key: AtomicU64::new(1),
            with_own_lists: Arc::default(),
            shares: Arc::default(),
            budget,
            ended: Ended::default(),
        }
    }

    /// What distinguishes one client from all others towards servers.
    pub(crate) fn next_key(&self) -> u64 {
        self.next_key.fetch_add(1, Ordering::Relaxed)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Opens a session, or goes on with one under its id; `view` is what its client is going to
    /// list.
    ///
    /// # Errors
    /// [`TooMany`].
    pub(crate) fn open(
        &self,
        principal: Principal,
        endpoint: Endpoint,
        opening: Opening,
        id: Option<Box<str>>,
        limits: &crate::Limits,
        view: &View,
    ) -> Result<Arc<Session>, TooMany> {
        if self.table.len() >= limits.sessions {
            return Err(TooMany::All);
        }
        let own = limits.sessions_per_principal;
        let share = self.shares.take_of_all(&principal, own, limits.sessions)?;
        let Some(id) = id.or_else(random_id) else { return Err(TooMany::All) };
        let Opening { revision, capabilities } = opening;
        let roots_changes = capabilities::declares(&capabilities, &["roots", "listChanged"]);
        // Told where the client's session has a connection of its own.
        let capabilities = capabilities::carried(&capabilities);
        let interactive = capabilities::is_interactive(&capabilities);
        let key = self.next_key();
        let session = Arc::new_cyclic(|this| Session {
            key,
            own_servers: OwnServers::new(key, Arc::clone(&self.with_own_lists)),
            principal: RwLock::new(principal),
            endpoint,
            revision,
            interactive,
            roots_changes,
            lists: Mutex::new(view.marks(interactive)),
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
        // First here: whoever finds it in the table may take it out again.
        self.members.add(session.principal().organisation(), session.key, session);
        // Two requests may go on with a session at once.
        let kept = Arc::clone(self.table.entry(id).or_insert_with(|| Arc::clone(session)).value());
        if kept.key != session.key {
            self.members.remove(session.principal().organisation(), session.key);
        }
        kept
    }

    /// Remembers that a client has ended its session.
    pub(crate) fn record_ended(&self, id: &str) {
        self.ended.record(id);
    }

    /// Whether a session may be gone on with: it is not here, and its client has not ended it.
    pub(crate) fn may_go_on(&self, id: &str) -> bool {
        !self.table.contains_key(id) && !self.ended.contains(id)
    }

    /// Whether there is a session with this id, whoever's it is.
    pub(crate) fn exists(&self, id: &str) -> bool {
        self.table.contains_key(id)
    }

    /// The session with this id, if it is this caller's at this endpoint. Foreign and unknown look
    /// alike.
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

    /// Whether it was there.
    pub(crate) fn remove(&self, session: &Session) -> bool {
        let removed = self.table.remove(&session.id);
        self.members.remove(session.principal().organisation(), session.key);
        session.over.cancel();
        removed.is_some()
    }

    /// The sessions without a request for `idle`, except those with an open stream: they are to
    /// end. Of the others, lets go what nobody may resume any more.
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
        let mut all = Vec::with_capacity(self.table.len());
        for entry in &self.table {
            all.push(Arc::clone(entry.value()));
        }
        all
    }

    /// The sessions of an organisation's members; without one, of everybody.
    pub(crate) fn of(&self, organisation: Option<&str>) -> Vec<Arc<Session>> {
        match organisation {
            Some(organisation) => self.members.of(organisation),
            None => self.all(),
        }
    }
}

impl State {
    fn forget_stale(&mut self) {
        self.logs.retain(|&number, log| number == 0 || !log.is_stale());
    }
}

impl Session {
    fn state<T>(&self, use_it: impl FnOnce(&mut State) -> T) -> T {
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

    /// Returns itself, if it may have lists of its own.
    pub(crate) fn own_clients(&self) -> OwnClients {
        match self.own_servers.is_any() {
            true => vec![OwnClient { servers: Arc::clone(&self.own_servers), is_first: true }],
            false => OwnClients::new(),
        }
    }

    /// Takes over what the owner has been granted by now, if anything.
    pub(crate) fn renew(
        &self,
        now: impl FnOnce(&Principal) -> Option<Principal>,
    ) -> Option<Principal> {
        let mut owner = self.principal.write();
        *owner = now(&owner)?;
        Some(owner.clone())
    }

    /// Remembers a running call until the guard is dropped, so that it can be cancelled by its id.
    pub(crate) fn run(self: &Arc<Self>, id: Bytes) -> Running {
        let token = CancellationToken::new();
        self.state(|state| {
            if state.running.len() < MAX_RUNNING {
                state.running.insert(id.clone(), token.clone());
            }
        });
        Running { session: Arc::clone(self), id, token }
    }

    /// The client does not want the answer to this request any more.
    pub(crate) fn cancel(&self, id: &[u8]) {
        if let Some(token) = self.state(|state| state.running.remove(id)) {
            token.cancel();
        }
    }

    /// A log for the stream of one call.
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
            state.next_log += 1;
            let log = self.new_stream(state.next_log);
            state.logs.insert(log.number, Arc::clone(&log));
            log
        })
    }

    /// The log of a stream, by its number.
    pub(crate) fn log(&self, number: u64) -> Option<Arc<Log>> {
        match number {
            0 => Some(self.outside()),
            _ => self.state(|state| state.logs.get(&number).cloned()),
        }
    }

    /// The log of the stream outside of calls.
    fn outside(&self) -> Arc<Log> {
        self.state(|state| Arc::clone(state.logs.entry(0).or_insert_with(|| self.new_stream(0))))
    }
}

fn random_id() -> Option<Box<str>> {
    let mut random = [0u8; 16];
    getrandom::fill(&mut random).ok()?;
    Some(hex::encode(&random).into())
}

/// A running call of a session.
pub(crate) struct Running {
    session: Arc<Session>,
    id: Bytes,
    /// Cancelled when the client says so.
    pub(crate) token: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.session.state(|state| drop(state.running.remove(&self.id)));
    }
}
