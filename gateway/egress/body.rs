//! A response body that owns its connection: reading to the end returns the connection to the pool,
//! dropping it earlier closes the connection. Decodes nothing, and buffers only on request.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::Response;

use crate::error::SendError;
use crate::http1::{Http1Connection, Http1Error, IdleConnections, Payload, ResponseHead};

/// The body of a response. Event streams read it piece by piece; [`Body::collect_limited`] reads it
/// as a whole. Dropping it before its end closes the connection, which is how a modern MCP request
/// is cancelled.
pub struct Body {
    /// `None` once the end was reached.
    held: Option<Box<Http1Connection>>,
    /// Takes the connection after the end, if it may serve further requests.
    pool: Option<Arc<dyn IdleConnections>>,
}

/// An error while reading a body.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// Longer than the caller's limit.
    #[error("the response is larger than {0} bytes")]
    TooLarge(usize),
    /// The connection broke, or the framing was wrong.
    #[error("reading the response failed: {0}")]
    Broken(#[from] Http1Error),
}

impl Body {
    pub(crate) fn new(
        connection: Box<Http1Connection>,
        pool: Option<Arc<dyn IdleConnections>>,
    ) -> Self {
        let mut body = Self { held: Some(connection), pool };
        body.release_at_end();
        body
    }

    /// Returns the length of the rest, if known.
    pub fn length(&self) -> Option<u64> {
        self.held.as_ref().map_or(Some(0), |connection| connection.length())
    }

    /// Reads the whole body, with an error beyond `max` bytes before that much is buffered.
    /// Trailers are discarded.
    pub async fn collect_limited(mut self, max: usize) -> Result<Bytes, BodyError> {
        if self.length().is_some_and(|length| length > max as u64) {
            return Err(BodyError::TooLarge(max));
        }
        let mut whole = BytesMut::new();
        while let Some(data) = self.data().await? {
            if data.len() > max - whole.len() {
                return Err(BodyError::TooLarge(max));
            }
            whole.extend_from_slice(&data);
        }
        Ok(whole.freeze())
    }

    /// Returns the next bytes; `None` at the end. Trailers are discarded. Cancel safe.
    pub async fn data(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            match self.arrival().await? {
                Some(nothing) if nothing.is_empty() => {}
                data => return Ok(data),
            }
        }
    }

    /// Returns the next bytes like [`Body::data`], but also whenever a part of them has arrived,
    /// with an empty piece.
    pub async fn arrival(&mut self) -> Result<Option<Bytes>, BodyError> {
        let Some(connection) = &mut self.held else { return Ok(None) };
        let data = poll_fn(|cx| connection.poll_data(cx)).await;
        match data {
            Ok(data) => {
                self.release_at_end();
                Ok(data)
            }
            Err(error) => {
                self.held = None;
                Err(error.into())
            }
        }
    }

    /// Returns the connection to its pool after the last byte.
    fn release_at_end(&mut self) {
        let is_over = self.held.as_ref().is_some_and(|connection| connection.is_ended());
        if is_over
            && let Some(mut connection) = self.held.take()
            && let Some(pool) = self.pool.take()
            && connection.is_reusable()
        {
            connection.finish_request();
            pool.keep(connection);
        }
    }
}

/// An exchange without a response, and the request if none of it was written.
pub(crate) struct FailedExchange {
    pub(crate) cause: Http1Error,
    pub(crate) unsent: Option<(Vec<u8>, Payload)>,
}

/// Sends the request of a connection, and waits for the head of its response, which `read` reads.
/// `is_head` states that its method is HEAD; `pool` takes the connection after the response.
pub(crate) async fn exchange<T>(
    mut connection: Box<Http1Connection>,
    is_head: bool,
    pool: Option<Arc<dyn IdleConnections>>,
    read: impl Fn(&ResponseHead<'_, '_>) -> Result<T, Http1Error>,
) -> Result<(T, Body), FailedExchange> {
    let head = connection.receive_head(is_head, read).await;
    let head = head.map_err(|cause| FailedExchange { cause, unsent: connection.take_unsent() })?;
    Ok((head, Body::new(connection, pool)))
}

/// Returns an empty response with the status, the version and the headers of a head.
pub(crate) fn read_response(head: &ResponseHead<'_, '_>) -> Result<Response<()>, Http1Error> {
    let mut response = Response::new(());
    *response.status_mut() = head.status;
    *response.version_mut() = head.version;
    *response.headers_mut() = head.header_map()?;
    Ok(response)
}

impl From<FailedExchange> for SendError {
    fn from(failed: FailedExchange) -> Self {
        Self { sent: failed.unsent.is_none(), cause: failed.cause.into() }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("ended", &self.held.is_none()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
