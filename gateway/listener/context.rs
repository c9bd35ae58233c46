//! State shared by all connections of a listener, and state shared by all requests of a connection,
//! with their authentication and their body bounds; the service for all paths other than MCP, and
//! the sender of a request to it; and the open HTTP+SSE streams, by session id, which alone grants
//! no access.

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
use lockgate_admission::budget::{Budget, Hold};
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
use crate::gateway_handler::Handler;
use crate::incoming_body::IncomingBody;
use crate::origin_check::OriginCheck;
use crate::request_body::{BodyBounds, HasBudget, UnfinishedBodies};
use crate::request_headers::bearer;
use crate::response_body::{BoxError, FallbackBody, ResponseBody, plain};
use crate::session_client::{MessageQueue, SessionClient};
use crate::slots::Slots;
use crate::{request_body, session_client};

pub(crate) struct ListenerState {
    pub config: Config,
    pub origin_check: OriginCheck,
    pub sessions: Arc<Sessions>,
    pub unfinished: UnfinishedBodies,
    pub slots: Arc<Slots>,
    /// Responses ask clients to reconnect elsewhere.
    pub draining: AtomicBool,
}

pub(crate) struct ConnectionContext {
    pub listener: Arc<ListenerState>,
    pub handler: Arc<Handler>,
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
            unfinished: UnfinishedBodies::new(http.clone()),
            slots: Slots::new(http.connections, http.most_of_address()),
            draining: AtomicBool::new(false),
            config,
        }
    }
}

impl ConnectionContext {
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

    pub(crate) async fn read_body<B, P>(
        &self,
        body: B,
        principal: &Principal,
        budget: P,
    ) -> Result<(Bytes, Hold<P>), ListenerError>
    where
        B: Body<Data = Bytes>,
        P: HasBudget,
    {
        let http = &self.listener.config.http;
        let bounds = BodyBounds {
            bytes: http.body_bytes,
            time: http.read_timeout,
            unfinished: &self.listener.unfinished,
            connection: &self.state.unfinished,
            principal: principal.key(),
        };
        request_body::read_body(body, bounds, budget).await
    }
}

/// The sender of a request to the fallback service, stored in the request's extensions.
#[derive(Clone)]
pub struct Remote(Arc<ConnectionContext>);

impl Remote {
    pub(crate) fn of(context: &Arc<ConnectionContext>) -> Self {
        Self(Arc::clone(context))
    }

    /// Authenticates a request under the same rules as a request to `/mcp`.
    ///
    /// # Errors
    /// The response to a caller that is rejected.
    pub async fn admit(&self, headers: &mut HeaderMap) -> Result<Principal, Response<Bytes>> {
        let credentials =
            self.0.credentials(headers).map_err(|refusal| refusal.answer(&self.0.handler))?;
        self.0.identify(&Endpoint::All, &credentials).await.map_err(plain)
    }

    /// Marks the connection as authenticated, as `admit` does, for services that authenticate the
    /// caller in another way.
    pub fn mark_authenticated(&self) {
        self.0.state.mark_authenticated();
    }

    pub fn is_encrypted(&self) -> bool {
        self.0.is_encrypted
    }

    /// Returns whether TLS is configured and the connection does not use it.
    pub fn lacks_encryption(&self) -> bool {
        self.0.listener.config.http.tls.is_some() && !self.0.is_encrypted
    }

    /// Reads the whole body of a request, and returns it with its hold on the budget.
    ///
    /// # Errors
    /// The response to a body that exceeds a limit on size, rate or number.
    pub async fn read_body(
        &self,
        body: impl Body<Data = Bytes>,
        principal: &Principal,
    ) -> Result<(Bytes, Hold<Arc<Budget>>), Response<Bytes>> {
        let budget = Arc::clone(self.0.handler.budget());
        let read = self.0.read_body(body, principal, budget).await;
        read.map_err(|refusal| refusal.answer(&self.0.handler))
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
    pub(crate) fn adopt(&self, reply: &Reply) {
        let Some(proxied) = session_client::find_session_id(reply) else { return };
        let before = self.owner.proxied.lock().replace(proxied.clone());
        if before.as_ref() == Some(&proxied) {
            return;
        }
        let session = self.clone();
        spawn(async move {
            let forward = async {
                if let Some(events) =
                    session.owner.caller.listen(ExchangeKind::Listen, &proxied).await
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

#[cfg(test)]
mod tests;
