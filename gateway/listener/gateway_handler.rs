//! The handler of exchanges: passes them to the gateway, by the edge for sessions. A fake replaces
//! it in the tests of this crate.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{Response, StatusCode};
use lockgate_admission::budget::Budget;
use lockgate_authn::{Credentials, Principal};
use lockgate_proxy::transport::{Endpoint, Exchange, Reply};
use lockgate_proxy::{Exhausted, OpenStream};
use lockgate_sessions::Edge;
use lockgate_telemetry::Rejection;

#[cfg(not(test))]
pub(crate) use GatewayHandler as Handler;

#[cfg(test)]
pub(crate) use crate::tests::fake::Fake as Handler;

/// Adapts the response to a request that is rejected before routing to the format of its path.
pub type DescribeRejection =
    for<'a> fn(&'a Parts, Response<Bytes>) -> BoxFuture<'a, Response<Bytes>>;

pub struct GatewayHandler {
    edge: Arc<Edge>,
    describe_rejection: DescribeRejection,
}

impl GatewayHandler {
    pub fn new(edge: Arc<Edge>, describe_rejection: DescribeRejection) -> Arc<Self> {
        Arc::new(Self { edge, describe_rejection })
    }
}

#[cfg_attr(test, allow(dead_code, reason = "the fake is used instead"))]
impl GatewayHandler {
    /// Authenticates the caller of an exchange by its credentials, before the body is read. The
    /// error is the response to send.
    pub(crate) fn identify(
        &self,
        endpoint: &Endpoint,
        credentials: &Credentials,
    ) -> impl Future<Output = Result<Principal, Reply>> {
        self.edge.gateway().identify(endpoint, credentials)
    }

    /// Takes a permit for an event stream of the caller, held until dropped.
    ///
    /// # Errors
    /// The limit of the caller or of its organisation is reached.
    pub(crate) fn stream(&self, caller: &Principal) -> Result<OpenStream, Exhausted> {
        self.edge.gateway().stream(caller)
    }

    /// Returns the public document at a path, if any: protected resource metadata (RFC 9728), a
    /// key set (RFC 7517), a server card or a catalog of them.
    pub(crate) fn metadata(&self, path: &str) -> Option<String> {
        self.edge.gateway().metadata(path)
    }

    /// Records an exchange that the listener rejected.
    pub(crate) fn record_rejection(&self, why: Rejection, words: &str) {
        self.edge.gateway().record_rejection(why, words);
    }

    /// Adapts the response to a request that is rejected before routing to the format of its path.
    pub(crate) fn describe_rejection<'a>(
        &self,
        parts: &'a Parts,
        answer: Response<Bytes>,
    ) -> BoxFuture<'a, Response<Bytes>> {
        (self.describe_rejection)(parts, answer)
    }

    /// Records the status of an outgoing HTTP response.
    pub(crate) fn record_response(&self, status: StatusCode) {
        self.edge.gateway().record_response(status);
    }

    /// Returns the budget of bytes in flight.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        self.edge.gateway().budget()
    }

    /// Handles an exchange. The listener drops the future, or the reply's event stream, when the
    /// client disconnects.
    pub(crate) fn handle(&self, exchange: &Exchange) -> impl Future<Output = Reply> {
        self.edge.receive(exchange)
    }
}
