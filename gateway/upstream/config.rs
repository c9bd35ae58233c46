//! The validated configuration of an upstream, and its current value. Settings that do not affect
//! the connection are replaced while it is open; calls read them when needed. Reads no files and no
//! environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use lockgate_egress::Policy;
use lockgate_text::setting::{Seconds, Size, Whole};
use lockgate_text::settings;
use tokio::sync::Notify;

/// An MCP server that the gateway calls. A reload changes nothing if the values are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Given name, `^[a-z0-9-]+$`, at most 64 characters; the namespace of its tools.
    pub slug: String,
    /// The owning organisation; `None` for the operator's servers, which all share.
    pub organisation: Option<Arc<str>>,
    pub transport: Transport,
    /// For HTTP: the audience of the identity assertions sent with each request; `None` sends none.
    pub identity: Option<Arc<str>>,
    /// For HTTP: whether requests carry a credential that changes, in `Authorization`.
    pub has_authorization: bool,
    /// For HTTP: the addresses that its host may resolve to.
    pub addresses: Policy,
    pub era: EraChoice,
    /// Whether arguments are validated against the tools' schemas before a call.
    pub validates_arguments: bool,
    /// Not connected and not listed when false.
    pub enabled: bool,
    /// For legacy servers: the sharing of connections.
    pub sessions: Sessions,
    /// Timeout of a call, 1–300 s.
    pub call_timeout: Duration,
    /// Timeouts of individual tools by their own name, 1–300 s.
    pub tool_timeouts: BTreeMap<String, Duration>,
    /// Longest silence of the server while all permits are taken, before waiting calls are
    /// rejected.
    pub stall_timeout: Duration,
    /// Timeout for the start, the handshake and reading all lists.
    pub start_timeout: Duration,
    /// Idle time after which an on-demand server is disconnected; `None` keeps it connected.
    pub rests_after: Option<Duration>,
    pub limits: Limits,
    pub breaker: Breaker,
    /// Health checks; `None` if disabled.
    pub health: Option<Health>,
}

/// The transport to a server.
#[derive(Clone, PartialEq, Eq)]
pub enum Transport {
    /// A child process; `env` is its environment besides `PATH`, `HOME`, `LANG`, `TMPDIR` and the
    /// like.
    Stdio {
        command: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
        cwd: Option<PathBuf>,
        /// Whether it also receives proxy and certificate settings.
        has_network: bool,
    },
    /// Streamable HTTP, with a fallback to HTTP+SSE if the server only offers that.
    Http { url: url::Url, headers: BTreeMap<String, String> },
    /// HTTP+SSE (2024-11-05).
    Sse { url: url::Url, headers: BTreeMap<String, String> },
}

settings! {
    /// The protocol era to use.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum EraChoice { #[default] Auto, Modern, Legacy }

    /// The sharing of connections to a legacy server.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum Sessions {
        // Each interactive client has its own; the others share one.
        #[default]
        Auto,
        // One connection for all clients; the server may not ask clients anything.
        Shared,
        // One connection (over stdio: one process) per legacy client session.
        Client,
    }

    /// Limits on the messages and lists of an upstream, and on calls to it.
    #[derive(Debug)]
    pub struct Limits as "ServerLimits" {
        /// Bytes of one response, 1KiB–1GiB.
        pub response_bytes: usize = Size<1024, 0x4000_0000, 100_000_000>,
        /// Bytes of one event of an event stream, 1KiB–1GiB.
        pub event_bytes: usize = Size<1024, 0x4000_0000, 16_000_000>,
        /// Bytes of one line over stdio, 1KiB–1GiB.
        pub line_bytes: usize = Size<1024, 0x4000_0000, 16_000_000>,
        /// Items of each list, 1–100000.
        pub list_items: usize = Whole<1, 100_000, 5000>,
        /// Pages of each list, 1–10000.
        pub list_pages: usize = Whole<1, 10_000, 100>,
        /// Bytes of one description or title of an item, also within its schemas, 256–16MiB; an
        /// item with a longer one is omitted.
        pub description_bytes: usize = Size<256, 0x100_0000, 0x8000>,
        /// Nesting of a message. This limit and the following are not keys of `limits`.
        @serde(skip)
        pub depth: usize,
        /// Concurrent calls.
        @serde(skip)
        pub concurrency: usize,
        /// Calls waiting for a permit.
        @serde(skip)
        pub queue: usize,
        /// Connections that belong to one client each.
        @serde(skip)
        pub client_connections: usize,
    }

    /// Opens after `failures` consecutive transport failures; admits a trial call after `cooldown`.
    #[derive(Debug)]
    pub struct Breaker as "Breaker" {
        /// Consecutive transport failures that open it, 1–1000.
        pub failures: u32 = Whole<1, 1000, 5>,
        /// How long it stays open, 1–300 s.
        pub cooldown: Duration = Seconds<1, 300, 30>,
    }
}

