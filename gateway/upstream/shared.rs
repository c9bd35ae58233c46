//! The state shared by a server's calls and its supervisor: the configuration, the live
//! connection, the status and the lists.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use futures_util::FutureExt;
use lockgate_admission::budget::Budget;
use lockgate_admission::{Bounds, Charge, ConcurrencyLimit, CpuPool, Permit, Pools};
use lockgate_egress::{Connector, Origin};
use lockgate_telemetry::{Metrics, ServerMetrics};
use lockgate_text::list::JsonList;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time;
use tokio_util::sync::CancellationToken;

use crate::breaker::Breaker;
use crate::call::{Authorization, Identification, IdentityAssertion, OwnIdentity, ServerId};
use crate::catalog::{Catalog, CatalogMemory};
use crate::config::{Config, Settings, Transport};
use crate::connection::{Connection, ServerTransport};
use crate::echoed::{Credentials, Searched};
use crate::health::SilentEnds;
use crate::http::{Remote, header_map};
use crate::interactive_state::InteractiveState;
use crate::organisations::OrganisationPart;
use crate::own_lists::Announced;
use crate::receiver::{LastHeard, SingleClient};
use crate::session_connections::Sessions;
use crate::status::{ListFailure, StageError, Status, UpstreamState};
use crate::topics::Topics;
use crate::{Event, Events};

/// Resources shared by the clients of all servers.
#[derive(Clone)]
pub struct Surroundings {
    pub connector: Arc<Connector>,
    pub events: Events,
    /// The metrics of all servers; `None` if they are not exported.
    pub metrics: Option<Arc<Metrics>>,
    /// Present if the gateway serves a single client.
    pub single_client: Option<Arc<SingleClient>>,
    /// Limits shared by the calls of all servers.
    pub pools: Pools,
    /// Limits shared by the servers of an organisation.
    pub part: Option<Arc<OrganisationPart>>,
    /// The memory budget that data from servers is charged to.
    pub budget: Arc<Budget>,
    /// The threads that parse large answers, so that they block no other task.
    pub cpu_pool: Arc<CpuPool>,
    /// JSON text of the gateway's own `Implementation`.
    pub info: Arc<[u8]>,
    /// Asserts the gateway's identity to servers that require it; `None` if no server does.
    pub assertion: Option<Arc<dyn IdentityAssertion>>,
    /// The credential of a server's requests, if it changes; set for each such server.
    pub authorization: Option<Arc<dyn Authorization>>,
    /// Stores a server's lists beyond the life of the process; set for each such server.
    pub memory: Option<Arc<dyn CatalogMemory>>,
    /// The program that runs between the gateway and a child process; it starts with
    /// [`crate::guard`].
    pub guard: PathBuf,
}

