//! `servers.NAME`: an MCP server behind the gateway. Values may be secrets, so there is no `Debug`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::{Seconds, Size, Text, Toggle, Whole};

/// Either `command` (a program that speaks over stdio) or `url`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// The program to start; one with a slash is relative to this file.
    pub command: Option<Text>,
    /// Its arguments.
    pub args: Vec<Text>,
    /// Its environment, besides `PATH`, `HOME`, `LANG`, `TMPDIR` and the like.
    pub env: BTreeMap<String, Text>,
    /// What the program gets besides: `network`, the proxy and the certificate authorities of
    /// `egress`, and what the gateway's environment has of `HTTPS_PROXY`, `NO_PROXY`,
    /// `SSL_CERT_FILE`, `NODE_EXTRA_CA_CERTS`, `REQUESTS_CA_BUNDLE`, the package indexes
    /// (`PIP_INDEX_URL`, `UV_DEFAULT_INDEX`, `NPM_CONFIG_REGISTRY`) and their relatives. A
    /// password of the proxy is among it.
    pub inherit: Vec<Inherited>,
    /// Its working folder, relative to this file.
    pub cwd: Option<Text>,
    /// Where the server is reached over HTTP.
    pub url: Option<Text>,
    /// `stdio`, `http` (Streamable HTTP) or `sse` (the older HTTP+SSE). Default: `stdio` with
    /// `command`, `http` with `url`.
    #[serde(alias = "type")]
    pub transport: Option<Transport>,
    /// Headers sent with every request to `url`.
    pub headers: BTreeMap<String, Text>,
    /// The server is told who calls, in a signed header `Lockgate-Identity` of each request over
    /// HTTP: see `identity.keys`.
    pub identity: Option<ServerIdentity>,
    /// Protocol era: `auto`, `modern` (2026-07-28) or `legacy` (up to 2025-11-25).
    pub era: Era,
    /// `true`: the arguments of a call are held against the tool's `inputSchema` before the server
    /// gets it, and the first mistake is told with its place. Schemas that refer to themselves,
    /// have more than 64 patterns or references with `%`, or are of draft 3 or 4 are not applied;
    /// the log names their tools.
    pub validate_arguments: Toggle<false>,
    /// `false`: not connected and not listed.
    pub enabled: Toggle<true>,
    /// Legacy servers: which clients share a connection: `auto` (a client that can be asked has its
    /// own; over stdio its own process), `shared` (all clients) or `client` (each client session
    /// has its own). Tools that a server offers only to clients that it can ask are shown to those
    /// that have their own.
    pub sessions: Sessions,
    /// Time for one call, 1–300 s.
    pub timeout: Seconds<1, 300, 60>,
    /// Time for single tools, by the server's own name for them, 1–300 s.
    pub tool_timeouts: BTreeMap<String, Seconds<1, 300, 60>>,
    /// Time to start, shake hands and read all lists, 1–300 s.
    pub start_timeout: Seconds<1, 300, 30>,
    /// Calls that run at once, 1–1024.
    pub concurrency: Whole<1, 1024, 32>,
    /// Calls that wait for a place, 0–65536.
    pub queue: Whole<0, 65_536, 128>,
    /// How long every place may be taken without a word of the server, 1–300 s; then calls that
    /// wait are turned away. Where calls usually take longer than half of it, twice their usual
    /// time, at most `timeout`.
    pub stall_timeout: Seconds<1, 300, 10>,
    /// Connections of a legacy server that belong to one client each, 1–4096; half of them, rounded
    /// up, may be used by the modern calls of one caller. Idle ones are closed to make room.
    /// Default: 16 with `command`, where each is a process, 1024 with `url`.
    pub client_connections: Option<Whole<1, 4096, 16>>,
    /// When a failing server is left alone for a while.
    pub breaker: Breaker,
    /// Whether the server is asked now and then for a sign of life.
    pub health: Health,
    /// Bounds on what the server may send.
    pub limits: ServerLimits,
}

// The audience is required: the gateway's address of a server may change, but the value that the
// server compares with must not.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerIdentity {
    /// What the server compares `aud` with, exactly, such as `https://crm.example.com/mcp`. Needed,
    /// and another one for each server.
    pub audience: Option<Text>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Inherited {
    Network,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Health {
    /// After so much silence the server is asked for a sign of life, 0–3600 s; 0: never. Default:
    /// 15 with `command`, 0 with `url`.
    pub interval: Option<Seconds<0, 3600, 15>>,
    /// How long it may take to give one, 1–300 s; twice as long after each end for silence, up to
    /// 300 s, until a call is answered. One that gives none is `unresponsive`, and is started or
    /// connected anew unless a call explains the silence.
    pub timeout: Seconds<1, 300, 10>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Breaker {
    /// Transport failures in a row that open it, 1–1000.
    pub failures: Whole<1, 1000, 5>,
    /// How long it stays open, 1–300 s.
    pub cooldown: Seconds<1, 300, 30>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerLimits {
    /// Bytes of one response, 1KiB–1GiB.
    pub response_bytes: Size<1024, 0x4000_0000, 100_000_000>,
    /// Bytes of one event of an event stream, 1KiB–1GiB.
    pub event_bytes: Size<1024, 0x4000_0000, 16_000_000>,
    /// Bytes of one line over stdio, 1KiB–1GiB.
    pub line_bytes: Size<1024, 0x4000_0000, 16_000_000>,
    /// Items of each list, 1–100000.
    pub list_items: Whole<1, 100_000, 5000>,
    /// Pages of each list, 1–10000.
    pub list_pages: Whole<1, 10_000, 100>,
    /// Bytes of one description or title of an item, also within its schemas, 256–16MiB; an item
    /// with a longer one is left out.
    pub description_bytes: Size<256, 0x100_0000, 0x8000>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Transport {
    Stdio,
    #[serde(alias = "streamable-http", alias = "streamableHttp", alias = "streamable_http")]
    Http,
    Sse,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Era {
    #[default]
    Auto,
    Modern,
    Legacy,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Sessions {
    #[default]
    Auto,
    Shared,
    Client,
}
