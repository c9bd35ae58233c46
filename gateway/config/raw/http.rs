//! `http`, `admin` and `approvals`: the interfaces for clients and operators.

use std::path::PathBuf;
use std::time::Duration;

use lockgate_admin::Ready;
use lockgate_listener::ForwardedHeader;

use super::leaf::{List, Seconds, Size, Text, Toggle, Whole};

lockgate_text::settings! {
    pub struct Http as "Http" {
        /// Names accepted in the `Host` header besides loopback names and the bound address; `*`
        /// accepts any. Default none.
        pub hosts: Vec<String> = List,
        /// Origins (`https://app.example`) of browsers accepted besides loopback ones. Default
        /// none.
        pub origins: Vec<String> = List,
        /// Addresses and networks of proxies trusted to report the address of their client, such as
        /// `10.0.0.0/8`. Default none.
        pub trusted_proxies: Vec<String> = List,
        /// The header that contains it: `x-forwarded-for` or `forwarded`. The other one is ignored,
        /// because proxies forward it unchanged from their client.
        pub forwarded_header: ForwardedHeader,
        /// Address at which clients reach the gateway, such as `https://mcp.example.com`: the
        /// audience of OAuth tokens. By default `listen`, if that is a loopback address.
        pub public_url: Option<String> = Option<Text>,
        /// Certificate and key; plain HTTP without it.
        pub tls: Option<Tls>,
        /// Also serve the deprecated HTTP+SSE transport on `/sse`, `/servers/{name}/sse` and
        /// `/messages`.
        pub sse: bool = Toggle<false>,
        /// Interval of comment lines on idle event streams, 1–300 s.
        pub keep_alive: Duration = Seconds<1, 300, 15>,
        /// Allow ports 1–1023 for `listen` and `admin.listen`.
        pub privileged_ports: bool = Toggle<false>,
        /// Largest request body, 1KiB–1GiB; larger ones are answered with 413.
        pub body_bytes: usize = Size<1024, 0x4000_0000, 16_000_000>,
        /// Largest request line and headers together, 1KiB–1MiB; larger ones are answered with 431.
        pub header_bytes: usize = Size<1024, 0x10_0000, 0x1_0000>,
        /// Time to receive the headers, and again for the body, 1–300 s.
        pub read_timeout: Duration = Seconds<1, 300, 30>,
        /// Longest time without progress of a write to a client, 1–300 s; then its connection is
        /// closed. Does not apply to streams with no pending writes.
        pub write_timeout: Duration = Seconds<1, 300, 60>,
        /// Minimum bytes per second of a request body, over five seconds, 1–1MiB; a slower one is
        /// answered with 408.
        pub body_rate: usize = Size<1, 0x10_0000, 1024>,
        /// Request bodies of one connection that take longer than a second, 1–1000; one more is
        /// answered with 503.
        pub slow_bodies_per_connection: usize = Whole<1, 1000, 16>,
        /// The same for one caller, over all connections, 1–100000.
        pub slow_bodies_per_principal: usize = Whole<1, 100_000, 256>,
        /// Bytes received of incomplete request bodies of one connection, 1KiB–16GiB; more are
        /// answered with 503. At least `http.body_bytes` are accepted.
        pub unfinished_bytes_per_connection: usize = Size<1024, 0x4_0000_0000, 32_000_000>,
        /// The same for one caller, over all connections, 1KiB–16GiB. At least `http.body_bytes`
        /// are accepted.
        pub unfinished_bytes_per_principal: usize = Size<1024, 0x4_0000_0000, 50_000_000>,
        /// Open connections, 1–100000. At the limit, the longest idle connection without a valid
        /// credential is closed; if there is none, one with a valid credential that has been idle
        /// for 10 s; otherwise new connections wait.
        pub connections: usize = Whole<1, 100_000, 4096>,
        /// Open connections of one address, 1–100000; one more replaces an idle one of the same
        /// address, or is closed. Default: seven eighths of `connections`.
        pub connections_per_address: Option<usize> = Option<Whole<1, 100_000, 0>>,
        /// How long requests are still answered after SIGTERM, 0–300 s: `/readyz` returns 503 and
        /// clients are asked to reconnect, so that a load balancer can route them elsewhere. SIGINT
        /// and a second signal skip it. Without this setting, a development gateway ends with its
        /// last request.
        pub drain: Duration = Seconds<0, 300, 5>,
    }

    /// PEM files, read again whenever they change.
    pub struct Tls as "Tls" {
        /// PEM file of the certificate chain; relative to this file.
        pub cert: Option<PathBuf> = Option<Text>,
        /// PEM file of the private key; relative to this file.
        pub key: Option<PathBuf> = Option<Text>,
        /// PEM file of the authorities of client certificates, which make principals; relative to
        /// this file.
        pub client_ca: Option<PathBuf> = Option<Text>,
        /// `required`: no connection without a client certificate. `optional`: other credentials
        /// are accepted as well.
        pub client_auth: ClientAuth,
    }

    /// Whether clients must have a certificate.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum ClientAuth { #[default] Required, Optional }

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
        pub grants: Option<Vec<String>> = Option<List>,
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
        pub scopes: Option<Vec<String>> = Option<List>,
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

    pub struct Webhook as "Webhook" {
        /// Address of the messages, which contain a link to the call; requires `http.public_url`.
        pub url: Option<String> = Option<Text>,
        /// Key that signs the messages (Standard Webhooks): `whsec_` and 24 to 64 random bytes in
        /// base64. A reference: `${WEBHOOK_SECRET}` or `file:PATH`.
        pub secret: Option<String> = Option<Text>,
    }
}

impl Http {
    /// Returns the maximum connections of an address: seven eighths of all, unless configured.
    pub(crate) fn most_of_address(&self) -> usize {
        self.connections_per_address.unwrap_or((self.connections * 7).div_ceil(8))
    }
}
