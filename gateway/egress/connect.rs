//! Opens connections: resolves a name once, checks all addresses, connects to a checked address,
//! and does the TLS handshake for the name. Never resolves a name twice for a connection, and uses
//! no proxy but the configured one.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls_pki_types::{CertificateDer, ServerName};
use socket2::{SockRef, TcpKeepalive};
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use url::Host;

use crate::address::Policy;
use crate::config::Config;
use crate::error::{ConnectError, SetupError};
use crate::proxy::Proxy;
use crate::target::{Fixed, OfOrganisation, Resolve, System, Target};
use crate::tls;
use crate::tls::{ClientCertificate, OwnCertificate};

/// Idle time before TCP keepalive probes, and their interval; Linux gives up after nine probes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Addresses tried per connection; all are checked.
const MAX_ATTEMPTS: usize = 8;

/// Time to connect to another gateway: a host that is down may not refuse.
const PEER_TIMEOUT: Duration = Duration::from_secs(3);

/// A connection to a checked address: plain, or TLS, which is boxed because a session takes a
/// kilobyte.
pub type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// Opens connections. Shared by all origins of the process.
#[derive(Clone)]
pub struct Connector {
    resolver: Arc<dyn Resolve>,
    tls: Arc<ClientConfig>,
    own: Option<Arc<OwnCertificate>>,
    authorities: Arc<[CertificateDer<'static>]>,
    file: Arc<AuthoritiesFile>,
    config: Arc<Config>,
}

impl Connector {
    /// Loads the system's CA certificates and `ca_file`. Blocks on files: call it at start or
    /// reload.
    pub fn new(config: &Config) -> Result<Self, SetupError> {
        let authorities = tls::authorities(config)?;
        Ok(Self {
            resolver: Arc::new(System),
            tls: tls::client(&authorities, None)?,
            own: None,
            authorities: authorities.into(),
            file: Arc::default(),
            config: Arc::new(config.clone()),
        })
    }

    /// Returns a connector for the servers of an organisation, with a limit on concurrent lookups
    /// and no client certificate.
    pub fn for_organisation(&self) -> Self {
        Self { resolver: Arc::new(OfOrganisation::new()), own: None, ..self.clone() }
    }

    /// Returns a connector that presents a certificate to servers that request one. Blocks on
    /// files.
    ///
    /// # Errors
    /// The certificate cannot be used.
    pub fn with_client_certificate(&self, files: ClientCertificate) -> Result<Self, SetupError> {
        let own = OwnCertificate::load(files, Arc::clone(&self.authorities))?;
        Ok(Self { own: Some(Arc::new(own)), ..self.clone() })
    }

    /// Returns a connector for a host at a known address: all names resolve to it, and no proxy is
    /// used.
    pub fn for_peer(&self, address: SocketAddr) -> Self {
        let connect_timeout = self.config.connect_timeout.min(PEER_TIMEOUT);
        let config = Config { route: None, connect_timeout, ..Config::clone(&self.config) };
        let resolver = Arc::new(Fixed(address));
        Self { resolver, own: None, config: Arc::new(config), ..self.clone() }
    }

    /// Returns the settings of all connections.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the trusted CA certificates (DER), for drivers with their own sockets.
    pub fn authorities(&self) -> impl Iterator<Item = &[u8]> {
        self.authorities.iter().map(|certificate| &**certificate)
    }

    /// Returns a file with the same CA certificates (PEM), for programs with their own sockets. It
    /// is written on first use, and deleted with the last connector that shares it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn authorities_file(&self) -> io::Result<PathBuf> {
        self.file.path(&self.authorities)
    }

