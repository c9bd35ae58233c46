//! The listener's validated configuration. Nothing here reads a file or the environment.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::client_address::TrustedProxies;

/// The listener's address, limits and access checks over HTTP.
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
    /// Proxies that are trusted to name their clients.
    pub trusted_proxies: TrustedProxies,
    /// TLS certificate and key (PEM files); plain HTTP without it.
    pub tls: Option<Tls>,
    /// Serve the deprecated HTTP+SSE transport (2024-11-05) on `/sse`, `/servers/{slug}/sse` and
    /// `/messages`.
    pub sse: bool,
    /// Interval of comment lines on idle event streams.
    pub keep_alive: Duration,
    /// How long the server keeps answering between [`crate::Drain::begin`] and shutdown.
    pub drain: Duration,
    /// Waits for the whole `drain` time even if no request is running.
    pub drains_when_idle: bool,
    pub limits: Limits,
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

/// PEM files, read at start and again after each change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    pub cert: PathBuf,
    pub key: PathBuf,
    /// Verification of client certificates. Without it, no certificate is requested.
    pub clients: Option<Clients>,
}

/// Settings for client certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clients {
    /// PEM file of the CA certificates.
    pub ca: PathBuf,
    /// Clients without a certificate are rejected.
    pub required: bool,
}

/// Limits on the bytes a connection may send or leave unread. The error names the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one request body, or of one line in stdio mode (413).
    pub body_bytes: usize,
    /// Bytes of request line and headers together (431).
    pub header_bytes: usize,
    /// Time to receive the header block, and again for the body (408).
    pub read_timeout: Duration,
    pub unfinished: BodyLimits,
    /// Time for a client to accept some of the written bytes; then its connection is closed.
    pub write_timeout: Duration,
    /// Open connections. When the limit is reached, the longest idle connection is closed,
    /// unauthenticated connections first; if none can be closed, new connections wait.
    pub connections: usize,
    /// Open connections per address. A further connection is rejected if no other can be closed.
    pub connections_per_address: usize,
}

/// Limits on incomplete request bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// Minimum rate of a body in bytes per second, averaged over five seconds (408).
    pub rate: usize,
    /// Bodies per connection that take longer than a second (503).
    pub slow_per_connection: usize,
    /// Bodies per principal that take longer than a second (503).
    pub slow_per_principal: usize,
    /// Bytes of all incomplete bodies of a connection (503).
    pub bytes_per_connection: usize,
    /// Bytes of all incomplete bodies of a principal (503).
    pub bytes_per_principal: usize,
}
