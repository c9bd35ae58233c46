//! The destination of a connection (host, port, and use of TLS), and name resolution. The connector
//! checks the addresses once, and never resolves the name again for the same connection.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderValue, Uri};
use rustls_pki_types::ServerName;
use tokio::sync::Semaphore;
use url::{Host, Position, Url};

use crate::error::SetupError;

/// The destination of a connection, parsed from a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    host: Host<String>,
    port: u16,
    /// The name required in the certificate; `None` for plain connections.
    name: Option<ServerName<'static>>,
}

impl Target {
    /// Takes host, port and scheme from an `http` or `https` URL. Rejects user information, because
    /// URLs are logged.
    pub fn new(url: &Url) -> Result<Self, SetupError> {
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            _ => return Err(SetupError::Url("only http and https are supported")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(SetupError::Url("user information is not allowed"));
        }
        let host = url.host().ok_or(SetupError::Url("no host"))?;
        let host = host.to_owned();
        let port = url.port_or_known_default().unwrap_or(0);
        if port == 0 {
            return Err(SetupError::Url("no port"));
        }
        let name = match (&host, tls) {
            (_, false) => None,
            (Host::Domain(name), true) => match ServerName::try_from(name.clone()) {
                Ok(name) => Some(name),
                Err(_) => return Err(SetupError::Url("the host is not valid in a certificate")),
            },
            (Host::Ipv4(address), true) => Some(ServerName::from(IpAddr::V4(*address))),
            (Host::Ipv6(address), true) => Some(ServerName::from(IpAddr::V6(*address))),
        };
        Ok(Self { host, port, name })
    }

    /// Returns the target of a URL, the value of `Host`, and the path and query.
    pub(crate) fn split(url: &Url) -> Result<(Self, HeaderValue, Uri), SetupError> {
        let target = Self::new(url)?;
        let host = HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]).ok();
        let uri = url[Position::BeforePath..Position::AfterQuery].parse().ok();
        let (host, uri) =
            host.zip(uri).ok_or(SetupError::Url("the host or path cannot be sent"))?;
        Ok((target, host, uri))
    }

    pub(crate) fn name(&self) -> Option<&ServerName<'static>> {
        self.name.as_ref()
    }

    pub(crate) fn parts(&self) -> (&Host<String>, u16) {
        (&self.host, self.port)
    }

    pub(crate) fn literal(&self) -> Option<IpAddr> {
        match self.host {
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
            Host::Domain(_) => None,
        }
    }
}

/// Reports whether a name always means this machine (RFC 6761, 6.3).
pub(crate) fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// The addresses of a name.
pub type Addresses<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Looks up names.
pub trait Resolve: Send + Sync + 'static {
    /// Returns all addresses of a name, with this port.
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> Addresses<'a>;
}

/// The system's resolver.
#[derive(Clone, Copy, Debug)]
pub struct System;

/// The system's resolver for the servers of an organisation.
#[derive(Debug)]
pub(crate) struct OfOrganisation(Arc<Semaphore>);

/// A resolver that always returns a known address.
#[derive(Debug)]
pub(crate) struct Fixed(pub(crate) SocketAddr);

impl Resolve for Fixed {
    fn resolve<'a>(&'a self, _: &'a str, _: u16) -> Addresses<'a> {
        Box::pin(async { Ok(vec![self.0]) })
    }
}

/// Limit of concurrent lookups. An abandoned lookup continues, and occupies a thread.
static LOOKUPS: Semaphore = Semaphore::const_new(64);
/// The same for all organisations together, and for each.
static OF_ORGANISATIONS: Semaphore = Semaphore::const_new(128);
const MAX_LOOKUPS_OF_ORGANISATION: usize = 4;

impl Resolve for System {
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> Addresses<'a> {
        Box::pin(async move {
            let place = LOOKUPS.acquire().await.map_err(io::Error::other)?;
            look_up(name, port, place).await
        })
    }
}

impl OfOrganisation {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(MAX_LOOKUPS_OF_ORGANISATION)))
    }
}

impl Resolve for OfOrganisation {
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> Addresses<'a> {
        Box::pin(async move {
            let own = Arc::clone(&self.0).acquire_owned().await.map_err(io::Error::other)?;
            let place = OF_ORGANISATIONS.acquire().await.map_err(io::Error::other)?;
            look_up(name, port, (own, place)).await
        })
    }
}

/// Resolves a name on a blocking thread. The permit is held until the lookup ends, because the
/// system's resolver cannot be interrupted.
async fn look_up(name: &str, port: u16, place: impl Send + 'static) -> io::Result<Vec<SocketAddr>> {
    let name = name.to_owned();
    let looking = tokio::task::spawn_blocking(move || {
        let found = (name.as_str(), port).to_socket_addrs();
        drop(place);
        Ok(found?.collect())
    });
    looking.await.map_err(io::Error::other)?
}
