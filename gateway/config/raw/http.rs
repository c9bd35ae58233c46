//! `http` and `admin`: the interfaces for clients and operators.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::{List, Seconds, Size, Text, Toggle, Whole};

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Names accepted in the `Host` header besides loopback names and the bound address; `*`
    /// accepts any. Default none.
    pub hosts: List,
    /// Origins (`https://app.example`) of browsers accepted besides loopback ones. Default none.
    pub origins: List,
    /// Addresses and networks of proxies that are believed when they name the client that they ask
    /// for, such as `10.0.0.0/8`. Default none.
    pub trusted_proxies: List,
    /// The header in which they do: `x-forwarded-for` or `forwarded`. A proxy passes the other one
    /// on as its client wrote it, so that it is not read.
    pub forwarded_header: ForwardedHeader,
    /// Where clients reach the gateway, such as `https://mcp.example.com`: OAuth tokens are made
    /// for it. By default `listen`, when that is this machine.
    pub public_url: Option<Text>,
    /// Certificate and key; plain HTTP without it.
    pub tls: Option<Tls>,
    /// Also serve the deprecated HTTP+SSE transport on `/sse`, `/servers/{name}/sse` and
    /// `/messages`.
    pub sse: Toggle<false>,
    /// Interval of comment lines on idle event streams, 1–300 s.
    pub keep_alive: Seconds<1, 300, 15>,
    /// Allow ports 1–1023 for `listen` and `admin.listen`.
    pub privileged_ports: Toggle<false>,
    /// Largest request body, 1KiB–1GiB; larger ones are answered with 413.
    pub body_bytes: Size<1024, 0x4000_0000, 16_000_000>,
    /// Largest request line and headers together, 1KiB–1MiB; larger ones are answered with 431.
    pub header_bytes: Size<1024, 0x10_0000, 0x1_0000>,
    /// Time to receive the headers, and again for the body, 1–300 s.
    pub read_timeout: Seconds<1, 300, 30>,
    /// Longest time between two writes that a client takes something of, 1–300 s; then its
    /// connection ends. Streams on which nothing waits to be written are not concerned.
    pub write_timeout: Seconds<1, 300, 60>,
    /// Bytes per second that a request body has to bring, over five seconds, 1–1MiB; a slower one
    /// is answered with 408.
    pub body_rate: Size<1, 0x10_0000, 1024>,
    /// Request bodies of one connection that take longer than a second, 1–1000; one more is
    /// answered with 503.
    pub slow_bodies_per_connection: Whole<1, 1000, 16>,
    /// The same of one caller, over all connections, 1–100000.
    pub slow_bodies_per_principal: Whole<1, 100_000, 256>,
    /// Bytes that have come of incomplete request bodies of one connection, 1KiB–16GiB; more are
    /// answered with 503. At least `http.body_bytes` are taken.
    pub unfinished_bytes_per_connection: Size<1024, 0x4_0000_0000, 32_000_000>,
    /// The same of one caller, over all connections, 1KiB–16GiB. At least `http.body_bytes` are
    /// taken.
    pub unfinished_bytes_per_principal: Size<1024, 0x4_0000_0000, 50_000_000>,
    /// Open connections, 1–100000. When they run out, the idlest goes that nobody with a good
    /// credential has used; if there is none, one that such a caller has left idle for 10 s; else
    /// further ones wait.
    pub connections: Whole<1, 100_000, 4096>,
    /// Open connections of one address, 1–100000; one more takes the slot of an idle one of the
    /// same address, or is ended. Default: seven eighths of `connections`.
    pub connections_per_address: Option<Whole<1, 100_000, 0>>,
    /// How long requests are still answered after SIGTERM, 0–300 s: `/readyz` says 503 and clients
    /// are told to connect anew, so that a balancer can lead them elsewhere. SIGINT and a second
    /// signal skip it. A development gateway for which this is not set ends with its last request.
    pub drain: Seconds<0, 300, 5>,
}

impl Http {
    /// Returns the maximum connections of an address: seven eighths of all, unless configured.
    pub(crate) fn most_of_address(&self) -> usize {
        let all = self.connections.size();
        match &self.connections_per_address {
            Some(given) => given.size(),
            None => (all * 7).div_ceil(8),
        }
    }
}

/// In which header proxies name their clients.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum ForwardedHeader {
    #[default]
    XForwardedFor,
    Forwarded,
}

/// PEM files, read again whenever they change.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// PEM file of the certificate chain; relative to this file.
    pub cert: Option<Text>,
    /// PEM file of the private key; relative to this file.
    pub key: Option<Text>,
    /// PEM file of the authorities of client certificates, which make principals; relative to this
    /// file.
    pub client_ca: Option<Text>,
    /// `required`: no connection without a client certificate. `optional`: other credentials do as
    /// well.
    pub client_auth: ClientAuth,
}

/// Whether clients must have a certificate.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ClientAuth {
    #[default]
    Required,
    Optional,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    /// Address of its own for `/healthz`, `/readyz`, `/metrics` and the API, served by a thread of
    /// its own; without it they are on `listen`. TLS, limits, Host and Origin are as on `listen`;
    /// health and metrics are answered without TLS and credentials, too.
    pub listen: Option<Text>,
    /// A bearer token that reads `/metrics` whole, with names of servers, tools and rules, and is
    /// good for nothing else; at least 16 characters. A reference: `${SCRAPE_TOKEN}` or
    /// `file:PATH`.
    pub scrape_token: Option<Text>,
    /// Where the API (`/api`) is: `auto`, `everywhere` or `off`. It is on `admin.listen`, and with
    /// `everywhere` on `listen` too, as with `auto` in development. Default `auto`.
    pub api: ApiPlace,
    /// Who runs the whole gateway: `role:NAME`, `certificate:dns:NAME`, or
    /// `principal:` and a caller as policies name it; a `*` at the end stands for any end.
    /// Default: API keys with the role `operator`. In development the user of this machine is one
    /// too.
    pub operators: Option<List>,
    /// Who runs its own organisation, in the same words. Default: API keys with the role `admin`.
    pub admins: Option<List>,
    /// When `/readyz` says 200: `started`, once every server of `servers` is connected or has
    /// failed; `any`, while at least one is connected; `all`, while all that are not switched off
    /// are. Default `started`.
    pub ready: Ready,
    /// Signing in to the console through an identity provider (OpenID Connect).
    pub sign_in: Option<SignIn>,
}

/// What has to be there for the gateway to be ready.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Ready {
    #[default]
    Started,
    Any,
    All,
}

/// The gateway as a client of an OpenID provider. Holds a secret and so has no Debug.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SignIn {
    /// The provider, by its name in `auth.issuers`: its keys, algorithms, clock skew and claims
    /// are those of its tokens.
    pub issuer: Option<Text>,
    /// What the provider knows the gateway by.
    pub client_id: Option<Text>,
    /// What the gateway shows the provider; none of a public client. A reference:
    /// `${SIGN_IN_SECRET}` or `file:PATH`.
    pub client_secret: Option<Text>,
    /// What is asked of the provider; `openid` has to be among it. Default `openid`.
    pub scopes: Option<List>,
    /// Where browsers reach the console, such as `https://console.example.com`; the provider sends
    /// them back to `/console/sign-in/callback` there. By default `http.public_url` or
    /// `admin.listen`, whichever the console is on.
    pub console_url: Option<Text>,
}

/// Where the API is answered.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ApiPlace {
    #[default]
    Auto,
    Everywhere,
    Off,
}
