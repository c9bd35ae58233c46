//! What outbound connections need to know, already validated. It reads no file and no environment.

use std::path::PathBuf;
use std::time::Duration;

use crate::address::Policy;
use crate::route::Route;

/// How the gateway reaches other hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// PEM bundle of further certificate authorities, besides the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether `SSL_CERT_FILE` and `SSL_CERT_DIR` say where the system's authorities are.
    pub from_environment: bool,
    /// What is reached through a proxy; databases and stores never are.
    pub route: Option<Route>,
    /// Time for name lookup, connect and TLS handshake together.
    pub connect_timeout: Duration,
    /// Idle connections kept per server.
    pub idle_connections: usize,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// Where servers of organisations may be.
    pub organisations: Policy,
}
