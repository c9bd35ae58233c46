//! The configuration of the request path, and the choice of an endpoint's items, by the operator
//! for `endpoints` and by owners of agents for theirs: patterns, other names and descriptions.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lockgate_policy::Patterns;
use lockgate_policy::pin::{self, Pins};
use lockgate_protocol::method::Method;
use lockgate_protocol::name::Separator;
use lockgate_protocol::{list, scan};
use lockgate_text::setting::{List, Seconds, Size, Text, Toggle, Whole, Written};
use lockgate_text::{json, settings};
use serde::Serialize;

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
    /// Connections per client address. The streams of an organisation other than `default` are
    /// limited to half as many.
    pub connections_per_address: usize,
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

settings! {
    /// Documents with which hosts find endpoints.
    #[derive(Debug)]
    pub struct Discovery as "Discovery" {
        /// Publish a server card of each of the operator's endpoints, at its address followed by
        /// `/server-card`, and their list at `/.well-known/ai-catalog.json`.
        pub cards: bool = Toggle<false>,
        /// List endpoints as a registry (`/v0.1/servers`): `off`; `members`, for authenticated
        /// callers; `public`, also the operator's endpoints for callers without credentials.
        pub registry: Registry,
        /// Parts of the public address: its host; scheme, host and port; the path before `/mcp`.
        @serde(skip)
        pub host: String,
        @serde(skip)
        pub origin: String,
        @serde(skip)
        pub prefix: String,
    }

    /// The readers of the list of endpoints in the form of a registry.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum Registry { #[default] Off, Members, Public }

    /// Servers with equal tools. An argument selects the server.
    #[derive(Debug)]
    pub struct Group as "Group" {
        /// Names of 2 to 100 servers with equal tools.
        pub servers: BTreeSet<String> = List,
        /// The argument that selects the server.
        pub argument: String = Text | "",
    }

    /// Rules for building exposed names from a server's slug and a tool's own name.
    #[derive(Debug)]
    pub struct Names as "Names" {
        /// Separator between a server's name and a tool's: `__`, `_`, `-`, `.` or `/`.
        pub separator: Separator,
        /// Longest exposed name, 32–128 characters; longer ones end in a hash.
        pub max_length: usize = Whole<32, 128, 64>,
    }

    /// How clients find tools that are not listed.
    pub struct ToolSearch as "ToolSearch" {
        /// Tools that endpoints list: `full`, all of them; `search`, tools that find and call the
        /// others; `auto`, as `search` from `threshold` tools, except for the clients in
        /// `deferring`.
        pub tools: ToolsMode,
        /// Other values of `tools` for single endpoints, by path: `/mcp`, `/servers/NAME/mcp`,
        /// `/agents/ID/mcp` or `/endpoints/NAME/mcp`; at most 1000.
        pub endpoints: BTreeMap<String, ToolsMode>,
        /// Number of tools from which `auto` searches, 1–100000.
        pub threshold: usize = Whole<1, 100_000, 60>,
        /// Names of tools, as the endpoint lists them, that stay listed.
        pub always: BTreeSet<String> = List,
        /// Words of queries, each with words of tools of the same meaning; at most 1000.
        pub synonyms: BTreeMap<String, Vec<String>> = BTreeMap<String, List>,
        /// Names of clients (`clientInfo.name`) that load definitions on demand. Default
        /// `claude-code`.
        pub deferring: BTreeSet<String> = List | ["claude-code"],
        /// A server of embeddings, with which tools are also found by meaning.
        pub embeddings: Option<EmbeddingServer>,
    }

    /// A server of embeddings, which receives names and descriptions of tools, and queries.
    pub struct EmbeddingServer as "EmbeddingServer" {
        /// Address of an endpoint like that of OpenAI, such as
        /// `http://127.0.0.1:11434/v1/embeddings`.
        pub url: String = Text | "",
        /// Name of the model.
        pub model: String = Text | "",
        /// Headers for the server, such as `Authorization: "Bearer ${EMBEDDINGS_KEY}"`; at most 32.
        pub headers: BTreeMap<String, String> = BTreeMap<String, Text>,
        /// How long a search waits for the vector of its query, 1–30 s.
        pub timeout: Duration = Seconds<1, 30, 2>,
    }

    /// The form of an endpoint's list of tools.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum ToolsMode { #[default] Full, Search, Auto }

    /// Limits of the request path.
    #[derive(Debug)]
    pub struct Limits as "Limits" {
        /// Nesting of a message, 8–128.
        pub depth: usize = Whole<8, 128, 64>,
        /// Concurrent legacy sessions, 1–1000000.
        pub sessions: usize = Whole<1, 1_000_000, 10_000>,
        /// Concurrent legacy sessions of one caller, 1–1000000. Default: half of `sessions`.
        pub sessions_per_principal: Option<usize> = Option<Whole<1, 1_000_000, 0>>,
        /// Time without a request after which a legacy session ends, 10–86400 s.
        pub session_idle: Duration = Seconds<10, 86_400, 1800>,
        /// Concurrent calls of all servers together, 1–100000. Half of them is divided evenly among
        /// the servers, at least one each; the rest is first come, first served.
        pub concurrent_requests: usize = Whole<1, 100_000, 1000>,
        /// Waiting calls of all servers together, 0–100000, divided in the same way; one more is
        /// answered with 503.
        pub queued_requests: usize = Whole<0, 100_000, 1000>,
        /// Requests that wait for evaluation on a separate thread, because they are large or slow
        /// to evaluate, 0–10000; one more is answered with 503. Half of the processors are used for
        /// this.
        pub queued_judgements: usize = Whole<0, 10_000, 256>,
        /// Limit of the gateway's resident memory in bytes, 96MiB–1024GiB; not including the
        /// servers that it starts. Default: three quarters of the cgroup's limit; without one
        /// 512MiB, or half of the machine's memory if that is less.
        pub memory: Option<u64> = Option<Size<0x600_0000, 0x100_0000_0000, 0>>,
        /// Bytes of messages, over all connections: request bodies, responses until their clients
        /// have read them, and messages kept for clients that resume a stream, 1MiB–16GiB; at least
        /// `http.body_bytes`, and at most the remainder of `memory` if that is set. Default: half
        /// of `memory` less 64MiB. A larger message is rejected.
        pub bytes_in_flight: usize = Option<Size<0x10_0000, 0x4_0000_0000, 0>> => or_zero,
        /// Items of one page of a list, 1–10000.
        pub page_items: usize = Whole<1, 10_000, 1000>,
        /// How long the first list waits for servers that are still starting, 1–300 s.
        pub discovery_deadline: Duration = Seconds<1, 300, 5>,
        /// Concurrent event streams per caller, 1–10000.
        pub streams_per_principal: usize = Whole<1, 10_000, 64>,
        /// Resources that one session may subscribe to, 1–10000.
        pub subscriptions: usize = Whole<1, 10_000, 256>,
        /// Messages kept for a client that reads slowly or resumes later, per stream, 1–10000; 4
        /// MiB of them at most, and always the newest. The oldest are dropped first.
        pub stream_buffer: usize = Whole<1, 10_000, 256>,
        /// Rounds of questions to a client within one call, 1–100.
        pub question_rounds: usize = Whole<1, 100, 10>,
        /// How long a client may take to answer one question, 1–300 s.
        pub question_timeout: Duration = Seconds<1, 300, 120>,
        /// Concurrent calls of modern clients to legacy servers that wait for answers to the
        /// servers' questions, 1–100000.
        pub parked_calls: usize = Whole<1, 100_000, 1_024>,
        /// The same for one caller, 1–100000.
        pub parked_calls_per_principal: usize = Whole<1, 100_000, 256>,
        /// Bytes of a client's answers to the questions of one round, 1KiB–64MiB; longer ones are
        /// rejected.
        pub answer_bytes: usize = Size<0x400, 0x400_0000, 0x10_0000>,
        /// Calls that wait for approval by others than their callers, and as many questions to
        /// callers, 1–100000; one more is rejected.
        pub approvals: usize = Whole<1, 100_000, 1000>,
        /// The same for one caller, 1–1000; one more call is rejected, and one more question
        /// replaces the oldest.
        pub approvals_per_principal: usize = Whole<1, 1000, 16>,
        /// How long a call may wait for its approval, 1–3600 s; `expires` of a policy may be less.
        pub approval_timeout: Duration = Seconds<1, 3600, 300>,
    }
}

