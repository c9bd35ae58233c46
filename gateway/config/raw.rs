//! The configuration as written: the sections of layers, and here those that need conversion, with
//! every key optional. Editors show the doc comments. Nothing here implements `Debug`, because
//! values may be secrets.

mod server;

use std::collections::BTreeMap;

use leaf::{List, Text};
use lockgate_admin::{Ready, Webhook};
use lockgate_listener::HttpSettings;
use lockgate_policy::Lists;
use lockgate_policy::pin::Pins;
use lockgate_proxy::{Discovery, Group, Items, Limits, Names, ToolSearch};
use lockgate_telemetry::{Export, Format, audit};
pub use lockgate_text::setting as leaf;
pub use server::{AuthProvider, Inherited, Server, ServerAuth, Transport};

/// The default address of the gateway.
pub const LISTEN: &str = "127.0.0.1:3001";

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
        pub name: String = Text | "lockgate",
        /// The display name that clients see; at most 200 characters.
        pub title: Option<String> = Option<Text>,
        /// Text that precedes the servers' own instructions; at most 16 KiB.
        pub instructions: Option<String> = Option<Text>,
        /// Address and port to listen on, port 1024–65535; `[::]:3001` is every IPv6 and IPv4
        /// address. Default `127.0.0.1:3001`. Without authentication of callers (`auth`) only a
        /// loopback address.
        pub listen: String = Text | LISTEN,
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
        pub builtin: lockgate_tools::Config,
        /// How clients reach the gateway over HTTP.
        pub http: HttpSettings,
        /// Authentication of callers.
        pub auth: lockgate_authn::Config,
        /// Signing of callers' identities for servers.
        pub identity: Identity,
        /// Permissions of callers.
        pub policy: Lists,
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
        pub egress: lockgate_egress::Config,
        /// At least 32 characters, from which the keys of cursors and other tokens are derived.
        /// Without it, each start generates a new one. A reference: `${LOCKGATE_SECRET}` or
        /// `file:PATH`.
        pub secret: Option<String> = Option<Text>,
        /// Former values of `secret`, 7 at most; their tokens remain valid. To change the secret,
        /// or to add one on all replicas before any of them uses it.
        pub old_secrets: Vec<String> = Vec<Text>,
        /// Storage of integrations, agents and credentials added at run time.
        pub store: lockgate_store::Config,
        /// Sharing of policy rates between gateways.
        pub redis: Redis,
        /// How gateways with the same `secret` reach each other, so that each can answer for all.
        pub replicas: Replicas,
        /// Logging to stderr.
        pub log: Log,
        /// Traces and metrics.
        pub telemetry: Export,
        /// Approved definitions of tools.
        pub pins: Pins,
        /// Notification of approvers about waiting calls.
        pub approvals: Approvals,
        /// The trail of decisions and outcomes.
        pub audit: audit::Config,
        /// Health, readiness and metrics.
        pub admin: Admin,
    }

    /// How strict the defaults are.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum Profile { #[default] Development, Production }

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

    // `log`.

    pub struct Log as "Log" {
        /// `off`, `error`, `warn`, `info`, `debug` or `trace`, also per module:
        /// `info,lockgate_proxy=debug`. Default `info`.
        pub level: String = Text | "info",
        /// `text` or `json`, one object per line. Default `text`, in production `json`.
        pub format: Option<Format>,
    }

    // `identity`: signing of callers' identities.

    pub struct Identity as "Identity" {
        /// Private keys (P-256, PEM, PKCS #8), 8 at most, for `servers.NAME.identity`: the first
        /// signs, all are published at `/.well-known/jwks.json`. References: `file:PATH` or
        /// `${IDENTITY_KEY}`. The same on every replica.
        pub keys: Vec<String> = Vec<Text>,
    }

    // `redis` and `replicas`: state that gateways share.

    pub struct Redis as "Redis" {
        /// Redis or Valkey, for gateways that share the rates of their policies:
        /// `redis://USER:PASSWORD@HOST:PORT/DATABASE`, with TLS `rediss://`. Requires `secret`, the
        /// same on every gateway. A reference: `${REDIS_URL}` or `file:PATH`. Without it each
        /// gateway counts separately.
        pub url: Option<String> = Option<Text>,
        /// Prefix of keys, for several groups of gateways in one database: 1 to 64 letters, digits
        /// and `-_.:`. Default `lockgate`.
        pub prefix: Option<String> = Option<Text>,
    }

    pub struct Replicas as "Replicas" {
        /// Address at which the other gateways with this `secret` reach this one, with a port if it
        /// differs from that of `listen`, such as `${POD_IP}`. Answers to questions and the ends of
        /// sessions are then sent to the gateway that holds the call. Requires `replicas.peers` and
        /// `secret`.
        pub address: Option<String> = Option<Text>,
        /// Names or addresses that resolve to all gateways, including this one, each with a port if
        /// it differs from that of `listen`; at most 64. A name is resolved for each message, and
        /// nothing is sent to any other address.
        pub peers: Vec<String> = List,
        /// The name in the certificate of all gateways; required with `http.tls`. `http.hosts` must
        /// accept it.
        pub tls_name: Option<String> = Option<Text>,
    }

    // `admin` and `approvals`: the interfaces for operators.

    pub struct Admin as "Admin" {
        /// Separate address for `/healthz`, `/readyz`, `/metrics` and the API, served by its own
        /// thread; without it they are on `listen`. TLS, limits, Host and Origin are as on
        /// `listen`; health and metrics are also answered without TLS and credentials.
        pub listen: Option<String> = Option<Text>,
        /// A bearer token for the complete `/metrics`, with names of servers, tools and rules,
        /// without any other permission; at least 16 characters. A reference: `${SCRAPE_TOKEN}` or
        /// `file:PATH`.
        pub scrape_token: Option<String> = Option<Text>,
        /// Where the API (`/api`) is served: `auto`, `everywhere` or `off`. It is on
        /// `admin.listen`, and with `everywhere` also on `listen`, as with `auto` in development.
        /// Default `auto`.
        pub api: ApiPlace,
        /// Operators of the whole gateway: `role:NAME`, `certificate:dns:NAME`, or `principal:` and
        /// a caller as in policies; a final `*` matches any suffix. Default: API keys with the role
        /// `operator`. In development also the user of this machine.
        pub operators: Option<Vec<String>> = Option<List>,
        /// Administrators of their own organisation, in the same form. Default: API keys with the
        /// role `admin`.
        pub admins: Option<Vec<String>> = Option<List>,
        /// Further roles that administrators may give to keys of their organisation, besides their
        /// own roles. Default: none.
        pub grants: Vec<String> = List | [],
        /// Address of a registry (API v0.1) whose remote servers administrators can add, such as
        /// `https://registry.modelcontextprotocol.io`. Default: none.
        pub import_registry: Option<String> = Option<Text>,
        /// When `/readyz` returns 200: `started`, once every server of `servers` is connected or
        /// has failed; `any`, while at least one is connected; `all`, while all enabled ones are.
        /// Default `started`.
        pub ready: Ready,
        /// Signing in to the console through an identity provider (OpenID Connect).
        pub sign_in: Option<SignIn>,
    }

    /// The gateway as a client of an OpenID provider. Holds a secret and so has no Debug.
    pub struct SignIn as "SignIn" {
        /// The provider, by its name in `auth.issuers`, whose keys, algorithms, clock skew and
        /// claims apply.
        pub issuer: Option<String> = Option<Text>,
        /// The gateway's client id at the provider.
        pub client_id: Option<String> = Option<Text>,
        /// The gateway's client secret at the provider; none for a public client. A reference:
        /// `${SIGN_IN_SECRET}` or `file:PATH`.
        pub client_secret: Option<String> = Option<Text>,
        /// Scopes requested from the provider; must include `openid`. Default `openid`.
        pub scopes: Vec<String> = List | ["openid"],
        /// Address of the console for browsers, such as `https://console.example.com`; the provider
        /// redirects them to `/console/sign-in/callback` there. By default `http.public_url` or
        /// `admin.listen`, depending on where the console is served.
        pub console_url: Option<String> = Option<Text>,
    }

    /// Where the API is served.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum ApiPlace { #[default] Auto, Everywhere, Off }

    pub struct Approvals as "Approvals" {
        /// Receives a message when a call starts to wait for approvers other than its caller.
        pub webhook: Option<Webhook>,
    }
}
