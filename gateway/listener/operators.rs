//! The operator endpoints on a separate address and thread, so that they respond regardless of
//! client load and blocked workers. TLS, limits, Host and Origin checks are the same as for
//! clients.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Audience, Config};
use crate::fallback::Fallback;
use crate::gateway_handler::GatewayHandler;
use crate::http::{BindError, Server};

/// Open connections, in total and per address.
const MAX_CONNECTIONS: usize = 128;

/// The reason the operator endpoints cannot start.
#[derive(Debug, thiserror::Error)]
pub enum OperatorsError {
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error("the thread of the operator's endpoints cannot be started: {0}")]
    Thread(#[from] io::Error),
}

/// Serves `service` on `address` for the lifetime of the process. Other settings are those for
/// clients, except the connection limits. Returns the bound address.
///
/// # Errors
/// [`OperatorsError`].
#[inline(never)]
pub fn start_operators(
    address: SocketAddr,
    clients: &Config,
    handler: Arc<GatewayHandler>,
    service: Fallback,
) -> Result<SocketAddr, OperatorsError> {
    let mut config = Config { listen: address, audience: Audience::Operators, ..clients.clone() };
    config.limits.connections = MAX_CONNECTIONS;
    config.limits.connections_per_address = MAX_CONNECTIONS;
    let server = Server::bind(config)?;
    let address = server.address();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let thread = std::thread::Builder::new().name("operators".into());
    thread.spawn(move || {
        let served = server.run(handler, service, std::future::pending(), Duration::ZERO);
        if let Err(error) = runtime.block_on(served) {
            tracing::error!(%error, "the operator's endpoints have stopped");
        }
    })?;
    Ok(address)
}