pub(crate) struct Shared {
    pub(crate) config: Arc<Settings>,
    /// Idle time after which the server disconnects. Not affected by `reconfigure`.
    pub(crate) rests_after: Option<Duration>,
    pub(crate) id: ServerId,
    pub(crate) around: Surroundings,
    pub(crate) metrics: Arc<ServerMetrics>,
    /// `None` for a process.
    pub(crate) remote: Option<Remote>,
    /// Secrets to remove from its messages.
    pub(crate) searched: Searched,
    pub(crate) live: ArcSwapOption<Connection>,
    pub(crate) status: ArcSwap<Status>,
    pub(crate) catalog: ArcSwap<Catalog>,
    /// Held while the catalog is replaced, so that older lists never overwrite newer lists.
    pub(crate) replacing: Mutex<()>,
    pub(crate) versions: AtomicU64,
    /// Signals every change of the status.
    pub(crate) changed: Notify,
    /// Requests another read of the lists.
    pub(crate) stale: Arc<Notify>,
    pub(crate) announced: Arc<Announced>,
    /// Signals that a call could not connect.
    pub(crate) suspect: Notify,
    pub(crate) last_heard: Arc<LastHeard>,
    pub(crate) recovery: Recovery,
    pub(crate) silent_ends: SilentEnds,
    pub(crate) closing: CancellationToken,
    pub(crate) breaker: Breaker,
    pub(crate) calls: Arc<ConcurrencyLimit>,
    pub(crate) sessions: Sessions,
    pub(crate) topics: Topics,
    pub(crate) interactive: InteractiveState,
    /// When `around.memory` last received the lists, in ms since `epoch`; 0 before.
    pub(crate) kept_at: AtomicU64,
    /// Wakes a resting server.
    pub(crate) woken: Notify,
    /// Requests the server's slot for another server of its organisation.
    pub(crate) gives_way: Notify,
    /// Its slot among the connected servers, if their number is limited.
    pub(crate) place: Mutex<Option<Permit>>,
    /// Signals that a call waits for a connection.
    pub(crate) called: Notify,
    /// Latest time until which clients may poll a task of the server, in ms since `epoch`.
    pub(crate) tasks_until: AtomicU64,
    /// When the server was last used, in ms since `epoch`.
    pub(crate) used_at: AtomicU64,
    /// Whether to start with `initialize`, as found by an earlier attempt.
    pub(crate) known_legacy: AtomicBool,
    /// Whether the server offers HTTP+SSE instead of Streamable HTTP.
    pub(crate) known_sse: AtomicBool,
    /// When rejected calls were last logged.
    pub(crate) refusal_noted: Mutex<Option<Instant>>,
    /// When the lists were read, in ms since `epoch`.
    pub(crate) read_at: AtomicU64,
    pub(crate) epoch: Instant,
}

/// An error in a configuration that prevents creating its client.
#[derive(Debug, thiserror::Error)]
#[error("server {slug}: {words}")]
pub struct ServerSetupError {
    pub slug: String,
    pub words: String,
}

fn find_remote(config: &Config, around: &Surroundings) -> Result<Option<Remote>, String> {
    let (url, headers) = match &config.transport {
        Transport::Stdio { .. } => return Ok(None),
        Transport::Http { url, headers } | Transport::Sse { url, headers } => (url, headers),
    };
    let connector = Arc::clone(&around.connector);
    let origin = Origin::new(connector, url, config.addresses);
    let origin = origin.map_err(|error| error.to_string())?;
    Ok(Some(Remote { url: url.clone(), origin, headers: header_map(headers)? }))
}

fn bounds_of_calls(config: &Config) -> Bounds {
    Bounds { running: config.limits.concurrency, waiting: config.limits.queue }
}

fn first_status(config: &Config) -> Status {
    let state = match (config.enabled, config.rests_after) {
        (false, _) => UpstreamState::Disabled,
        (true, None) => UpstreamState::Pending,
        (true, Some(_)) => UpstreamState::Resting,
    };
    Status {
        state,
        since: SystemTime::now(),
        peer: None,
        trouble: None,
        list_failure: None,
        restarts: 0,
        last_good: None,
    }
}

fn find_metrics(config: &Config, around: &Surroundings) -> Arc<ServerMetrics> {
    let metrics = around.metrics.as_ref();
    let own = metrics.map(|all| all.server(config.organisation.as_deref(), &config.slug));
    own.unwrap_or_default()
}

