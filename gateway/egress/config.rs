//! What outbound connections need to know, already validated. It reads no file and no environment.

use std::path::PathBuf;

use crate::address::Policy;
use std::time::Duration;

/// How the gateway reaches other hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// PEM bundle of further certificate authorities, besides the system's.
    pub ca_file: Option<PathBuf>,
    /// Time for name lookup, connect and TLS handshake together.
    pub connect_timeout: Duration,
    /// Idle connections kept per server.
    pub idle_connections: usize,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// Where servers of organisations may be.
    pub organisations: Policy,
}
