//! The operator's endpoints on an address of their own, and on a thread of their own: they answer
//! whatever clients do to the gateway, and whatever its workers do. Everything else is as for
//! clients: TLS, limits, and the checks of Host and Origin.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Audience, Config};
use crate::exchange_handler::Handler;
use crate::fallback::Fallback;
use crate::http::{BindError, Server};

/// Open connections, of all together and of one address.
const CONNECTIONS: usize = 128;

/// Why operators are not served.
#[derive(Debug, thiserror::Error)]
pub enum OperatorsError {
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error("the thread of the operator's endpoints does not start: {0}")]
    Thread(#[from] io::Error),
}

/// Answers with `service` on `address`, for as long as the process lives; everything else is as in
/// the configuration for clients. Gives the bound address.
///
/// # Errors
/// [`OperatorsError`].
pub fn start_operators<H: Handler, F: Fallback>(
    address: SocketAddr,
    clients: &Config,
    handler: Arc<H>,
    service: F,
) -> Result<SocketAddr, OperatorsError> {
    let mut config = Config { listen: address, audience: Audience::Operators, ..clients.clone() };
    config.limits.connections = CONNECTIONS;
    config.limits.connections_per_address = CONNECTIONS;
    let server = Server::bind(config)?;
    let address = server.address();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let thread = std::thread::Builder::new().name("operators".into());
    thread.spawn(move || {
        let served = server.run(handler, service, std::future::pending(), Duration::ZERO);
        if let Err(error) = runtime.block_on(served) {
            tracing::error!(%error, "the operator's endpoints have ended");
        }
    })?;
    Ok(address)
}
