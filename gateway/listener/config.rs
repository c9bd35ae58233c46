//! What the listener needs to know, already validated. It reads no file and no environment.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::client_address::TrustedProxies;

/// Where and how clients reach the gateway over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Address to bind.
    pub listen: SocketAddr,
    pub audience: Audience,
    /// Names accepted in `Host` besides loopback names and the bound address; `*` accepts any.
    pub hosts: Vec<String>,
    /// Origins (`scheme://host[:port]`) accepted besides loopback ones; each also gets CORS
    /// headers.
    pub origins: Vec<String>,
    /// Who is believed when it says for whom it asks.
    pub trusted_proxies: TrustedProxies,
    /// TLS certificate and key (PEM files); plain HTTP without it.
    pub tls: Option<Tls>,
    /// Serve the deprecated HTTP+SSE transport (2024-11-05) on `/sse`, `/servers/{slug}/sse` and
    /// `/messages`.
    pub sse: bool,
    /// Interval of comment lines on idle event streams.
    pub keep_alive: Duration,
    /// How long whoever runs the server lets it answer between [`crate::Drain::begin`] and its end.
    pub drain: Duration,
    /// It takes that long although no request runs.
    pub drains_when_idle: bool,
    pub limits: Limits,
}

/// Whom a listener is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// MCP, and the service for other paths beside it.
    #[default]
    Clients,
    /// The service for other paths alone. Where there is TLS, connections without it are taken too,
    /// as probes make them; the service is told which it is ([`crate::Remote::is_encrypted`]).
    Operators,
}

/// PEM files, read at start and again whenever they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    pub cert: PathBuf,
    pub key: PathBuf,
    /// Whose certificates clients may show; none are asked for without it.
    pub clients: Option<Clients>,
}

/// Client certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clients {
    /// PEM file of the authorities that issue them.
    pub ca: PathBuf,
    /// A client without one cannot connect.
    pub required: bool,
}

/// BodyBounds on what a connection may send and leave unread. Whoever is turned away by one reads
/// which it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one request body, or of one line in stdio mode (413).
    pub body_bytes: usize,
    /// Bytes of request line and headers together (431).
    pub header_bytes: usize,
    /// Time to receive the header block, and again for the body (408).
    pub read_timeout: Duration,
    pub unfinished: BodyLimits,
    /// How long a client may take none of what is written to it; then its connection ends.
    pub write_timeout: Duration,
    /// Open connections. When they run out, the idlest goes that nobody known has used; if there is
    /// none, further ones wait.
    pub connections: usize,
    /// Open connections of one address. One more is ended when none of its others can go.
    pub connections_per_address: usize,
}

/// BodyBounds on request bodies that are not complete yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// Bytes per second that a body has to bring, over five seconds (408).
    pub rate: usize,
    /// Bodies that take longer than a second, of one connection (503).
    pub slow_per_connection: usize,
    /// The same of one principal (503).
    pub slow_per_principal: usize,
    /// Bytes of all incomplete bodies of one connection (503).
    pub bytes_per_connection: usize,
    /// The same of one principal (503).
    pub bytes_per_principal: usize,
}
