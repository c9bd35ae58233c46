//! Accept loops that serve HTTP/1.1 and HTTP/2, with or without TLS, until shutdown. A [`Server`]
//! is a single accept loop on the runtime that runs it; several may share an address and all
//! limits.

mod serve;

use std::future::pending;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use lockgate_admission::spawn;
use lockgate_telemetry::Rejection;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, MissedTickBehavior};

use crate::config::{Audience, Config};
use crate::connection::Connections;
use crate::context::{Fallback, ListenerState};
use crate::gateway_handler::Handler;
use crate::http::serve::LoopState;
use crate::slots::AddressFull;
use crate::tls::{self, ServerCertificate};
use serve::serve_connection;

const LISTEN_BACKLOG: i32 = 1024;
const ADDRESS_FULL: &str = "too many connections from one address (http.connections_per_address)";
/// Bounds on the sweep interval, which is a quarter of the shorter timeout.
const MIN_TICK: Duration = Duration::from_millis(20);
const MAX_TICK: Duration = Duration::from_secs(1);
/// Interval of checks for changed certificate files.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// The reason a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("cannot listen on {address}: {cause}{}", hint(cause))]
    Address { address: SocketAddr, cause: io::Error },
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    #[error("the thread of the operator's endpoints cannot be started: {0}")]
    OperatorsThread(io::Error),
}

/// Returns advice for an address that cannot be bound.
fn hint(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::AddrInUse => {
            "; another program uses this address: choose another with --listen ADDRESS:PORT, or \
             `listen` in the configuration"
        }
        io::ErrorKind::AddrNotAvailable => "; it is not an address of this machine",
        _ => "",
    }
}

/// A bound address that does not accept connections yet.
pub struct Server {
    socket: StdListener,
    address: SocketAddr,
    listener: Arc<ListenerState>,
    identity: Option<Arc<ServerCertificate>>,
}

fn bind_address(address: SocketAddr, shared: bool) -> Result<StdListener, BindError> {
    bind_socket(address, shared).map_err(|cause| BindError::Address { address, cause })
}

impl Server {
    /// Binds the configured address and reads the certificate, if configured. Port 0 selects a free
    /// port.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind(config: Config) -> Result<Self, BindError> {
        Self::new(bind_address(config.listen, false)?, config)
    }

    /// Binds `loops` servers to the same address, for one thread and runtime each. The kernel
    /// distributes connections; limits apply to all servers together.
    ///
    /// # Errors
    /// [`BindError`]; also if another process listens on the address.
    pub fn bind_many(config: Config, loops: usize) -> Result<Vec<Self>, BindError> {
        let address = config.listen;
        // Another process could share a shared address, so check first that it is free.
        drop(bind_address(address, false)?);
        let first = Self::new(bind_address(address, true)?, config)?;
        let address = first.address;
        let mut servers = Vec::new();
        for _ in 1..loops {
            let socket = bind_address(address, true)?;
            let identity = first.identity.clone();
            servers.push(Self { socket, address, listener: Arc::clone(&first.listener), identity });
        }
        servers.push(first);
        Ok(servers)
    }

    fn new(socket: StdListener, config: Config) -> Result<Self, BindError> {
        let address = socket.local_addr();
        let address =
            address.map_err(|cause| BindError::Address { address: config.listen, cause })?;
        let identity =
            config.http.tls.clone().map(ServerCertificate::load).transpose()?.map(Arc::new);
        Ok(Self { socket, address, listener: Arc::new(ListenerState::new(config)), identity })
    }

    /// Returns the bound address, with its port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the server certificate, if TLS is configured. It is replaced while the server runs.
    #[must_use]
    pub fn certificate(&self) -> Option<Arc<ServerCertificate>> {
        self.identity.clone()
    }

    /// Returns a handle to start draining, also while the server runs.
    #[must_use]
    pub fn drain(&self) -> Drain {
        Drain(Arc::clone(&self.listener))
    }

    /// Starts a thread of this name that runs the server until `shutdown` is ready, and then for
    /// `grace`. The thread returns the number of aborted connections. The future is compiled here,
    /// in a crate optimised for speed.
    ///
    /// # Errors
    /// The thread or its runtime cannot be started.
    #[inline(never)]
    pub fn start_thread(
        self,
        name: &'static str,
        handler: Arc<Handler>,
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

    /// Accepts connections until `shutdown` is ready, then lets requests finish for `grace` and
    /// aborts the remaining connections. Returns the number of aborted connections. Connections run
    /// as tasks of the current runtime.
    ///
    /// # Errors
    /// The runtime cannot register the listener.
    pub(crate) async fn run(
        self,
        handler: Arc<Handler>,
        fallback: Fallback,
        shutdown: impl Future<Output = ()> + Send,
        grace: Duration,
    ) -> io::Result<usize> {
        let socket = TcpListener::from_std(self.socket)?;
        let connections = Connections::new(Arc::clone(handler.budget()));
        self.listener.slots.add_loop(&connections);
        let app = Arc::new(LoopState::new(self.listener, self.identity, handler, fallback));
        let settings = &app.listener.config.http;
        let head = settings.read_timeout;
        let write = settings.write_timeout;
        let tick = (head.min(write) / 4).clamp(MIN_TICK, MAX_TICK);
        let mut ticks = tokio::time::interval(tick);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looked = Instant::now();
        let mut shutdown = std::pin::pin!(shutdown);
        // A connection accepted while all slots were taken.
        let mut waiting: Option<Accepted> = None;
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                _ = ticks.tick() => {
                    connections.sweep(tick, head, write);
                    if waiting.is_some() {
                        app.listener.slots.make_room();
                    }
                    if looked.elapsed() >= RELOAD_INTERVAL {
                        looked = Instant::now();
                        if let Some(identity) = &app.identity {
                            Arc::clone(identity).reload_in_background();
                        }
                    }
                }
                () = app.listener.slots.freed(), if waiting.is_some() => {
                    if let Some(accepted) = waiting.take() {
                        waiting = app.begin_connection(&connections, accepted);
                    }
                }
                accepted = accept_connection(&socket), if waiting.is_none() => {
                    waiting = app.begin_connection(&connections, accepted);
                    if waiting.is_some() {
                        app.listener.slots.make_room();
                    }
                }
            }
        }
        app.answer_accepted(&connections, &socket, waiting);
        drop(socket);
        app.listener.sessions.close();
        Ok(connections.drain(grace).await)
    }
}

