//! The interface between the listener and the gateway.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use lockgate_admission::budget::Budget;
use lockgate_authn::{Credentials, Principal};
use lockgate_proxy::Exhausted;
use lockgate_proxy::transport::{Endpoint, Exchange, Reply};
use lockgate_telemetry::Rejection;

/// The handler of exchanges: the gateway, or a fake in tests.
pub trait Handler: Send + Sync + 'static {
    /// A permit for an open event stream.
    type Place: Send + Sync + Unpin + 'static;

    /// Authenticates the caller of an exchange by its credentials, before the body is read. The
    /// error is the response to send.
    fn identify(
        &self,
        endpoint: &Endpoint,
        credentials: &Credentials,
    ) -> impl Future<Output = Result<Principal, Reply>> + Send;

    /// Returns the public document at a path, if any: protected resource metadata (RFC 9728), a
    /// key set (RFC 7517), a server card or a catalog of them.
    fn metadata(&self, path: &str) -> Option<String>;

    /// Takes a permit for an event stream of the caller, held until dropped.
    ///
    /// # Errors
    /// The limit of the caller or of its organisation is reached.
    fn stream(&self, caller: &Principal) -> Result<Self::Place, Exhausted>;

    /// Records an exchange that the listener rejected.
    fn record_rejection(&self, why: Rejection, words: Cow<'static, str>);

    /// Adapts the response to a request that is rejected before routing to the format of its path.
    fn describe_rejection(
        &self,
        _: &Parts,
        answer: Response<Bytes>,
    ) -> impl Future<Output = Response<Bytes>> + Send {
        async { answer }
    }

    /// Records the status of an outgoing HTTP response.
    fn record_response(&self, status: StatusCode);

    /// Returns the budget of bytes in flight.
    fn budget(&self) -> &Arc<Budget>;

    /// Handles an exchange. The listener drops the future, or the reply's event stream, when the
    /// client disconnects.
    fn handle(&self, exchange: &Exchange) -> impl Future<Output = Reply> + Send;
}
