//! The service for all paths other than MCP.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

use crate::incoming_body::IncomingBody;
use crate::response_body::{BoxError, FallbackBody};

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
