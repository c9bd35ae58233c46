//! Name resolution. The connector checks the addresses once, and never resolves the name again for
//! the same connection.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Semaphore;

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
            match LOOKUPS.acquire().await {
                Ok(place) => look_up(name, port, place).await,
                Err(closed) => Err(io::Error::other(closed)),
            }
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
