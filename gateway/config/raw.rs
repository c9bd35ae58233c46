//! The configuration as written: the sections of layers, and here those that need conversion, with
//! every key optional. Editors show the doc comments. Nothing here implements `Debug`, because
//! values may be secrets.

pub mod audit;
mod auth;
pub mod builtin;
mod egress;
mod http;
mod server;
mod store;

use std::collections::BTreeMap;

pub use audit::Audit;
pub use auth::{Auth, Identity, Issuer};
pub use builtin::Builtin;
pub use egress::{Egress, Reach};
pub use http::{Admin, ApiPlace, Approvals, ClientAuth, Http, SignIn};
use leaf::{List, Text, Whole};
use lockgate_policy::Allow;
use lockgate_policy::pin::Pins;
use lockgate_proxy::{Discovery, Group, Items, Limits, Names, ToolSearch};
use lockgate_telemetry::Format;
pub use lockgate_text::setting as leaf;
pub use server::{AuthProvider, ServerAuth};
pub use server::{Inherited, Server, Transport};
pub use store::{Redis, Replicas, Store};

lockgate_text::settings! {
    /// Configuration of Lockgate.
    pub struct Root as "Root" {
        /// Address of this file's schema, for editors. Not read.
        #[allow(dead_code, reason = "accepted for editors and deliberately not read")]
        @serde(rename = "$schema")
        pub schema: Option<String> = Option<Text>,
        /// `development` or `production`. Production logs JSON, never runs the example server, and
        /// needs a credential (`auth`) and `policy.files` or `policy.tools.allow`.
        pub profile: Profile,
        /// The name that clients see: `a-z`, `0-9` and `-`, at most 64 characters. Default
        /// `lockgate`.
        pub name: Option<String> = Option<Text>,
        /// The display name that clients see; at most 200 characters.
        pub title: Option<String> = Option<Text>,
        /// Text that precedes the servers' own instructions; at most 16 KiB.
        pub instructions: Option<String> = Option<Text>,
        /// Address and port to listen on, port 1024–65535; `[::]:3001` is every IPv6 and IPv4
        /// address. Default `127.0.0.1:3001`. Without authentication of callers (`auth`) only a
        /// loopback address.
        pub listen: Option<String> = Option<Text>,
        /// Further files of this configuration, such as one for each team: files, folders, or
        /// patterns such as `teams/*.yaml`, in or below this file's folder; at most 64. Different
        /// values for the same key are a mistake; `import`, `policy.files` and lists of `allow` and
        /// `deny` are combined.
        pub include: Vec<String> = List,
        /// Files with `mcpServers` (or VS Code's `servers`); their entries are added to `servers`.
        /// Relative to this file.
        pub import: Vec<String> = List,
        /// The MCP servers behind the gateway, by name: `a-z`, `0-9` and `-`, at most 64
        /// characters; at most 256 of them.
        pub servers: BTreeMap<String, Server>,
        /// Servers that organisations may add, by name: `a-z`, `0-9` and `-`, at most 64
        /// characters; at most 256 of them.
        pub catalogue: BTreeMap<String, CatalogueEntry>,
        /// Built-in servers.
        pub builtin: Builtin,
        /// How clients reach the gateway over HTTP.
        pub http: Http,
        /// Authentication of callers.
        pub auth: Auth,
        /// Signing of callers' identities for servers.
        pub identity: Identity,
        /// Permissions of callers.
        pub policy: Policy,
        /// The form of exposed names.
        pub names: Names,
        /// How clients find tools that are not listed.
        pub tool_search: ToolSearch,
        /// Tools of servers with equal definitions that appear as one, named as if the group were
        /// the server; at most 100.
        pub groups: BTreeMap<String, Group>,
        /// Endpoints at `/endpoints/NAME/mcp` with chosen items of all servers; at most 100.
        pub endpoints: BTreeMap<String, Items>,
        /// Documents with which hosts find endpoints.
        pub discovery: Discovery,
        /// Ids of extensions (`prefix/name`) that add no methods, only settings, `_meta` or members
        /// of results. Endpoints announce them if servers do, with equal settings. MCP Apps need no
        /// entry.
        pub extensions: Vec<String> = List,
        /// Methods beyond the specification, such as `com.example/search`, that an endpoint of a
        /// single server passes to it; at most 100.
        pub methods: Vec<String> = List,
        /// Limits of the request path.
        pub limits: Limits,
        /// How the gateway reaches other hosts.
        pub egress: Egress,
        /// At least 32 characters, from which the keys of cursors and other tokens are derived.
        /// Without it, each start generates a new one. A reference: `${LOCKGATE_SECRET}` or
        /// `file:PATH`.
        pub secret: Option<String> = Option<Text>,
        /// Former values of `secret`, 7 at most; their tokens remain valid. To change the secret,
        /// or to add one on all replicas before any of them uses it.
        pub old_secrets: Vec<String> = Vec<Text>,
        /// Storage of integrations, agents and credentials added at run time.
        pub store: Store,
        /// Sharing of policy rates between gateways.
        pub redis: Redis,
        /// How gateways with the same `secret` reach each other, so that each can answer for all.
        pub replicas: Replicas,
        /// Logging to stderr.
        pub log: Log,
        /// Traces and metrics.
        pub telemetry: Telemetry,
        /// Approved definitions of tools.
        pub pins: Pins,
        /// Notification of approvers about waiting calls.
        pub approvals: Approvals,
        /// The trail of decisions and outcomes.
        pub audit: Audit,
        /// Health, readiness and metrics.
        pub admin: Admin,
    }

    /// How strict the defaults are.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum Profile { #[default] Development, Production }

    // `policy`: allow lists and rates.

    pub struct Policy as "Policy" {
        /// Policy files, folders of them, or patterns such as `policies/*.yaml`; relative to this
        /// file. With at least one of them, the default is to deny.
        pub files: Vec<String> = List,
        /// Servers, by name.
        pub servers: Allow,
        /// Tools, by exposed name: `time__get_current_time`, or `time/get_current_time`. Production
        /// requires it, or `files`.
        pub tools: Allow,
        /// Prompts, by exposed name.
        pub prompts: Allow,
        /// Resources and templates, by exposed URI.
        pub resources: Allow,
        /// Tool calls per caller and minute, 1–1000000; not limited without it.
        pub calls_per_minute: Option<u32> = Option<Whole<1, 1_000_000, 0>>,
        /// Completions per caller and minute, 1–1000000.
        pub completions_per_minute: u32 = Whole<1, 1_000_000, 120>,
    }

    // `catalogue.NAME`: servers that organisations may add.

    pub struct CatalogueEntry as "CatalogueEntry" {
        /// Its display name, at most 100 characters. Default: the name of the entry.
        pub title: Option<String> = Option<Text>,
        /// Its purpose, in at most 1000 bytes.
        pub description: Option<String> = Option<Text>,
        /// Address of the server, for Streamable HTTP. Not shown to organisations.
        pub url: Option<String> = Option<Text>,
        /// The credential required from the organisation: `none`, `api_key` (in `header`) or
        /// `bearer_token`; or from each of its members: `user` (an account, by OAuth) or
        /// `user_headers` (a key).
        pub auth: AuthMethod,
        /// The header that carries the key, with `api_key` and `user_headers`. Default with
        /// `user_headers`: `Authorization: Bearer`.
        pub header: Option<String> = Option<Text>,
    }

    #[derive(Default)]
    #[serde(rename_all = "snake_case")]
    pub enum AuthMethod { #[default] None, ApiKey, BearerToken, User, UserHeaders }

    // `log` and `telemetry`: logs, traces and metrics.

    pub struct Log as "Log" {
        /// `off`, `error`, `warn`, `info`, `debug` or `trace`, also per module:
        /// `info,lockgate_proxy=debug`. Default `info`.
        pub level: Option<String> = Option<Text>,
        /// `text` or `json`, one object per line. Default `text`, in production `json`.
        pub format: Option<Format>,
    }

    pub struct Telemetry as "Telemetry" {
        /// OTLP/HTTP endpoint for traces, such as `http://127.0.0.1:4318/v1/traces`; none without
        /// it.
        pub otlp: Option<String> = Option<Text>,
        /// OTLP/HTTP endpoint for log records, such as `http://127.0.0.1:4318/v1/logs`; none
        /// without it. They are also written to stderr.
        pub otlp_logs: Option<String> = Option<Text>,
        /// Headers for the collector, such as `Authorization: "Bearer ${OTLP_TOKEN}"`; at most 32.
        pub headers: BTreeMap<String, String> = BTreeMap<String, Text>,
        /// The gateway's name at the collector (`service.name`). Default `lockgate`.
        pub service_name: Option<String> = Option<Text>,
        /// Further attributes of the gateway there, such as `deployment.environment.name:
        /// production`.
        pub resource: BTreeMap<String, String> = BTreeMap<String, Text>,
        /// Of a thousand traces that begin here, 0–1000 are recorded. Traces that a client began
        /// follow the client's sampling decision.
        pub samples_per_thousand: u16 = Whole<0, 1000, 1000>,
        /// Distinct tools counted individually in metrics, 1–100000; further ones are counted as
        /// `other`.
        pub tools: usize = Whole<1, 100_000, 1000>,
    }
}
