//! Validated configuration of the request path.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lockgate_policy::Patterns;
use lockgate_policy::pin::Pins;
use lockgate_protocol::method::Method;
use lockgate_protocol::{list, scan};
use lockgate_search::Synonyms;

/// The gateway's own identity and the limits of the request path.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    /// `serverInfo.name` for clients.
    pub name: String,
    pub title: Option<String>,
    /// Text that precedes the upstreams' instructions.
    pub instructions: Option<String>,
    pub names: Names,
    pub limits: Limits,
    pub tool_search: ToolSearch,
    /// Tools of several servers that appear as one, by the name that takes the servers' place.
    pub groups: BTreeMap<String, Group>,
    /// Composed endpoints, by name.
    pub endpoints: BTreeMap<String, Arc<Compose>>,
    /// Documents with which hosts find endpoints; `None` if there are none.
    pub discovery: Option<Discovery>,
    /// Names of extensions that add no methods, which endpoints announce for their servers.
    pub extensions: BTreeSet<String>,
    /// Names of unknown methods that endpoints of a single server pass to it.
    pub methods: BTreeSet<String>,
    /// Secret from which the keys of sealed tokens (cursors, request states, task ids) are derived.
    /// If `None`, each start generates a secret, and tokens do not outlive the process.
    pub secret: Option<String>,
    /// Former secrets, which open tokens but seal none.
    pub old_secrets: Vec<String>,
    /// Approved tool definitions.
    pub pins: Pins,
    /// Addresses of this gateway and its peers; `None` for a single gateway.
    pub replicas: Option<Replicas>,
}

/// Documents with which hosts find endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// Whether there are server cards and a catalog of them.
    pub cards: bool,
    pub registry: Registry,
    /// Parts of the public address: its host; scheme, host and port; the path before `/mcp`.
    pub host: String,
    pub origin: String,
    pub prefix: String,
}

/// The readers of the list of endpoints in the form of a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registry {
    Off,
    /// Authenticated callers, each with its own servers.
    Members,
    /// Also callers without credentials, with the operator's endpoints.
    Public,
}

/// Servers with equal tools. An argument selects the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub servers: BTreeSet<String>,
    pub argument: String,
}

/// The items of a composed endpoint. Keys are `server/name` with the server's own name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compose {
    pub tools: Patterns,
    pub prompts: Patterns,
    /// Also for templates and skills.
    pub resources: Patterns,
    /// Names of tools and prompts at the endpoint.
    pub rename: BTreeMap<String, String>,
    /// Descriptions at the endpoint.
    pub describe: BTreeMap<String, String>,
}

impl Config {
    /// Returns whether the gateway knows a method, and so cannot let it through.
    #[must_use]
    pub fn knows_method(name: &str) -> bool {
        Method::parse(name) != Method::Unknown
    }
}

/// The addresses of a group of gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicas {
    pub address: SocketAddr,
    /// Names or addresses with ports that resolve to all gateways.
    pub peers: Vec<(String, u16)>,
    /// Name in the certificate of all gateways, if they serve TLS.
    pub tls_name: Option<String>,
}

/// Rules for building exposed names from a server's slug and a tool's own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// One of `__`, `_`, `-`, `.`, `/`.
    pub separator: String,
    /// Longest exposed name, 32–128 characters; longer names get a hash suffix.
    pub max_length: usize,
}

/// The form of an endpoint's list of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolsMode {
    /// All tools.
    #[default]
    Full,
    /// Tools that find and call the others.
    Search,
    /// As `Search` for many tools, except for clients that load definitions on demand.
    Auto,
}

/// How clients find tools that are not listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolSearch {
    pub tools: ToolsMode,
    /// Modes of single endpoints, by path.
    pub endpoints: BTreeMap<String, ToolsMode>,
    /// Number of tools from which `Auto` searches.
    pub threshold: usize,
    /// Names of tools that stay listed.
    pub always: BTreeSet<String>,
    pub synonyms: Synonyms,
    /// Names of clients that load definitions on demand.
    pub deferring: BTreeSet<String>,
}

impl ToolSearch {
    /// Returns the mode of the endpoint at a path: that of the operator for this path, its agent's,
    /// or that for all.
    pub(crate) fn mode(&self, path: &str, of_agent: Option<ToolsMode>) -> ToolsMode {
        self.endpoints.get(path).copied().or(of_agent).unwrap_or(self.tools)
    }

    /// Returns whether a client, described by the JSON text of its `clientInfo`, loads definitions
    /// on demand.
    pub(crate) fn is_deferring(&self, client: &[u8]) -> bool {
        let name = list::member(client, "name").and_then(scan::as_str);
        name.is_some_and(|name| self.deferring.contains(&*name))
    }
}

/// Limits of the request path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nesting of a message (arrays and objects).
    pub depth: usize,
    /// Concurrent legacy sessions; further `initialize` requests get a 503.
    pub sessions: usize,
    /// Concurrent legacy sessions per principal; further `initialize` requests get a 503.
    pub sessions_per_principal: usize,
    /// Idle time after which a legacy session ends.
    pub session_idle: Duration,
    /// Bytes of request bodies and responses in flight, over all clients.
    pub bytes_in_flight: usize,
    /// Concurrent calls, over all servers.
    pub concurrent_requests: usize,
    /// Queued calls, over all servers.
    pub queued_requests: usize,
    /// Queued large or complex requests that await a policy decision.
    pub queued_judgements: usize,
    /// Items per page of a list.
    pub page_items: usize,
    /// Longest wait of the first list for servers that are still starting.
    pub discovery_deadline: Duration,
    /// Concurrent `subscriptions/listen` streams and legacy GET streams per principal.
    pub streams_per_principal: usize,
    /// Connections per client address. The streams of an organisation other than `default` are
    /// limited to half as many.
    pub connections_per_address: usize,
    /// Resource URIs per session or `subscriptions/listen`.
    pub subscriptions: usize,
    /// Messages buffered per stream for a client that reads slowly or resumes later.
    pub stream_buffer: usize,
    /// Rounds of questions to a client within a call.
    pub question_rounds: usize,
    /// Time for a client to answer a question.
    pub question_timeout: Duration,
    /// Calls of modern clients at legacy servers that wait for answers to questions.
    pub parked_calls: usize,
    /// Limit of the same calls per principal.
    pub parked_calls_per_principal: usize,
    /// Bytes of a client's answers to the questions of a round.
    pub answer_bytes: usize,
    /// Calls that wait for approvers, and likewise open approval questions to callers.
    pub approvals: usize,
    /// Limit of the same calls and questions per principal.
    pub approvals_per_principal: usize,
    /// Longest wait of a call for its approval.
    pub approval_timeout: Duration,
}

/// Omits the secret.
impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("name", &self.name)
            .field("title", &self.title)
            .field("instructions", &self.instructions)
            .field("names", &self.names)
            .field("limits", &self.limits)
            .field("secret", &self.secret.as_ref().map(|_| "…"))
            .finish_non_exhaustive()
    }
}
