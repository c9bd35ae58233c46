//! What the operator's endpoints need to know, already validated. It reads no file and no
//! environment.

use std::net::SocketAddr;

/// Where `/healthz`, `/readyz` and `/metrics` are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// An address of their own; without it they are on the clients' listener.
    pub listen: Option<SocketAddr>,
}
