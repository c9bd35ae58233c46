//! From names to addresses. What comes back is checked by the connector, once, and never looked up
//! again for the same connection.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

/// The addresses of a name.
pub type Addresses<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Looks up names.
pub trait Resolve: Send + Sync + 'static {
    /// Every address of a name, with this port.
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> Addresses<'a>;
}

/// The system's own lookup.
#[derive(Clone, Copy, Debug)]
pub struct System;

impl Resolve for System {
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> Addresses<'a> {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, port)).await?.collect()) })
    }
}