impl Config {
    /// Returns whether the gateway knows a method, and so cannot let it through.
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

impl ToolSearch {
    /// Returns the mode of the endpoint at a path: that of the operator for this path, its agent's,
    /// or that for all.
    pub(crate) fn mode(&self, path: &str, of_agent: Option<ToolsMode>) -> ToolsMode {
        self.endpoints.get(path).copied().or(of_agent).unwrap_or(self.tools)
    }

    /// Returns whether a client, described by the JSON text of its `clientInfo`, loads definitions
    /// on demand.
    pub fn is_deferring(&self, client: &[u8]) -> bool {
        let name = list::member(client, "name").and_then(scan::as_str);
        name.is_some_and(|name| self.deferring.contains(&*name))
    }
}

impl Limits {
    /// Returns the maximum legacy sessions of a caller: half of all, unless configured.
    pub fn of_principal(&self) -> usize {
        self.sessions_per_principal.unwrap_or(self.sessions.div_ceil(2))
    }
}

/// The value 0 is replaced according to `memory`.
fn or_zero(given: Option<Size<0x10_0000, 0x4_0000_0000, 0>>) -> usize {
    given.map_or(0, Written::plain)
}

// Omits the secret.
lockgate_text::debug_fields!(Config: name, title, instructions, names, limits);

// The items of an endpoint.

/// Names of the tools of the gateway (`catalog/tool_index`), which no item may have.
pub(crate) const FIND: &str = "find_tools";
pub(crate) const DESCRIBE: &str = "describe_tools";
pub(crate) const CALL: &str = "call_tool";

/// Renamed, and likewise described, items of an endpoint.
const MAX_CHANGED: usize = 1000;
/// Maximum number of patterns in a list of an agent, and of wildcards in all of them.
const MAX_AGENT_PATTERNS: usize = 100;
/// Characters that make a pattern costly to compile.
const WILDCARDS: [char; 4] = ['*', '?', '[', '{'];
const DESCRIPTION_BYTES: usize = 4096;

settings! {
    /// The items of an endpoint. Keys are `server/name` with the server's own name.
    #[derive(Debug, Serialize)]
    pub struct Items as "Endpoint" {
        /// Patterns of its tools: `server/name`, with `*`, `?`, `[…]` and `{a,b}`.
        pub tools: Vec<String> = List,
        /// Patterns of its prompts, likewise.
        pub prompts: Vec<String> = List,
        /// Patterns of its resources, templates and skills: `server/uri`, or the URI.
        pub resources: Vec<String> = List,
        /// Other names of tools and prompts, by `server/name`: 1 to 64 letters, digits, `_`, `-`
        /// and `.`.
        pub rename: BTreeMap<String, String> = BTreeMap<String, Text>,
        /// Other descriptions, by `server/name` or `server/uri`; at most 4096 bytes.
        pub describe: BTreeMap<String, String> = BTreeMap<String, Text>,
    }
}

/// A mistake in [`Items`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemMistake {
    /// The member, and the key within it.
    pub member: &'static str,
    pub key: Option<String>,
    /// The mistake, phrased to follow the member's name.
    pub what: String,
    pub fix: &'static str,
}

