//! Requests to hosts named by callers: each on its own connection, to an address permitted by the
//! guard, without redirects, cookies or decompression. Nothing is reused: a check for one request
//! does not apply to another.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use ipnet::IpNet;
use lockgate_text::address::{Class, classify};
use url::Url;

use crate::body::{Body, exchange, read_response};
use crate::connect::{Connector, Stream, find_addresses};
use crate::error::{ConnectError, SendError, SetupError};
use crate::http1::{Http1Connection, Payload, write_request};
use crate::proxy::Proxy;
use crate::target::{Resolve, Target};

/// Sends requests to URLs of callers, within the limits of a guard.
#[derive(Clone)]
pub struct GuardedClient {
    connector: Arc<Connector>,
    resolver: Arc<dyn Resolve>,
    guard: Guard,
    proxy: Option<Proxy>,
}

/// Why there was no response head.
#[derive(Debug, thiserror::Error)]
pub enum GuardedError {
    /// The URL or a header cannot be sent.
    #[error(transparent)]
    Url(#[from] SetupError),
    #[error(transparent)]
    Send(#[from] SendError),
}

impl GuardedClient {
    pub fn new(
        connector: Arc<Connector>,
        resolver: Arc<dyn Resolve>,
        guard: Guard,
        proxy: Option<Proxy>,
    ) -> Self {
        Self { connector, resolver, guard, proxy }
    }

    /// Sends a request and waits for the response head. Sets `Host` and `Connection`. Only
    /// connecting has a timeout.
    pub async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Body>, GuardedError> {
        let (target, host, uri) = Target::split(url)?;
        let is_head = method == Method::HEAD;
        let mut request = Request::new(Payload::from(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        let stream = self.connect(&target).await.map_err(SendError::unsent)?;
        let request = write_request(request, host);
        let exchange =
            exchange(Http1Connection::new(stream, request), is_head, None, read_response);
        let (response, body) = exchange.await.map_err(SendError::from)?;
        Ok(response.map(|()| body))
    }

    /// Opens a connection to an address permitted by the guard, directly or through its proxy.
    async fn connect(&self, target: &Target) -> Result<Stream, ConnectError> {
        let proxy = self.proxy.as_ref().or_else(|| self.connector.proxy_for(target));
        let proxy = proxy.map(|proxy| (proxy, proxy.resolves));
        let addresses =
            find_addresses(target, &*self.resolver, |address| self.guard.permits(address));
        self.connector.reach(target, proxy, addresses).await
    }
}

lockgate_text::debug_fields!(GuardedClient: guard, proxy);

#[cfg(test)]
mod tests;

/// Public addresses and the permitted networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    networks: Vec<IpNet>,
}

impl Guard {
    /// Permits these networks besides the public addresses.
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self { networks }
    }

    /// Reports whether a connection to the address is permitted. Metadata services, link-local and
    /// multicast addresses must be listed individually, not as part of a network.
    #[must_use]
    pub fn permits(&self, address: IpAddr) -> bool {
        let mut named = self.networks.iter().filter(|net| net.contains(&address));
        match classify(address) {
            Class::Global => true,
            Class::Loopback | Class::Private | Class::Reserved => named.next().is_some(),
            Class::LinkLocal | Class::Metadata | Class::Unspecified | Class::Multicast => {
                named.any(|net| net.prefix_len() == net.max_prefix_len())
            }
        }
    }
}
