//! Who sent a request to another path than the MCP ones, for whoever answers there: it is let in as
//! a request to MCP is, and its body is read within the same bounds. It routes nothing.

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

/// See the module. Found in the extensions of a request.
#[derive(Clone)]
pub struct Remote {
    pub address: SocketAddr,
    pub certificate: Option<Arc<Certificate>>,
    /// The connection is over TLS.
    pub is_encrypted: bool,
    listener: Arc<ListenerState>,
    state: Arc<ConnectionState>,
}

impl Remote {
    pub(crate) fn of<H, F>(context: &ConnectionContext<H, F>) -> Self {
        Self {
            address: context.remote,
            certificate: context.certificate.clone(),
            is_encrypted: context.is_encrypted,
            listener: Arc::clone(&context.listener),
            state: Arc::clone(&context.state),
        }
    }

    /// Who sent a request that may call the gateway: read and judged like one to `/mcp`.
    ///
    /// # Errors
    /// The answer to somebody who is not let in.
    pub async fn admit<H: Handler>(
        &self,
        handler: &H,
        headers: &mut HeaderMap,
    ) -> Result<Principal, Response<Bytes>> {
        let bearer = match bearer(headers) {
            Ok(bearer) => bearer,
            Err(refusal) => return Err(refuse(handler, refusal)),
        };
        let peer = peer_of(self.address.ip(), headers);
        let credentials = Credentials { peer, bearer, certificate: self.certificate.clone() };
        let principal = handler.identify(&Endpoint::All, &credentials).await.map_err(plain)?;
        self.state.mark_authenticated();
        Ok(principal)
    }

    /// Counts the connection among those of known callers, as `admit` does: for whoever has found
    /// out in another way who the caller is.
    pub fn mark_authenticated(&self) {
        self.state.mark_authenticated();
    }

    /// Whether TLS was to be had, and the connection has none.
    #[must_use]
    pub fn lacks_encryption(&self) -> bool {
        self.listener.config.tls.is_some() && !self.is_encrypted
    }

    /// The whole body of a request, and what it takes of the account of bytes in flight.
    ///
    /// # Errors
    /// The answer to a body that is too large, too slow or one too many.
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
