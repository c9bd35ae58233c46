//! The validated configuration of outbound connections. Reads no files and no environment.

use std::path::PathBuf;
use std::time::Duration;

use crate::address::Policy;
use crate::proxy::Route;

/// How the gateway reaches other hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// PEM bundle of additional CA certificates, besides the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether `SSL_CERT_FILE` and `SSL_CERT_DIR` replace the locations of the system's CA
    /// certificates.
    pub from_environment: bool,
    /// The proxy and its exceptions. Databases and stores never use it.
    pub route: Option<Route>,
    /// Timeout for name lookup, connect and TLS handshake together.
    pub connect_timeout: Duration,
    /// Idle connections kept per server.
    pub idle_connections: usize,
    /// Time for which an idle connection is kept.
    pub idle_timeout: Duration,
    /// The permitted addresses of organisations' servers.
    pub organisations: Policy,
}