/// [`Items`] that were checked.
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

impl Items {
    /// Checks the items of an agent. Any user can store them, and their patterns are compiled for
    /// every view, so there may be fewer than the operator's.
    ///
    /// # Errors
    /// All mistakes, or those in the numbers of patterns.
    pub(crate) fn check_agent(&self) -> Result<Compose, Vec<ItemMistake>> {
        let mut mistakes = Vec::new();
        for (member, texts) in self.pattern_lists() {
            let wildcards = texts.iter().flat_map(|text| text.matches(WILDCARDS)).count();
            if texts.len().max(wildcards) > MAX_AGENT_PATTERNS {
                let what = format!(
                    "must not have more than {MAX_AGENT_PATTERNS} patterns, or more than \
                        {MAX_AGENT_PATTERNS} wildcards (`*`, `?`, `[`, `{{`) in sum"
                );
                let fix = "remove some, or use wider patterns such as `server/*`";
                mistakes.push(ItemMistake { member, key: None, what, fix });
            }
        }
        if mistakes.is_empty() { self.check() } else { Err(mistakes) }
    }

    /// Checks everything that does not depend on the servers' lists.
    ///
    /// # Errors
    /// All mistakes.
    pub fn check(&self) -> Result<Compose, Vec<ItemMistake>> {
        let mut mistakes = Vec::new();
        self.check_names(&mut mistakes);
        for (key, text) in &self.describe {
            if text.len() > DESCRIPTION_BYTES {
                let what = format!("must not be longer than {DESCRIPTION_BYTES} bytes");
                mistakes.push(mistake("describe", key, what, "shorten it"));
            }
            if pin::strip(text).is_some() {
                let what = "has invisible characters".into();
                mistakes.push(mistake("describe", key, what, "remove them"));
            }
        }
        for (member, changed) in [("rename", &self.rename), ("describe", &self.describe)] {
            if changed.len() > MAX_CHANGED {
                let what = format!("must not have more than {MAX_CHANGED} entries");
                mistakes.push(ItemMistake { member, key: None, what, fix: "remove some" });
            }
            if let Some(key) = changed.keys().find(|key| !key.contains('/')) {
                let fix = "use the server's own name of the item";
                mistakes.push(mistake(member, key, "must be `server/name`".into(), fix));
            }
        }
        let mut lists = [Patterns::default(), Patterns::default(), Patterns::default()];
        for ((member, texts), list) in self.pattern_lists().into_iter().zip(&mut lists) {
            match Patterns::new(texts) {
                Ok(patterns) => *list = patterns,
                Err(what) => {
                    let fix = "use `server/name`, with `*` for any text";
                    mistakes.push(ItemMistake { member, key: None, what, fix });
                }
            }
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let [tools, prompts, resources] = lists;
        Ok(Compose {
            tools,
            prompts,
            resources,
            rename: self.rename.clone(),
            describe: self.describe.clone(),
        })
    }

    /// Returns the lists of patterns, by member.
    fn pattern_lists(&self) -> [(&'static str, &[String]); 3] {
        [("tools", &self.tools), ("prompts", &self.prompts), ("resources", &self.resources)]
    }

    fn check_names(&self, mistakes: &mut Vec<ItemMistake>) {
        let mut names = BTreeSet::new();
        for (key, name) in &self.rename {
            let fix = "choose another name";
            if !is_name(name) || is_management(name) {
                let what = "must be 1 to 64 letters, digits, `_`, `-` and `.`, and not the name \
                    of a tool of the gateway";
                mistakes.push(mistake("rename", key, what.into(), fix));
            } else if !names.insert(name.to_ascii_lowercase()) {
                mistakes.push(mistake("rename", key, "is the name of another item".into(), fix));
            }
        }
    }
}

impl Compose {
    /// Reads the stored items of an agent. Those that cannot be read select nothing.
    pub(crate) fn read(stored: &str) -> Arc<Self> {
        let items: Option<Items> = json::from_str(stored).ok();
        let checked = items.and_then(|items| items.check_agent().ok());
        if checked.is_none() {
            tracing::error!("the stored items of an agent cannot be read; it has none");
        }
        Arc::new(checked.unwrap_or_default())
    }
}

fn mistake(member: &'static str, key: &str, what: String, fix: &'static str) -> ItemMistake {
    ItemMistake { member, key: Some(key.to_owned()), what, fix }
}

/// Returns whether a text can be the name of a tool, or of an argument.
pub fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
}

/// Returns whether a name is that of a management tool.
pub(crate) fn is_management(name: &str) -> bool {
    matches!(name, FIND | DESCRIBE | CALL)
}

#[cfg(test)]
mod tests;
