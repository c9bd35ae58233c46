//! The body of a request as it comes. An HTTP/2 stream that ends while its client still sends is
//! reset, and clients that write headers and body apart (curl) then lose the response. What is left
//! of such a body is read behind the response, in bounds.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// Most bytes of a body that are read behind its response.
const MAX_REST: usize = 64 * 1024;
/// Most time that is spent on it.
const REST_TIME: Duration = Duration::from_secs(1);

/// The body of a request, of which a small rest is read even if it was refused unread.
pub struct IncomingBody {
    /// Taken only when this is dropped.
    body: Option<Incoming>,
    is_http2: bool,
}

impl IncomingBody {
    /// Returns a request with this kind of body.
    pub(crate) fn wrap(request: Request<Incoming>) -> Request<Self> {
        let is_http2 = request.version() == Version::HTTP_2;
        request.map(|body| Self { body: Some(body), is_http2 })
    }
}

impl Body for IncomingBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for IncomingBody {
    fn drop(&mut self) {
        if self.is_http2
            && !self.is_end_stream()
            && let Some(body) = self.body.take()
        {
            tokio::spawn(tokio::time::timeout(REST_TIME, read_rest(body)));
        }
    }
}

/// Reads to the end of a body, or to the bound.
async fn read_rest(mut body: Incoming) {
    let mut total = 0;
    while let Some(Ok(frame)) = body.frame().await {
        total += frame.data_ref().map_or(0, Bytes::len);
        if total > MAX_REST {
            return;
        }
    }
}
