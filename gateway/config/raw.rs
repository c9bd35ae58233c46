//! The configuration as written: the sections of layers, and here those that need conversion, with
//! every key optional. Editors show the doc comments. Nothing here implements `Debug`, because
//! values may be secrets.

pub mod audit;
mod auth;
pub mod builtin;
mod catalogue;
mod egress;
pub mod given;
mod http;
mod log;
mod policy;
mod server;
mod server_auth;
mod store;

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use audit::Audit;
pub use auth::{Auth, Identity, Issuer};
pub use builtin::Builtin;
pub use catalogue::{AuthMethod, CatalogueEntry};
pub use egress::{Egress, Reach};
pub use http::{Admin, ApiPlace, Approvals, ClientAuth, Http, SignIn};
use leaf::{List, Text};
use lockgate_policy::pin::Pins;
use lockgate_proxy::{Discovery, Group, Items, Limits, Names, ToolSearch};
pub use lockgate_text::setting as leaf;
pub use log::{Log, Telemetry};
pub use policy::Policy;
pub use server::{Inherited, Server, Transport};
pub use server_auth::{AuthProvider, ServerAuth};
pub use store::{Redis, Replicas, Store};

/// Configuration of Lockgate.
#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Root {
    /// Address of this file's schema, for editors. Not read.
    #[serde(rename = "$schema")]
    #[allow(dead_code, reason = "accepted for editors and deliberately not read")]
    pub schema: Option<Text>,
    /// `development` or `production`. Production logs JSON, never runs the example server, and
    /// needs a credential (`auth`) and `policy.files` or `policy.tools.allow`.
    pub profile: Profile,
    /// The name that clients see: `a-z`, `0-9` and `-`, at most 64 characters. Default `lockgate`.
    pub name: Option<Text>,
    /// The display name that clients see; at most 200 characters.
    pub title: Option<Text>,
    /// Text that precedes the servers' own instructions; at most 16 KiB.
    pub instructions: Option<Text>,
    /// Address and port to listen on, port 1024–65535; `[::]:3001` is every IPv6 and IPv4 address.
    /// Default `127.0.0.1:3001`. Without authentication of callers (`auth`) only a loopback
    /// address.
    pub listen: Option<Text>,
    /// Further files of this configuration, such as one for each team: files, folders, or patterns
    /// such as `teams/*.yaml`, in or below this file's folder; at most 64. Different values for the
    /// same key are a mistake; `import`, `policy.files` and lists of `allow` and `deny` are
    /// combined.
    pub include: List,
    /// Files with `mcpServers` (or VS Code's `servers`); their entries are added to `servers`.
    /// Relative to this file.
    pub import: List,
    /// The MCP servers behind the gateway, by name: `a-z`, `0-9` and `-`, at most 64 characters; at
    /// most 256 of them.
    pub servers: BTreeMap<String, Server>,
    /// Servers that organisations may add, by name: `a-z`, `0-9` and `-`, at most 64 characters; at
    /// most 256 of them.
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
    /// Tools of servers with equal definitions that appear as one, named as if the group were the
    /// server; at most 100.
    pub groups: BTreeMap<String, Group>,
    /// Endpoints at `/endpoints/NAME/mcp` with chosen items of all servers; at most 100.
    pub endpoints: BTreeMap<String, Items>,
    /// Documents with which hosts find endpoints.
    pub discovery: Discovery,
    /// Ids of extensions (`prefix/name`) that add no methods, only settings, `_meta` or members of
    /// results. Endpoints announce them if servers do, with equal settings. MCP Apps need no entry.
    pub extensions: List,
    /// Methods beyond the specification, such as `com.example/search`, that an endpoint of a single
    /// server passes to it; at most 100.
    pub methods: List,
    /// Limits of the request path.
    pub limits: Limits,
    /// How the gateway reaches other hosts.
    pub egress: Egress,
    /// At least 32 characters, from which the keys of cursors and other tokens are derived. Without
    /// it, each start generates a new one. A reference: `${LOCKGATE_SECRET}` or `file:PATH`.
    pub secret: Option<Text>,
    /// Former values of `secret`, 7 at most; their tokens remain valid. To change the secret, or to
    /// add one on all replicas before any of them uses it.
    pub old_secrets: Vec<Text>,
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
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, schemars(inline))]
pub enum Profile {
    #[default]
    Development,
    Production,
}
