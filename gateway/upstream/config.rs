//! What one upstream is, already validated. It reads no file and no environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lockgate_egress::Policy;

/// One MCP server that the gateway calls. Two equal values mean: nothing to change at a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Given name, `^[a-z0-9-]+$`, at most 64 characters; the namespace of its tools.
    pub slug: String,
    /// The organisation that it belongs to; none for the operator's, which all share.
    pub organisation: Option<Arc<str>>,
    pub transport: Transport,
    /// Over HTTP: it is told for whom each request is, in statements for this audience.
    pub identity: Option<Arc<str>>,
    /// Over HTTP: to which addresses its host may lead.
    pub addresses: Policy,
    pub era: EraChoice,
    /// Arguments of calls are held against the tools' schemas before they are sent.
    pub validates_arguments: bool,
    /// Not connected and not listed when false.
    pub enabled: bool,
    /// Legacy servers: whose calls share one connection.
    pub sessions: Sessions,
    /// Time for one call, 1–300 s.
    pub call_timeout: Duration,
    /// Time for single tools by their own name, 1–300 s.
    pub tool_timeouts: BTreeMap<String, Duration>,
    /// How long every place may be taken without a word of the server before calls that wait are
    /// turned away.
    pub stall_timeout: Duration,
    /// Time to start, shake hands and read all lists.
    pub start_timeout: Duration,
    /// It is connected when somebody uses it, and disconnected when nobody has for so long; without
    /// it, it stays connected.
    pub rests_after: Option<Duration>,
    pub limits: Limits,
    pub breaker: Breaker,
    /// Checks that it still answers; none when it is switched off.
    pub health: Option<Health>,
}

/// How bytes get there.
#[derive(Clone, PartialEq, Eq)]
pub enum Transport {
    /// A child process; `env` is all it gets besides `PATH`, `HOME`, `LANG`, `TMPDIR` and the like.
    Stdio {
        command: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
        cwd: Option<PathBuf>,
        /// It gets what leads out of this network too.
        has_network: bool,
    },
    /// Streamable HTTP, with fallback to HTTP+SSE when the server only has that.
    Http { url: url::Url, headers: BTreeMap<String, String> },
    /// HTTP+SSE (2024-11-05).
    Sse { url: url::Url, headers: BTreeMap<String, String> },
}

/// Which protocol era to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EraChoice {
    Auto,
    Modern,
    Legacy,
}

/// Who shares a connection to a legacy server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sessions {
    /// A client that can be asked has its own; the others share one.
    Auto,
    /// One connection for everybody; the server may not ask clients anything.
    Shared,
    /// One connection (over stdio: one process) for each legacy client session.
    Client,
}

/// Bounds on what an upstream may send and hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one response message.
    pub response_bytes: usize,
    /// Bytes of one SSE event.
    pub event_bytes: usize,
    /// Bytes of one stdio line.
    pub line_bytes: usize,
    /// Nesting of a message.
    pub depth: usize,
    /// Calls that run at once.
    pub concurrency: usize,
    /// Calls that wait for a place.
    pub queue: usize,
    /// Connections that belong to one client each.
    pub client_connections: usize,
    /// Items of each list.
    pub list_items: usize,
    /// Pages of each list.
    pub list_pages: usize,
    /// Bytes of one description or title of an item, also within its schemas.
    pub description_bytes: usize,
}

/// Default of [`Limits::client_connections`] where each is a process.
pub const CLIENT_PROCESSES: usize = 16;
/// Default of [`Limits::client_connections`] over HTTP.
pub const CLIENT_CONNECTIONS: usize = 1024;

/// Opens after `failures` transport failures in a row; tries again after `cooldown`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaker {
    pub failures: u32,
    pub cooldown: Duration,
}

/// A server that was silent for `interval` is asked for a sign of life, and is unresponsive when
/// none comes within `timeout`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    pub interval: Duration,
    pub timeout: Duration,
}

impl Limits {
    /// Whether the same lists come out of reading them.
    pub(crate) fn reads_lists_alike(&self, other: &Self) -> bool {
        (self.list_items, self.list_pages, self.description_bytes)
            == (other.list_items, other.list_pages, other.description_bytes)
    }
}

/// How long a server that somebody added while the gateway runs stays connected without use.
const REST: Duration = Duration::from_secs(300);

impl Config {
    /// Bytes of one message on a connection that carries many.
    pub(crate) fn message_bytes(&self) -> usize {
        let limits = &self.limits;
        let most = match self.transport {
            Transport::Stdio { .. } => limits.line_bytes,
            Transport::Http { .. } | Transport::Sse { .. } => limits.event_bytes,
        };
        most.min(limits.response_bytes)
    }

    /// Whether two configurations lead to the same server in the same way, so that a connection by
    /// one of them serves for the other.
    #[must_use]
    pub fn is_reached_alike(&self, other: &Self) -> bool {
        // All of it by name, so that nobody adds a setting without saying which kind it is.
        let Self {
            slug,
            organisation,
            transport,
            identity,
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
            && identity == &other.identity
            && (era, enabled, sessions, rests_after)
                == (&other.era, &other.enabled, &other.sessions, &other.rests_after)
    }

    /// A server over HTTP that an organisation has added: with the bounds that servers of the
    /// configuration file have by default, and connected only while it is used.
    #[must_use]
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
            // It is told by the operator's own servers alone.
            identity: None,
            addresses,
            era: EraChoice::Auto,
            validates_arguments: false,
            enabled: true,
            sessions: Sessions::Auto,
            call_timeout: seconds(60),
            tool_timeouts: BTreeMap::new(),
            stall_timeout: seconds(10),
            start_timeout: seconds(30),
            rests_after: Some(REST),
            limits: Limits {
                response_bytes: 100_000_000,
                event_bytes: 16_000_000,
                line_bytes: 16_000_000,
                depth: 64,
                concurrency: 32,
                queue: 128,
                client_connections: CLIENT_CONNECTIONS,
                list_items: 5000,
                list_pages: 100,
                description_bytes: 32 << 10,
            },
            breaker: Breaker { failures: 5, cooldown: seconds(30) },
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
            Self::Http { url, headers } => f
                .debug_struct("Http")
                .field("url", &url.host_str())
                .field("headers", &headers.keys())
                .finish(),
            Self::Sse { url, headers } => f
                .debug_struct("Sse")
                .field("url", &url.host_str())
                .field("headers", &headers.keys())
                .finish(),
        }
    }
}
