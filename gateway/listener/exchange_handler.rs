//! The gateway as the listener sees it: whoever answers an exchange.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use lockgate_admission::budget::Budget;
use lockgate_authn::{Credentials, Principal};
use lockgate_proxy::TooManyStreams;
use lockgate_proxy::transport::{Endpoint, Exchange, Reply};
use lockgate_telemetry::Rejection;

/// Whoever answers: the gateway, or a fake in tests.
pub trait Handler: Send + Sync + 'static {
    /// An open event stream, counted.
    type Place: Send + Sync + Unpin + 'static;

    /// Who is behind an exchange. Asked with its own credentials, before its body is read; refused
    /// with the answer.
    fn identify(
        &self,
        endpoint: &Endpoint,
        credentials: &Credentials,
    ) -> impl Future<Output = Result<Principal, Reply>> + Send;

    /// What is public at a path, if there is anything: protected resource metadata (RFC 9728), or
    /// a key set (RFC 7517).
    fn metadata(&self, path: &str) -> Option<String>;

    /// A place among the event streams of a caller, until it is dropped.
    ///
    /// # Errors
    /// It has as many as one may have, or its organisation.
    fn stream(&self, caller: &Principal) -> Result<Self::Place, TooManyStreams>;

    /// An exchange that went no further than the listener, for the record.
    fn record_rejection(&self, why: Rejection, words: Cow<'static, str>);

    /// The answer to a request that is refused before its route is known, in the form of what its
    /// path serves.
    fn describe_rejection(
        &self,
        _: &Parts,
        answer: Response<Bytes>,
    ) -> impl Future<Output = Response<Bytes>> + Send {
        async { answer }
    }

    /// An HTTP response that goes out, for the record.
    fn record_response(&self, status: StatusCode);

    /// The account of bytes in flight.
    fn budget(&self) -> &Arc<Budget>;

    /// One exchange. Dropping the future or the reply's event stream means that the client has
    /// gone.
    fn handle(&self, exchange: Exchange) -> impl Future<Output = Reply> + Send;
}