    /// Opens a connection, directly or through the operator's proxy. Lookup, connect and handshake
    /// share `connect_timeout`.
    #[inline(never)]
    pub fn connect<'a>(
        &'a self,
        target: &'a Target,
        policy: Policy,
    ) -> Pin<Box<dyn Future<Output = Result<Stream, ConnectError>> + Send + 'a>> {
        Box::pin(async move {
            // External names are often unknown behind a proxy. Names from other sources than the
            // operator's configuration are resolved and checked here.
            let resolves = policy == Policy::Operator;
            let proxy = self.proxy_for(target).map(|proxy| (proxy, resolves));
            self.reach(target, proxy, self.find_addresses(target, policy)).await
        })
    }

    /// Opens a connection to one of the addresses: directly, or through a proxy, which receives
    /// the name instead of an address if it may resolve it.
    pub(crate) async fn reach(
        &self,
        target: &Target,
        proxy: Option<(&Proxy, bool)>,
        addresses: impl Future<Output = Result<Vec<SocketAddr>, ConnectError>>,
    ) -> Result<Stream, ConnectError> {
        let deadline = Instant::now() + self.config.connect_timeout;
        let reach = async move {
            let Some((proxy, resolves)) = proxy else {
                return open(&addresses.await?, deadline).await;
            };
            let (host, port) = target.parts();
            let authority = match host {
                Host::Domain(name) if resolves => format!("{name}:{port}"),
                _ => addresses.await?[0].to_string(),
            };
            self.open_tunnel(proxy, &authority, deadline).await
        };
        let tcp = timeout_at(deadline, reach).await??;
        let Some(name) = target.name().cloned() else { return Ok(Either::Left(tcp)) };
        let secure = async { shake_hands(self.tls().await, name, tcp).await };
        timeout_at(deadline, secure).await?
    }

    pub(crate) fn proxy_for(&self, target: &Target) -> Option<&Proxy> {
        self.config.route.as_ref()?.via(target)
    }

    /// Opens a tunnel to `authority` (`host:port`). Every error names the proxy, which the operator
    /// has configured.
    async fn open_tunnel(
        &self,
        proxy: &Proxy,
        authority: &str,
        deadline: Instant,
    ) -> Result<TcpStream, ConnectError> {
        let open = async {
            let mut tcp = self.dial(&proxy.target, Policy::Operator, deadline).await?;
            proxy.tunnel(&mut tcp, authority).await.map_err(ConnectError::Connect)?;
            Ok(tcp)
        };
        let opened = timeout_at(deadline, open).await.unwrap_or(Err(ConnectError::Timeout));
        opened.map_err(|cause| proxy.failure(authority, &cause))
    }

    /// Opens a connection for a protocol other than HTTP: without ALPN. With `upgrade`, a TLS
    /// connection begins in plain text: its first part is sent, and the server must respond with
    /// the byte.
    pub async fn connect_without_alpn(
        &self,
        target: &Target,
        policy: Policy,
        upgrade: Option<(&[u8], u8)>,
    ) -> Result<Stream, ConnectError> {
        let deadline = Instant::now() + self.config.connect_timeout;
        let connect = async {
            if upgrade.is_some() && target.name().is_none() {
                return Err(ConnectError::Tls(io::Error::other("the target is a plain one")));
            }
            let mut tcp = self.dial(target, policy, deadline).await?;
            let Some(name) = target.name().cloned() else { return Ok(Either::Left(tcp)) };
            if let Some((request, yes)) = upgrade {
                ask_for_tls(&mut tcp, request, yes).await.map_err(ConnectError::Tls)?;
            }
            let mut config = ClientConfig::clone(&*self.tls().await);
            config.alpn_protocols.clear();
            shake_hands(Arc::new(config), name, tcp).await
        };
        timeout_at(deadline, connect).await?
    }

    async fn tls(&self) -> Arc<ClientConfig> {
        match &self.own {
            Some(own) => own.config().await,
            None => Arc::clone(&self.tls),
        }
    }

    async fn dial(
        &self,
        target: &Target,
        policy: Policy,
        deadline: Instant,
    ) -> Result<TcpStream, ConnectError> {
        open(&self.find_addresses(target, policy).await?, deadline).await
    }

    /// Returns the addresses of a target: at least one, and all permitted.
    async fn find_addresses(
        &self,
        target: &Target,
        policy: Policy,
    ) -> Result<Vec<SocketAddr>, ConnectError> {
        let is_literal = target.literal().is_some();
        find_addresses(target, &*self.resolver, |address| policy.permits(address, is_literal)).await
    }
}

lockgate_text::debug_fields!(Connector: config);

