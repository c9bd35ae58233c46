//! The sender of a request to a non-MCP path, for the fallback service. Authentication and body
//! bounds are the same as for MCP requests.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::Body;
use lockgate_admission::budget::{Budget, Hold};
use lockgate_authn::{Certificate, Credentials, Principal};
use lockgate_proxy::transport::Endpoint;

use crate::client_address::peer_of;
use crate::connection::ConnectionState;
use crate::context::{ConnectionContext, ListenerState};
use crate::error::ListenerError;
use crate::exchange_handler::Handler;
use crate::request_body;
use crate::request_headers::bearer;
use crate::response_body::plain;

/// The sender of a request, stored in the request's extensions.
#[derive(Clone)]
pub struct Remote {
    pub address: SocketAddr,
    pub certificate: Option<Arc<Certificate>>,
    pub is_encrypted: bool,
    listener: Arc<ListenerState>,
    state: Arc<ConnectionState>,
}

impl Remote {
    pub(crate) fn of<H>(context: &ConnectionContext<H>) -> Self {
        Self {
            address: context.remote,
            certificate: context.certificate.clone(),
            is_encrypted: context.is_encrypted,
            listener: Arc::clone(&context.listener),
            state: Arc::clone(&context.state),
        }
    }

    /// Authenticates a request under the same rules as a request to `/mcp`.
    ///
    /// # Errors
    /// The response to a caller that is rejected.
    pub async fn admit<H: Handler>(
        &self,
        handler: &H,
        headers: &mut HeaderMap,
    ) -> Result<Principal, Response<Bytes>> {
        let bearer = bearer(headers).map_err(|refusal| refuse(handler, refusal))?;
        let peer = peer_of(self.address.ip(), headers);
        let credentials = Credentials { peer, bearer, certificate: self.certificate.clone() };
        let principal = handler.identify(&Endpoint::All, &credentials).await.map_err(plain)?;
        self.state.mark_authenticated();
        Ok(principal)
    }

    /// Marks the connection as authenticated, as `admit` does, for services that authenticate the
    /// caller in another way.
    pub fn mark_authenticated(&self) {
        self.state.mark_authenticated();
    }

    /// Returns whether TLS is configured and the connection does not use it.
    pub fn lacks_encryption(&self) -> bool {
        self.listener.config.http.tls.is_some() && !self.is_encrypted
    }

    /// Reads the whole body of a request, and returns it with its hold on the budget.
    ///
    /// # Errors
    /// The response to a body that exceeds a limit on size, rate or number.
    pub async fn read_body<H: Handler, B: Body<Data = Bytes>>(
        &self,
        handler: &H,
        body: B,
        principal: &Principal,
    ) -> Result<(Bytes, Hold<Arc<Budget>>), Response<Bytes>> {
        let bounds = self.listener.body_bounds(&self.state, principal);
        let read = request_body::read_body(body, bounds, Arc::clone(handler.budget())).await;
        read.map_err(|refusal| refuse(handler, refusal))
    }
}

fn refuse(handler: &impl Handler, refusal: ListenerError) -> Response<Bytes> {
    refusal.record(handler);
    refusal.response()
}

#[cfg(test)]
mod tests;
