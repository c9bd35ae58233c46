//! State shared by all connections of a listener, and state shared by all requests of a connection,
//! with their authentication and their body bounds; the open HTTP+SSE streams, by session id, which
//! alone grants no access; and the service for all paths other than MCP.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use lockgate_admission::budget::Hold;
use lockgate_admission::spawn;
use lockgate_authn::{Certificate, Credentials, Principal};
use lockgate_proxy::transport::{Endpoint, ExchangeKind, Reply};
use lockgate_text::hex;
use parking_lot::Mutex;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

use crate::client_address::peer_of;
use crate::config::Config;
use crate::connection::{ActiveRequest, ConnectionState};
use crate::error::ListenerError;
use crate::exchange_handler::Handler;
use crate::incoming_body::IncomingBody;
use crate::origin_check::OriginCheck;
use crate::request_body::{BodyBounds, HasBudget};
use crate::request_headers::bearer;
use crate::response_body::{BoxError, FallbackBody, ResponseBody};
use crate::session_client::{MessageQueue, SessionClient};
use crate::slots::{Slots, TurnedAway};
use crate::unfinished::UnfinishedBodies;
use crate::{request_body, session_client};

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
        let http = &config.http;
        Self {
            origin_check: OriginCheck::new(&config),
            sessions: Arc::new(Sessions::new(http.connections)),
            unfinished: UnfinishedBodies::new(http.body_limits()),
            slots: Slots::new(http.connections, http.most_of_address()),
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
        let http = &self.config.http;
        BodyBounds {
            bytes: http.body_bytes,
            time: http.read_timeout,
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

/// A service for all other paths, such as an axum router.
pub type Fallback = BoxCloneSyncService<Request<IncomingBody>, Response<FallbackBody>, Infallible>;

/// Returns `service` as the service for all other paths.
pub fn fallback<S, B>(service: S) -> Fallback
where
    S: tower::Service<
            Request<IncomingBody>,
            Response = Response<B>,
            Error = Infallible,
            Future: Send + 'static,
        > + Clone
        + Send
        + Sync
        + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let boxed = service.map_response(|response: Response<B>| {
        response.map(|body| UnsyncBoxBody::new(body.map_err(Into::into)))
    });
    BoxCloneSyncService::new(boxed)
}

pub(crate) struct Sessions {
    /// `None` once the listener shuts down.
    open: Mutex<Option<HashMap<String, Session>>>,
    max: usize,
}

/// An open stream, which ends when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Session {
    pub owner: Arc<Owner>,
    pub out: MessageQueue,
}

/// The owner of a stream, and the proxy session behind it.
pub(crate) struct Owner {
    pub caller: SessionClient,
    pub proxied: Mutex<Option<HeaderValue>>,
}

impl Sessions {
    pub(crate) fn new(max: usize) -> Self {
        Self { open: Mutex::new(Some(HashMap::new())), max }
    }

    /// Stops accepting messages. Streams end with the last call running on them.
    pub(crate) fn close(&self) {
        drop(self.open.lock().take());
    }

    pub(crate) fn add(&self, session: Session) -> Result<String, ListenerError> {
        let Some(id) = hex::random::<16>() else { return Err(ListenerError::Busy) };
        match self.open.lock().as_mut() {
            Some(open) if open.len() < self.max => open.insert(id.clone(), session),
            _ => return Err(ListenerError::Streams),
        };
        Ok(id)
    }

    /// Returns the session with this id without checking its owner.
    pub(crate) fn find(&self, id: &str) -> Result<Session, ListenerError> {
        if let Some(open) = self.open.lock().as_ref()
            && let Some(session) = open.get(id)
        {
            return Ok(session.clone());
        }
        Err(ListenerError::NoSession)
    }

    pub(crate) fn remove(&self, id: &str) {
        if let Some(open) = self.open.lock().as_mut() {
            open.remove(id);
        }
    }
}

impl Session {
    /// Returns the session if it belongs to this principal.
    pub(crate) fn of(self, principal: &Principal) -> Result<Self, ListenerError> {
        if self.owner.caller.principal == *principal {
            Ok(self)
        } else {
            Err(ListenerError::NoSession)
        }
    }

    /// Stores the session id from `initialize`, and forwards the session's messages outside calls.
    pub(crate) fn adopt<H: Handler>(&self, reply: &Reply, handler: &Arc<H>) {
        let Some(proxied) = session_client::find_session_id(reply) else { return };
        let before = self.owner.proxied.lock().replace(proxied.clone());
        if before.as_ref() == Some(&proxied) {
            return;
        }
        let session = self.clone();
        let handler = Arc::clone(handler);
        spawn(async move {
            let forward = async {
                if let Some(events) =
                    session.owner.caller.listen(&*handler, ExchangeKind::Listen, &proxied).await
                {
                    session_client::forward_events(events, &session.out).await;
                }
            };
            tokio::select! {
                () = session.out.closed() => {}
                () = forward => {}
            }
        });
    }
}
