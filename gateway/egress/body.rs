//! A response body that owns its connection: reading to the end returns the connection to the pool,
//! dropping it earlier closes the connection. Decodes nothing, and buffers only on request.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use crate::http1::{Http1Connection, IdleConnections};

/// The body of a response. Event streams use it as an [`http_body::Body`], frame by frame;
/// [`Body::collect_limited`] reads it as a whole. Dropping it before its end closes the connection,
/// which is how a modern MCP request is cancelled.
pub struct Body {
    incoming: Incoming,
    /// `None` once the end was reached.
    held: Option<(Http1Connection, Arc<dyn IdleConnections>)>,
}

/// An error while reading a body.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// Longer than the caller's limit.
    #[error("the response is larger than {0} bytes")]
    TooLarge(usize),
    /// The connection broke, or the framing was wrong.
    #[error("reading the response failed: {0}")]
    Broken(#[from] hyper::Error),
}

impl Body {
    pub(crate) fn new(
        incoming: Incoming,
        link: Http1Connection,
        pool: Arc<dyn IdleConnections>,
    ) -> Self {
        let mut body = Self { incoming, held: Some((link, pool)) };
        if body.incoming.is_end_stream() {
            body.release();
        }
        body
    }

    /// Returns the next frame; `None` at the end. Cancel safe.
    pub async fn frame(&mut self) -> Option<Result<Frame<Bytes>, BodyError>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_frame(cx)).await
    }

    /// Reads the whole body, with an error beyond `max` bytes before that much is buffered. A body
    /// that arrives in one piece is not copied; trailers are discarded.
    pub async fn collect_limited(mut self, max: usize) -> Result<Bytes, BodyError> {
        if self.size_hint().lower() > max as u64 {
            return Err(BodyError::TooLarge(max));
        }
        let mut first = Bytes::new();
        while let Some(data) = self.data().await? {
            if data.len() > max {
                return Err(BodyError::TooLarge(max));
            }
            first = data;
            if !first.is_empty() {
                break;
            }
        }
        let Some(second) = self.data().await? else {
            return Ok(first);
        };
        // An announced length is reserved at once: it was checked against `max` above.
        let rest =
            usize::try_from(self.incoming.size_hint().exact().unwrap_or(0)).unwrap_or(0).min(max);
        let mut whole = BytesMut::with_capacity(first.len() + second.len() + rest);
        whole.extend_from_slice(&first);
        let mut next = Some(second);
        while let Some(data) = next {
            if data.len() > max - whole.len() {
                return Err(BodyError::TooLarge(max));
            }
            whole.extend_from_slice(&data);
            next = self.data().await?;
        }
        Ok(whole.freeze())
    }

    /// Returns the next bytes, possibly empty; `None` at the end. Trailers are discarded. Cancel
    /// safe.
    pub async fn data(&mut self) -> Result<Option<Bytes>, BodyError> {
        while let Some(frame) = self.frame().await {
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    fn release(&mut self) {
        if let Some((link, pool)) = self.held.take() {
            pool.keep(link);
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if this.held.is_none() {
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut this.incoming).poll_frame(cx));
        match frame {
            Some(Ok(frame)) => {
                if this.incoming.is_end_stream() {
                    this.release();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                this.held = None;
                Poll::Ready(Some(Err(error.into())))
            }
            None => {
                this.release();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("ended", &self.held.is_none()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
