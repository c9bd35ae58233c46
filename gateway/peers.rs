//! Connections to the other gateways that share the same secret. Names are resolved for each
//! message, which is only sent to resolved addresses. Nothing is retried.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, Request, Response};
use lockgate_egress::{Body, Connector, Origin, Payload, Policy, Resolve, SendError, System};
use lockgate_proxy::transport::BodyError;
use lockgate_proxy::{PeerAnswer, PeerError, PeerMessage, Peers, Replicas};
use lockgate_upstream::BoxFuture;
use parking_lot::Mutex;
use url::Url;

const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of known gateways; others are not contacted.
const MAX_GATEWAYS: usize = 256;
/// Response headers that are returned to the client.
const SENT_BACK: [HeaderName; 5] = [
    CACHE_CONTROL,
    CONTENT_TYPE,
    RETRY_AFTER,
    WWW_AUTHENTICATE,
    HeaderName::from_static("x-accel-buffering"),
];

/// A client of the other gateways.
pub(crate) struct PeerGateways {
    replicas: Replicas,
    connector: Arc<Connector>,
    /// The connections to each gateway.
    origins: Mutex<HashMap<SocketAddr, Origin>>,
}

impl PeerGateways {
    pub(crate) fn new(replicas: Replicas, connector: Arc<Connector>) -> Arc<Self> {
        Arc::new(Self { replicas, connector, origins: Mutex::default() })
    }

    /// Resolves the addresses of all gateways.
    async fn look_up(&self) -> Vec<SocketAddr> {
        let mut found = Vec::new();
        for (name, port) in &self.replicas.peers {
            match tokio::time::timeout(LOOK_UP_TIMEOUT, System.resolve(name, *port)).await {
                Ok(Ok(addresses)) => found.extend(addresses),
                Ok(Err(error)) => {
                    tracing::warn!(%error, name, "DNS lookup of gateways failed");
                }
                Err(_) => tracing::warn!(name, "DNS lookup of gateways timed out"),
            }
        }
        found.sort_unstable();
        found.dedup();
        found.truncate(MAX_GATEWAYS);
        self.origins.lock().retain(|address, _| found.contains(address));
        found
    }

    /// Returns the connections to a gateway, which bypass any proxy.
    fn origin(&self, address: SocketAddr) -> Option<Origin> {
        let mut origins = self.origins.lock();
        if let Some(origin) = origins.get(&address) {
            return Some(origin.clone());
        }
        let port = address.port();
        let url = match &self.replicas.tls_name {
            None => format!("http://{address}/"),
            Some(name) => format!("https://{name}:{port}/"),
        };
        let connector = Arc::new(self.connector.for_peer(address));
        let url = Url::parse(&url).ok()?;
        let origin = Origin::new(connector, &url, Policy::Operator).ok()?;
        origins.insert(address, origin.clone());
        Some(origin)
    }

    async fn exchange(
        &self,
        to: SocketAddr,
        message: PeerMessage,
    ) -> Result<PeerAnswer, PeerError> {
        if !self.look_up().await.contains(&to) {
            return Err(PeerError::Gone);
        }
        let origin = self.origin(to).ok_or(PeerError::Gone)?;
        let limit = message.limit;
        let request = write_request(message).ok_or(PeerError::Gone)?;
        let sent = match limit {
            None => origin.send(request).await,
            Some(limit) => match tokio::time::timeout(limit, origin.send(request)).await {
                Ok(sent) => sent,
                Err(_) => return Err(PeerError::Lost),
            },
        };
        sent.map(read_answer).map_err(|error| describe(&error))
    }
}

impl Peers for PeerGateways {
    fn address(&self) -> SocketAddr {
        self.replicas.address
    }

    fn all(&self) -> BoxFuture<'_, Vec<SocketAddr>> {
        Box::pin(self.look_up())
    }

    fn send(
        &self,
        to: SocketAddr,
        message: PeerMessage,
    ) -> BoxFuture<'_, Result<PeerAnswer, PeerError>> {
        Box::pin(self.exchange(to, message))
    }
}

fn write_request(message: PeerMessage) -> Option<Request<Payload>> {
    let mut request = Request::new(Payload::from(message.body));
    *request.method_mut() = message.method;
    *request.uri_mut() = message.path.parse().ok()?;
    *request.headers_mut() = message.headers;
    request.headers_mut().remove(HOST);
    Some(request)
}

fn read_answer(response: Response<Body>) -> PeerAnswer {
    let mut headers = HeaderMap::new();
    for name in &SENT_BACK {
        if let Some(value) = response.headers().get(name) {
            headers.insert(name.clone(), value.clone());
        }
    }
    let status = response.status();
    let body = Box::pin(stream::unfold(Some(response.into_body()), next_piece));
    PeerAnswer { status, headers, body }
}

/// Reads the next chunk of a body, which ends after an error.
async fn next_piece(body: Option<Body>) -> Option<(Result<Bytes, BodyError>, Option<Body>)> {
    let mut body = body?;
    match body.data().await {
        Ok(Some(piece)) => Some((Ok(piece), Some(body))),
        Ok(None) => None,
        Err(_) => Some((Err(BodyError), None)),
    }
}

fn describe(error: &SendError) -> PeerError {
    tracing::info!(%error, "a gateway did not respond");
    if error.sent { PeerError::Lost } else { PeerError::Gone }
}