/// Open connections of operators, in total and per address.
const MAX_OPERATORS: usize = 128;

/// Serves `service` on `address` for the lifetime of the process, on a thread of its own, so that
/// it responds regardless of client load and blocked workers. Other settings are those for clients,
/// except the connection limits. Returns the bound address.
///
/// # Errors
/// [`BindError`].
#[inline(never)]
pub fn start_operators(
    address: SocketAddr,
    clients: &Config,
    handler: Arc<Handler>,
    service: Fallback,
) -> Result<SocketAddr, BindError> {
    let mut config = Config { listen: address, audience: Audience::Operators, ..clients.clone() };
    config.http.connections = MAX_OPERATORS;
    config.http.connections_per_address = Some(MAX_OPERATORS);
    let server = Server::bind(config)?;
    let address = server.address();
    let shutdown = Box::pin(pending());
    let started = server.start_thread("operators", handler, service, shutdown, Duration::ZERO);
    started.map(|_| address).map_err(BindError::OperatorsThread)
}

/// A handle that drains all servers sharing an address.
pub struct Drain(Arc<ListenerState>);

impl Drain {
    /// Starts draining. New connections and requests are still answered, but clients are asked to
    /// open new connections, because the current connections will be closed.
    pub fn begin(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
        self.0.slots.go_away();
    }

    /// Returns whether no request is running or streaming.
    pub fn is_idle(&self) -> bool {
        self.0.slots.are_idle()
    }
}

/// Binds an address and listens. `[::]` covers every address of the machine: both families
/// regardless of `net.ipv6.bindv6only`, or IPv4 alone if no IPv6 socket can be opened.
pub(crate) fn bind_socket(address: SocketAddr, shared: bool) -> io::Result<StdListener> {
    let is_every = address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let (socket, address) = match open_socket(address) {
        Err(_) if is_every => {
            let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
            (open_socket(address)?, address)
        }
        opened => (opened?, address),
    };
    if is_every && address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(LISTEN_BACKLOG)?;
    Ok(socket.into())
}

fn open_socket(address: SocketAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
}

type Accepted = (TcpStream, SocketAddr);

/// Accepts the next connection. Retries failed accepts (no file descriptors, a peer that left).
async fn accept_connection(listener: &TcpListener) -> Accepted {
    let mut pause = Duration::from_millis(5);
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
        }
    }
}

impl LoopState {
    /// Serves the connections that the kernel has already accepted at shutdown.
    fn answer_accepted(
        self: &Arc<Self>,
        connections: &Arc<Connections>,
        socket: &TcpListener,
        mut waiting: Option<Accepted>,
    ) {
        self.listener.draining.store(true, Ordering::Relaxed);
        while waiting.is_none()
            && let Some(Ok(accepted)) = socket.accept().now_or_never()
        {
            waiting = self.begin_connection(connections, accepted);
        }
    }

    /// Serves a connection, or returns it if all slots are taken.
    fn begin_connection(
        self: &Arc<Self>,
        connections: &Arc<Connections>,
        (stream, remote): Accepted,
    ) -> Option<Accepted> {
        match self.listener.slots.take(remote.ip()) {
            Ok(Some(slot)) => {
                let entry = connections.add(remote.ip());
                spawn(serve_connection(Arc::clone(self), entry, stream, remote, slot));
                None
            }
            Ok(None) => Some((stream, remote)),
            Err(AddressFull { retry_after }) => {
                if self.identity.is_none() {
                    self.listener.slots.turn_away(stream, retry_after);
                }
                self.handler.record_rejection(Rejection::Overloaded, ADDRESS_FULL);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
