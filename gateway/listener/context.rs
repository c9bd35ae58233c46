//! State shared by all connections of a listener, and state shared by all requests of a connection,
//! with their authentication and their body bounds.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};
use lockgate_admission::budget::Hold;
use lockgate_authn::{Certificate, Credentials, Principal};
use lockgate_proxy::transport::{Endpoint, Reply};

use crate::client_address::peer_of;
use crate::config::Config;
use crate::connection::{ActiveRequest, ConnectionState};
use crate::error::ListenerError;
use crate::exchange_handler::Handler;
use crate::fallback::Fallback;
use crate::incoming_body::IncomingBody;
use crate::origin_check::OriginCheck;
use crate::request_body::{self, BodyBounds, HasBudget};
use crate::request_headers::bearer;
use crate::response_body::ResponseBody;
use crate::slots::{Slots, TurnedAway};
use crate::sse_sessions::Sessions;
use crate::unfinished::UnfinishedBodies;

pub(crate) struct ListenerState {
    pub config: Config,
    pub origin_check: OriginCheck,
    pub sessions: Arc<Sessions>,
    pub unfinished: UnfinishedBodies,
    pub slots: Arc<Slots>,
    pub turned_away: TurnedAway,
    /// Responses ask clients to reconnect elsewhere.
    pub draining: AtomicBool,
}

pub(crate) struct ConnectionContext<H> {
    pub listener: Arc<ListenerState>,
    pub handler: Arc<H>,
    pub fallback: Fallback,
    pub state: Arc<ConnectionState>,
    pub remote: SocketAddr,
    pub local: IpAddr,
    /// The client certificate that TLS has verified.
    pub certificate: Option<Arc<Certificate>>,
    pub is_encrypted: bool,
    /// The first accepted `Host`, nearly always the only value of a connection.
    pub host: OnceLock<HeaderValue>,
}

pub(crate) type ListenerResponse = Response<ResponseBody>;

/// The outcome of a request, which is made an HTTP response at the end, because that is large.
pub(crate) enum Routed {
    Reply(Reply, Hold<ActiveRequest>),
    Response(Box<ListenerResponse>),
}

impl From<ListenerResponse> for Routed {
    fn from(response: ListenerResponse) -> Self {
        Self::Response(Box::new(response))
    }
}

impl ListenerState {
    pub(crate) fn new(config: Config) -> Self {
        let limits = &config.limits;
        Self {
            origin_check: OriginCheck::new(&config),
            sessions: Arc::new(Sessions::new(limits.connections)),
            unfinished: UnfinishedBodies::new(limits.unfinished.clone()),
            slots: Slots::new(limits.connections, limits.connections_per_address),
            turned_away: TurnedAway::new(),
            draining: AtomicBool::new(false),
            config,
        }
    }

    pub(crate) fn body_bounds<'a>(
        &'a self,
        connection: &'a ConnectionState,
        principal: &Principal,
    ) -> BodyBounds<'a> {
        let limits = &self.config.limits;
        BodyBounds {
            bytes: limits.body_bytes,
            time: limits.read_timeout,
            unfinished: &self.unfinished,
            connection: &connection.unfinished,
            principal: principal.key(),
        }
    }
}

impl<H: Handler> ConnectionContext<H> {
    /// Authenticates the caller of an exchange, and marks the connection as authenticated.
    pub(crate) async fn identify(
        &self,
        endpoint: &Endpoint,
        credentials: &Credentials,
    ) -> Result<Principal, Reply> {
        let principal = self.handler.identify(endpoint, credentials).await?;
        self.state.mark_authenticated();
        Ok(principal)
    }

    /// Takes the credentials out of a request on this connection.
    pub(crate) fn credentials(
        &self,
        headers: &mut HeaderMap,
    ) -> Result<Credentials, ListenerError> {
        let bearer = bearer(headers)?;
        Ok(Credentials {
            peer: peer_of(self.remote.ip(), headers),
            bearer,
            certificate: self.certificate.clone(),
        })
    }

    pub(crate) async fn read_body<P>(
        &self,
        body: IncomingBody,
        principal: &Principal,
        budget: P,
    ) -> Result<(Bytes, Hold<P>), ListenerError>
    where
        P: HasBudget,
    {
        let bounds = self.listener.body_bounds(&self.state, principal);
        request_body::read_body(body, bounds, budget).await
    }
}
