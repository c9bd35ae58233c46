//! `servers.NAME`: an MCP server behind the gateway. Values may be secrets, so there is no `Debug`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lockgate_accounts::{Listing, Method};
use lockgate_upstream::{Breaker, EraChoice, Limits, Sessions};

use super::leaf::{List, Seconds, Text, Toggle, Whole};

lockgate_text::settings! {
    /// Either `command` (a program that uses stdio) or `url`.
    pub struct Server as "Server" {
        /// The program to start; one with a slash is relative to this file.
        pub command: Option<String> = Option<Text>,
        /// Its arguments.
        pub args: Vec<String> = Vec<Text>,
        /// Its environment, in addition to `PATH`, `HOME`, `LANG`, `TMPDIR` and similar variables.
        pub env: BTreeMap<String, String> = BTreeMap<String, Text>,
        /// Additional environment of the program: `network` adds the proxy and the certificate
        /// authorities of `egress`, and the gateway's own `HTTPS_PROXY`, `NO_PROXY`,
        /// `SSL_CERT_FILE`, `NODE_EXTRA_CA_CERTS`, `REQUESTS_CA_BUNDLE`, the package indexes
        /// (`PIP_INDEX_URL`, `UV_DEFAULT_INDEX`, `NPM_CONFIG_REGISTRY`) and related variables, if
        /// they are set. It includes the password of the proxy.
        pub inherit: Vec<Inherited>,
        /// Its working folder, relative to this file.
        pub cwd: Option<PathBuf> = Option<Text>,
        /// Address of the server, for HTTP.
        pub url: Option<String> = Option<Text>,
        /// `stdio`, `http` (Streamable HTTP) or `sse` (the older HTTP+SSE). Default: `stdio` with
        /// `command`, `http` with `url`.
        @serde(alias = "type")
        pub transport: Option<Transport>,
        /// Headers sent with every request to `url`.
        pub headers: BTreeMap<String, String> = BTreeMap<String, Text>,
        /// Sends the caller's identity to the server, in a signed header `Lockgate-Identity` of
        /// each request over HTTP: see `identity.keys`.
        pub identity: Option<ServerIdentity>,
        /// The account with which calls are made, over HTTP with OAuth.
        pub auth: Option<ServerAuth>,
        /// Protocol era: `auto`, `modern` (2026-07-28) or `legacy` (up to 2025-11-25).
        pub era: EraChoice,
        /// `true`: the arguments of a call are validated against the tool's `inputSchema` before it
        /// is sent to the server, and the first mistake is reported with its location. Schemas that
        /// refer to themselves, have more than 64 patterns or references with `%`, or are of draft
        /// 3 or 4 are not applied; the log lists their tools.
        pub validate_arguments: bool = Toggle<false>,
        /// `false`: not connected and not listed.
        pub enabled: bool = Toggle<true>,
        /// Legacy servers: which clients share a connection: `auto` (a client that supports
        /// questions has its own; over stdio its own process), `shared` (all clients) or `client`
        /// (each client session has its own). Tools that a server offers only to clients that
        /// support questions are shown to clients with their own connection.
        pub sessions: Sessions,
        /// Time for one call, 1–300 s.
        pub timeout: Duration = Seconds<1, 300, 60>,
        /// Time for individual tools, by the server's own name for them, 1–300 s.
        pub tool_timeouts: BTreeMap<String, Duration> = BTreeMap<String, Seconds<1, 300, 60>>,
        /// Time to start, initialize and read all lists, 1–300 s.
        pub start_timeout: Duration = Seconds<1, 300, 30>,
        /// Concurrent calls, 1–1024.
        pub concurrency: usize = Whole<1, 1024, 128>,
        /// Calls that wait for a free slot, 0–65536.
        pub queue: usize = Whole<0, 65_536, 128>,
        /// How long all slots may be in use without any message from the server, 1–300 s; then
        /// waiting calls are rejected. If calls usually take longer than half of it, twice their
        /// usual time, at most `timeout`.
        pub stall_timeout: Duration = Seconds<1, 300, 10>,
        /// Connections of a legacy server that belong to one client each, 1–4096; half of them,
        /// rounded up, may be used by the modern calls of one caller. Idle ones are closed to make
        /// room. Default: 16 with `command`, where each is a process, 1024 with `url`.
        pub client_connections: Option<usize> = Option<Whole<1, 4096, 16>>,
        /// Circuit breaker for a failing server.
        pub breaker: Breaker,
        /// Periodic health checks of the server.
        pub health: Health,
        /// Limits of the server's messages.
        pub limits: Limits,
    }

    // The audience is required: the gateway's address of a server may change, but the value that
    // the server compares with must not.

    pub struct ServerIdentity as "ServerIdentity" {
        /// The exact `aud` that the server expects, such as `https://crm.example.com/mcp`.
        /// Required, and different for each server.
        pub audience: Option<String> = Option<Text>,
    }

    #[serde(rename_all = "lowercase")]
    pub enum Inherited { Network }

    pub struct Health as "Health" {
        /// Time without messages after which the server is checked, 0–3600 s; 0: never. Default: 15
        /// with `command`, 0 with `url`.
        pub interval: Option<Duration> = Option<Seconds<0, 3600, 15>>,
        /// How long a check may take, 1–300 s; doubled after each failure, up to 300 s, until a
        /// call is answered. A server that does not respond is `unresponsive`, and is restarted or
        /// reconnected unless a running call explains the silence.
        pub timeout: Duration = Seconds<1, 300, 10>,
    }

    #[serde(rename_all = "lowercase")]
    pub enum Transport {
        Stdio,
        #[serde(alias = "streamable-http", alias = "streamableHttp", alias = "streamable_http")]
        Http,
        Sse,
    }

    // `servers.NAME.auth`: the gateway as an OAuth client of a server. Holds secrets and so has no
    // `Debug`.

    /// The account with which calls are made.
    pub struct ServerAuth as "ServerAuth" {
        /// `user`: each caller connects its own account in a browser, and calls use no other.
        /// `user_headers`: each caller enters its own key once. `client_credentials`: the gateway's
        /// own account, for all callers. `wif`: the same, with the token of the workload in
        /// `token_file`. `exchange`: the caller's access token is exchanged at `issuer` (RFC 8693).
        /// `id_jag`: it is exchanged for an identity assertion of `provider`, which `issuer`
        /// accepts. Required.
        pub r#type: Option<Method>,
        /// The only authorization server to use, by its exact `issuer`. Required with `client_id`
        /// and `wif`. Default: the one that the server names.
        pub issuer: Option<String> = Option<Text>,
        /// The gateway's client id there. Default with `user`: the gateway registers itself.
        pub client_id: Option<String> = Option<Text>,
        /// The client secret; none for a public client. A reference: `${CLIENT_SECRET}` or
        /// `file:PATH`.
        pub client_secret: Option<String> = Option<Text>,
        /// Instead of a secret, a private key (P-256, PEM, PKCS #8) that signs assertions
        /// (`private_key_jwt`). A reference: `file:PATH` or `${CLIENT_KEY}`.
        pub client_key: Option<String> = Option<Text>,
        /// The `kid` of the assertions.
        pub client_key_id: Option<String> = Option<Text>,
        /// The scopes that may be requested. Default: those that the server asks for.
        pub scopes: Option<Vec<String>> = Option<List>,
        /// With `wif`, the file with the token that the platform issues to the gateway, such as a
        /// projected token of Kubernetes; read for each request to `issuer`. Required.
        pub token_file: Option<PathBuf> = Option<Text>,
        /// With `user_headers`, the header of the key. Default: `Authorization: Bearer`.
        pub header: Option<String> = Option<Text>,
        /// With `exchange`, the name of the server at `issuer`, if it requires one.
        pub audience: Option<String> = Option<Text>,
        /// With `id_jag`, the identity provider of the callers, at which the gateway is a client.
        pub provider: Option<AuthProvider>,
        /// Unless `client_credentials` or `wif`, the credential that reads the lists: `none`,
        /// `static` (`headers`, which are sent for no call), `first_user` (the lists of the first
        /// user that connects, for all), `per_user` (each user's own lists, for that user alone) or
        /// `client_credentials` (the gateway's own account).
        pub discovery: Listing,
        /// With `user` and `user_headers`, how long a call waits for the account, after its client
        /// was asked to open the page, 0–600 s.
        pub waits: Duration = Seconds<0, 600, 0>,
    }

    /// An identity provider that issues identity assertions.
    pub struct AuthProvider as "AuthProvider" {
        /// Its exact `issuer`. Required.
        pub issuer: Option<String> = Option<Text>,
        /// The gateway's client id there. Required.
        pub client_id: Option<String> = Option<Text>,
        /// The client secret. A reference: `${PROVIDER_SECRET}` or `file:PATH`. Required.
        pub client_secret: Option<String> = Option<Text>,
    }
}