impl Shared {
    pub(crate) fn new(config: Config, around: Surroundings) -> Result<Self, ServerSetupError> {
        let remote = find_remote(&config, &around)
            .map_err(|words| ServerSetupError { slug: config.slug.clone(), words })?;
        let bounds = bounds_of_calls(&config);
        let part = around.part.as_ref().map(|part| part.calls.clone());
        let part = part.unwrap_or_else(|| around.pools.join());
        Ok(Self {
            metrics: find_metrics(&config, &around),
            id: ServerId {
                organisation: config.organisation.clone(),
                slug: config.slug.as_str().into(),
            },
            remote,
            searched: Searched::of(&config.transport, around.authorization.clone()),
            live: ArcSwapOption::empty(),
            status: ArcSwap::from_pointee(first_status(&config)),
            catalog: ArcSwap::default(),
            replacing: Mutex::default(),
            versions: AtomicU64::new(0),
            changed: Notify::new(),
            stale: Arc::default(),
            announced: Arc::default(),
            suspect: Notify::new(),
            last_heard: Arc::new(LastHeard::new()),
            recovery: Recovery::default(),
            silent_ends: SilentEnds::default(),
            closing: CancellationToken::new(),
            breaker: Breaker::new(config.breaker.clone()),
            calls: ConcurrencyLimit::new(bounds, Charge::Turns, Some(part)),
            sessions: Sessions::default(),
            topics: Topics::default(),
            interactive: InteractiveState::default(),
            kept_at: AtomicU64::new(0),
            woken: Notify::new(),
            gives_way: Notify::new(),
            place: Mutex::default(),
            called: Notify::new(),
            tasks_until: AtomicU64::new(0),
            used_at: AtomicU64::new(0),
            known_legacy: AtomicBool::new(false),
            known_sse: AtomicBool::new(false),
            refusal_noted: Mutex::default(),
            read_at: AtomicU64::new(0),
            epoch: Instant::now(),
            rests_after: config.rests_after,
            config: Settings::new(config),
            around,
        })
    }

    /// Applies a new configuration of the same server with the same transport.
    pub(crate) fn reconfigure(&self, config: Config) {
        let old = self.config.load_full();
        if *old == config {
            return;
        }
        self.calls.resize(bounds_of_calls(&config));
        self.breaker.configure(config.breaker.clone());
        let reads_alike = old.limits.reads_lists_alike(&config.limits);
        self.config.replace(config);
        self.bound_messages();
        if !reads_alike {
            self.stale.notify_one();
            self.interactive.stale.notify_one();
        }
        // The old configuration may have caused the failure.
        if self.status.load().state == UpstreamState::Failed {
            let _ = self.recovery.want();
        }
    }

    pub(crate) fn stderr_tail(&self) -> Vec<String> {
        self.live.load().as_ref().map_or(Vec::new(), |live| live.stderr_tail())
    }

    /// Applies the current message limits to all open connections.
    pub(crate) fn bound_messages(&self) {
        let config = self.config.load_full();
        for connection in self.sessions.all().iter().chain(self.live.load().iter()) {
            if let ServerTransport::Duplex(duplex) = &connection.transport {
                duplex.exchange.bound_messages(config.message_bytes(), config.limits.depth);
            }
        }
    }

    pub(crate) fn tell(&self, event: Event) {
        let _ = self.around.events.send(event);
    }

    /// Replaces the status and notifies all waiters and subscribers.
    pub(crate) fn set_status(&self, change: impl Fn(&mut Status)) {
        self.status.rcu(|old| {
            let mut new = Status::clone(old);
            change(&mut new);
            if new.state != old.state || new.fails_to_list() != old.fails_to_list() {
                new.since = SystemTime::now();
            }
            if new.state != old.state && old.state == UpstreamState::Connected {
                new.last_good = Some(new.since);
            }
            new
        });
        self.changed.notify_waiters();
        self.tell(Event::Changed { server: self.id.clone() });
    }

    /// Records whether the lists could be read: the failure, or `None`.
    pub(crate) fn set_list_failure(&self, words: Option<&str>) {
        let words = words.map(|words| self.hide_credentials(words));
        let status = self.status.load();
        if status.list_failure.as_ref().map(|known| &known.words) == words.as_ref() {
            return;
        }
        if let Some(words) = &words {
            tracing::warn!(server = %self.id, "its lists could not be read: {words}; the previous \
                lists stay in use");
        }
        // The same failure with other words began earlier.
        self.set_status(|status| {
            let since = status.list_failure.as_ref().map(|known| known.since);
            let since = since.unwrap_or_else(SystemTime::now);
            status.list_failure = words.clone().map(|words| ListFailure { words, since });
        });
    }

