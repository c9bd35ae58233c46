//! A request body in at most three pieces, so that a large text need not be copied.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// The body of a request; empty pieces are omitted.
#[derive(Clone, Debug, Default)]
pub struct Payload([Bytes; 3]);

impl From<[Bytes; 3]> for Payload {
    fn from(pieces: [Bytes; 3]) -> Self {
        Self(pieces)
    }
}

impl From<Bytes> for Payload {
    fn from(text: Bytes) -> Self {
        Self([text, Bytes::new(), Bytes::new()])
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        for piece in &mut self.get_mut().0 {
            if !piece.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(std::mem::take(piece)))));
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.0.iter().all(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}