/// Default of [`Limits::client_connections`] over stdio, where each is a process.
pub const CLIENT_PROCESSES: usize = 16;
/// Default of [`Limits::client_connections`] over HTTP.
pub const CLIENT_CONNECTIONS: usize = 1024;

/// Health checks: a server that was silent for `interval` is pinged, and becomes unresponsive if it
/// sends nothing within `timeout`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    pub interval: Duration,
    pub timeout: Duration,
}

impl Limits {
    /// Reports whether reading the lists under both limits gives the same result.
    pub(crate) fn reads_lists_alike(&self, other: &Self) -> bool {
        (self.list_items, self.list_pages, self.description_bytes)
            == (other.list_items, other.list_pages, other.description_bytes)
    }
}

/// Idle time of a server that was added at run time.
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(300);

impl Config {
    /// Returns the longest message, in bytes, on a connection that multiplexes messages.
    pub(crate) fn message_bytes(&self) -> usize {
        let limits = &self.limits;
        let most = match self.transport {
            Transport::Stdio { .. } => limits.line_bytes,
            Transport::Http { .. } | Transport::Sse { .. } => limits.event_bytes,
        };
        most.min(limits.response_bytes)
    }

    /// Reports whether both configurations reach the same server in the same way, so that a
    /// connection can be kept.
    pub fn is_reached_alike(&self, other: &Self) -> bool {
        // Destructured, so that a new setting does not compile until it is classified here.
        let Self {
            slug,
            organisation,
            transport,
            identity,
            has_authorization,
            addresses,
            era,
            enabled,
            sessions,
            rests_after,
            call_timeout: _,
            tool_timeouts: _,
            stall_timeout: _,
            start_timeout: _,
            limits: _,
            breaker: _,
            health: _,
            validates_arguments: _,
        } = self;
        (slug, organisation, transport, addresses)
            == (&other.slug, &other.organisation, &other.transport, &other.addresses)
            && (identity, has_authorization) == (&other.identity, &other.has_authorization)
            && (era, enabled, sessions, rests_after)
                == (&other.era, &other.enabled, &other.sessions, &other.rests_after)
    }

    /// Returns the configuration of an HTTP server added by an organisation: default limits of the
    /// configuration file, and connected on demand.
    pub fn of_organisation(
        organisation: Arc<str>,
        slug: String,
        transport: Transport,
        addresses: Policy,
    ) -> Self {
        let seconds = Duration::from_secs;
        Self {
            slug,
            organisation: Some(organisation),
            transport,
            // Only the operator's own servers receive identity assertions.
            identity: None,
            has_authorization: false,
            addresses,
            era: EraChoice::Auto,
            validates_arguments: false,
            enabled: true,
            sessions: Sessions::Auto,
            call_timeout: seconds(60),
            tool_timeouts: BTreeMap::new(),
            stall_timeout: seconds(10),
            start_timeout: seconds(30),
            rests_after: Some(DEFAULT_IDLE_TIMEOUT),
            limits: Limits {
                depth: 64,
                concurrency: 128,
                queue: 128,
                client_connections: CLIENT_CONNECTIONS,
                ..Limits::default()
            },
            breaker: Breaker::default(),
            health: None,
        }
    }
}

/// Shows names and counts, never the values of headers and environment, which may be secrets.
impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stdio { command, env, cwd, .. } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("env", &env.keys())
                .field("cwd", cwd)
                .finish_non_exhaustive(),
            Self::Http { url, headers } | Self::Sse { url, headers } => f
                .debug_struct(if matches!(self, Self::Http { .. }) { "Http" } else { "Sse" })
                .field("url", &url.host_str())
                .field("headers", &headers.keys())
                .finish(),
        }
    }
}

pub(crate) struct Settings {
    current: ArcSwap<Config>,
    changed: Notify,
}

impl Settings {
    pub(crate) fn new(config: Config) -> Arc<Self> {
        Arc::new(Self { current: ArcSwap::from_pointee(config), changed: Notify::new() })
    }

    /// Returns the current configuration; the guard should not be held for long.
    pub(crate) fn load(&self) -> Guard<Arc<Config>> {
        self.current.load()
    }

    pub(crate) fn load_full(&self) -> Arc<Config> {
        self.current.load_full()
    }

    pub(crate) fn replace(&self, config: Config) {
        self.current.store(Arc::new(config));
        self.changed.notify_waiters();
    }

    /// Waits until the configuration of health checks differs from `from`.
    pub(crate) async fn health_changed(&self, from: Option<&Health>) {
        loop {
            let changed = self.changed.notified();
            if self.load().health.as_ref() != from {
                return;
            }
            changed.await;
        }
    }
}