    pub(crate) fn fail(&self, state: UpstreamState, trouble: &StageError) {
        let trouble =
            StageError { words: self.hide_credentials(&trouble.words), ..trouble.clone() };
        tracing::warn!(
            server = %self.id,
            state = state.as_str(),
            stderr = %JsonList(&trouble.stderr),
            "{trouble}"
        );
        self.set_status(|status| {
            status.state = state;
            status.trouble = Some(trouble.clone());
        });
    }

    /// Removes credentials that a server may have echoed in its answer.
    fn hide_credentials(&self, words: &str) -> String {
        let Some(remote) = &self.remote else { return words.to_owned() };
        let mut headers = remote.headers.clone();
        if let Some(identification) = self.identify(None) {
            identification.add(&mut headers, None);
        }
        let values = headers.values().filter_map(|value| value.to_str().ok());
        Credentials::new(values).map_or_else(|| words.to_owned(), |known| known.hide(words))
    }

    /// Returns the headers made for each request on a connection of this owner, or of the gateway.
    pub(crate) fn identify(
        &self,
        owner: Option<Arc<dyn IdentityAssertion>>,
    ) -> Option<Identification> {
        let authorization = self.around.authorization.clone();
        let owner = owner.or_else(|| self.around.assertion.clone());
        let parts = self.config.load().identity.clone().zip(owner);
        let identity = parts.map(|(audience, owner)| OwnIdentity { audience, owner });
        if identity.is_none() && authorization.is_none() {
            return None;
        }
        Some(Identification { identity, authorization })
    }

    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Reports whether the lists are older than both the server's TTL and a minute.
    pub(crate) fn is_out_of_date(&self) -> bool {
        let keeps = self.catalog.load().ttl_ms.unwrap_or(0).max(60_000);
        self.now_ms().saturating_sub(self.read_at.load(Ordering::Relaxed)) > keeps
    }
}

/// Shortest time between a failed attempt and the next attempt on behalf of a call.
const MIN_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The same as a multiple of the failed attempt's duration, however many calls arrive.
const RETRY_FACTOR: u32 = 2;

#[derive(Default)]
pub(crate) struct Recovery {
    wanted: Notify,
    state: Mutex<Attempts>,
}

#[derive(Default)]
struct Attempts {
    failed: u64,
    /// When the next attempt starts by itself, and the earliest time on behalf of a call; `None`
    /// during an attempt.
    next: Option<(time::Instant, time::Instant)>,
}

impl Recovery {
    /// Schedules the next attempt after `pause`, or sooner on behalf of a call. `failed_after` is
    /// the duration of a failed attempt; `None` if an established connection was lost.
    pub(crate) fn schedule(&self, failed_after: Option<Duration>, pause: Duration) {
        let now = time::Instant::now();
        let rest = failed_after
            .map_or(MIN_RETRY_INTERVAL, |took| MIN_RETRY_INTERVAL.max(took * RETRY_FACTOR));
        let mut state = self.state.lock();
        state.failed += u64::from(failed_after.is_some());
        state.next = Some((now + pause, now + rest));
    }

    pub(crate) async fn wait(&self) {
        let next = self.state.lock().next;
        let Some((due, allowed)) = next else { return };
        tokio::select! {
            () = time::sleep_until(due) => {}
            () = self.wanted.notified() => time::sleep_until(due.min(allowed)).await,
        }
        self.state.lock().next = None;
        // Clears earlier requests: the attempt that starts now serves them.
        let _ = self.wanted.notified().now_or_never();
    }

    pub(crate) fn failed(&self) -> u64 {
        self.state.lock().failed
    }

    /// Requests an attempt. Returns false if none starts soon.
    pub(crate) fn want(&self) -> bool {
        let next = self.state.lock().next;
        let Some((due, allowed)) = next else { return true };
        if due.min(allowed) > time::Instant::now() + MIN_RETRY_INTERVAL {
            return false;
        }
        self.wanted.notify_one();
        true
    }
}
