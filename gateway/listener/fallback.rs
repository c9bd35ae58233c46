//! The service for all paths other than MCP.

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;

use crate::incoming_body::IncomingBody;
use crate::response_body::BoxError;

/// A service for all other paths, such as an axum router.
pub trait Fallback:
    tower::Service<
        Request<IncomingBody>,
        Response = Response<<Self as Fallback>::Body>,
        Error = std::convert::Infallible,
        Future: Send,
    > + Clone
    + Send
    + Sync
    + 'static
{
    type Body: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static;
}

impl<S, B> Fallback for S
where
    S: tower::Service<
            Request<IncomingBody>,
            Response = Response<B>,
            Error = std::convert::Infallible,
            Future: Send,
        > + Clone
        + Send
        + Sync
        + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Body = B;
}
