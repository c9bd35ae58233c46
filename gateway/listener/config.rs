//! The listener's validated configuration. Nothing here reads a file or the environment.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use lockgate_text::setting::{List, Seconds, Size, Text, Toggle, Whole};
use lockgate_text::settings;

use crate::client_address::{ForwardedHeader, TrustedProxies};

/// The listener's address, limits and access checks over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Address to bind.
    pub listen: SocketAddr,
    pub audience: Audience,
    /// Proxies that are trusted to name their clients.
    pub trusted_proxies: TrustedProxies,
    /// Waits for the whole `drain` time even if no request is running.
    pub drains_when_idle: bool,
    /// The settings as written, of which host names and origins are in lower case.
    pub http: HttpSettings,
}

/// The audience of a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// MCP, and the fallback service on other paths.
    #[default]
    Clients,
    /// The fallback service alone. If TLS is configured, plaintext connections are accepted as
    /// well, because probes use them; [`crate::Remote::is_encrypted`] distinguishes the two.
    Operators,
}

settings! {
    #[derive(Debug)]
    pub struct HttpSettings as "Http" {
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
    #[derive(Debug)]
    pub struct Tls as "Tls" {
        /// PEM file of the certificate chain; relative to this file.
        pub cert: PathBuf = Text | "",
        /// PEM file of the private key; relative to this file.
        pub key: PathBuf = Text | "",
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
}

impl HttpSettings {
    /// Returns the maximum connections of an address: seven eighths of all, unless configured.
    pub fn most_of_address(&self) -> usize {
        self.connections_per_address.unwrap_or((self.connections * 7).div_ceil(8))
    }
}