/// Returns the addresses of a target, at least one and at most [`MAX_ATTEMPTS`]. A name with a
/// single forbidden address is refused as a whole, in any order of the addresses.
pub(crate) async fn find_addresses(
    target: &Target,
    resolver: &dyn Resolve,
    permits: impl Fn(IpAddr) -> bool,
) -> Result<Vec<SocketAddr>, ConnectError> {
    let (host, port) = target.parts();
    let found = match host {
        Host::Ipv4(address) => vec![SocketAddr::new(IpAddr::V4(*address), port)],
        Host::Ipv6(address) => vec![SocketAddr::new(IpAddr::V6(*address), port)],
        Host::Domain(name) => resolver.resolve(name, port).await.map_err(ConnectError::Resolve)?,
    };
    checked(found, permits)
}

fn checked(
    mut found: Vec<SocketAddr>,
    permits: impl Fn(IpAddr) -> bool,
) -> Result<Vec<SocketAddr>, ConnectError> {
    for address in &found {
        if !permits(address.ip()) {
            return Err(ConnectError::Refused(address.ip()));
        }
    }
    found.truncate(MAX_ATTEMPTS);
    if found.is_empty() {
        return Err(ConnectError::Resolve(io::ErrorKind::NotFound.into()));
    }
    Ok(found)
}

/// Connects to the first of these addresses that answers.
async fn open(addresses: &[SocketAddr], deadline: Instant) -> Result<TcpStream, ConnectError> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for (tried, address) in addresses.iter().enumerate() {
        // An unresponsive address may use up its share of the time, but not the others' shares.
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(addresses.len() - tried).unwrap_or(1).max(1);
        #[allow(clippy::disallowed_methods, reason = "the one place that opens connections")]
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            // Requests are written whole; waiting for more bytes would only delay them.
            Ok(Ok(tcp)) => match tcp.set_nodelay(true).and_then(|()| keep_alive(&tcp)) {
                Ok(()) => return Ok(tcp),
                Err(error) => return Err(ConnectError::Connect(error)),
            },
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    match last.kind() {
        io::ErrorKind::TimedOut => Err(ConnectError::Timeout),
        _ => Err(ConnectError::Connect(last)),
    }
}

/// Enables TCP keepalive, which detects a peer that disappeared without closing, such as a machine
/// that lost power: a waiting call then fails after about a minute.
fn keep_alive(tcp: &TcpStream) -> io::Result<()> {
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(tcp).set_tcp_keepalive(&keepalive)
}

/// Requests TLS in plain text. Reads a single byte: further plain-text bytes must not be mistaken
/// for the encrypted stream.
async fn ask_for_tls(tcp: &mut TcpStream, request: &[u8], yes: u8) -> io::Result<()> {
    tcp.write_all(request).await?;
    if tcp.read_u8().await? != yes {
        return Err(io::Error::other("the server offers no TLS"));
    }
    Ok(())
}

async fn shake_hands(
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    tcp: TcpStream,
) -> Result<Stream, ConnectError> {
    let tls = TlsConnector::from(config).connect(name, tcp).await.map_err(ConnectError::Tls)?;
    Ok(Either::Right(Box::new(tls)))
}

// The trusted CA certificates as a PEM file, for child processes: they read it instead of the
// system's file, so it must contain the system's CA certificates too.

const PEM_LINE_LENGTH: usize = 64;

/// Written once, into the temporary directory; deleted on drop.
#[derive(Default)]
pub(crate) struct AuthoritiesFile(Mutex<Option<NamedTempFile>>);

impl AuthoritiesFile {
    pub(crate) fn path(&self, authorities: &[CertificateDer<'static>]) -> io::Result<PathBuf> {
        let mut written = self.0.lock();
        if let Some(file) = &*written
            && file.path().exists()
        {
            return Ok(file.path().to_owned());
        }
        let mut file = tempfile::Builder::new().prefix("lockgate-ca-").suffix(".pem").tempfile()?;
        for certificate in authorities {
            write_pem(&mut file, certificate)?;
        }
        file.flush()?;
        let path = file.path().to_owned();
        *written = Some(file);
        Ok(path)
    }
}

fn write_pem(out: &mut impl Write, certificate: &[u8]) -> io::Result<()> {
    writeln!(out, "-----BEGIN CERTIFICATE-----")?;
    for line in STANDARD.encode(certificate).as_bytes().chunks(PEM_LINE_LENGTH) {
        out.write_all(line)?;
        writeln!(out)?;
    }
    writeln!(out, "-----END CERTIFICATE-----")
}

#[cfg(test)]
mod tests;
