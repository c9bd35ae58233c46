//! The handler that passes exchanges to the gateway, and the threads that serve with it: those for
//! clients, and one for the operator endpoints on a separate address, so that they respond
//! regardless of client load and blocked workers. Generic code is compiled where its types are
//! known: here, in a crate optimised for speed, and not in the program, which is optimised for
//! size.

use std::borrow::Cow;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{Response, StatusCode};
use lockgate_admission::budget::Budget;
use lockgate_authn::{Credentials, Principal};
use lockgate_proxy::transport::{Endpoint, Exchange, Reply};
use lockgate_proxy::{OpenStream, TooManyStreams};
use lockgate_sessions::Edge;
use lockgate_telemetry::Rejection;
use tokio::io::{Stdin, Stdout};

use crate::config::{Audience, Config};
use crate::context::Fallback;
use crate::exchange_handler::Handler;
use crate::http::{BindError, Server};
use crate::stdio::{self, Stdio};

/// Adapts the response to a request that is rejected before routing to the format of its path.
pub type DescribeRejection =
    for<'a> fn(&'a Parts, Response<Bytes>) -> BoxFuture<'a, Response<Bytes>>;

/// Passes exchanges to a gateway, by the edge for sessions.
pub struct GatewayHandler {
    edge: Arc<Edge>,
    describe_rejection: DescribeRejection,
}

impl GatewayHandler {
    pub fn new(edge: Arc<Edge>, describe_rejection: DescribeRejection) -> Arc<Self> {
        Arc::new(Self { edge, describe_rejection })
    }
}

impl Handler for GatewayHandler {
    type Place = OpenStream;

    fn identify(
        &self,
        endpoint: &Endpoint,
        credentials: &Credentials,
    ) -> impl Future<Output = Result<Principal, Reply>> + Send {
        self.edge.gateway().identify(endpoint, credentials)
    }

    fn stream(&self, caller: &Principal) -> Result<OpenStream, TooManyStreams> {
        self.edge.gateway().stream(caller)
    }

    fn metadata(&self, path: &str) -> Option<String> {
        self.edge.gateway().metadata(path)
    }

    fn record_rejection(&self, why: Rejection, words: Cow<'static, str>) {
        self.edge.gateway().record_rejection(why, words);
    }

    fn describe_rejection(
        &self,
        parts: &Parts,
        answer: Response<Bytes>,
    ) -> impl Future<Output = Response<Bytes>> + Send {
        (self.describe_rejection)(parts, answer)
    }

    fn record_response(&self, status: StatusCode) {
        self.edge.gateway().record_response(status);
    }

    fn budget(&self) -> &Arc<Budget> {
        self.edge.gateway().budget()
    }

    fn handle(&self, exchange: &Exchange) -> impl Future<Output = Reply> + Send {
        self.edge.receive(exchange)
    }
}

impl Server {
    /// Starts a thread of this name that runs the server until `shutdown` is ready, and then for
    /// `grace`. The thread returns the number of aborted connections.
    ///
    /// # Errors
    /// The thread or its runtime cannot be started.
    #[inline(never)]
    pub fn start_thread(
        self,
        name: &'static str,
        handler: Arc<GatewayHandler>,
        fallback: Fallback,
        shutdown: BoxFuture<'static, ()>,
        grace: Duration,
    ) -> io::Result<JoinHandle<usize>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name(name.into()).spawn(move || {
            let ended = runtime.block_on(self.run(handler, fallback, shutdown, grace));
            ended.unwrap_or_else(|error| {
                tracing::error!(%error, name, "a thread that serves connections has ended");
                0
            })
        })
    }
}

/// Serves the client at the process's standard streams, as [`stdio::serve_stdio`] does.
///
/// # Errors
/// Reading from or writing to the client failed.
#[must_use]
#[inline(never)]
pub fn serve_stdio(
    stdin: Stdin,
    stdout: Stdout,
    handler: Arc<GatewayHandler>,
    limits: Stdio,
    shutdown: BoxFuture<'static, ()>,
) -> BoxFuture<'static, io::Result<usize>> {
    Box::pin(stdio::serve_stdio(stdin, stdout, handler, limits, shutdown))
}

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
    config.http.connections = MAX_CONNECTIONS;
    config.http.connections_per_address = Some(MAX_CONNECTIONS);
    let server = Server::bind(config)?;
    let address = server.address();
    server.start_thread("operators", handler, service, Box::pin(pending()), Duration::ZERO)?;
    Ok(address)
}
