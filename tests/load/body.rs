//! Message bodies without copies: up to three byte strings sent in sequence, and bounded reads.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::{Context as _, bail};
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

/// Limit on the bodies that client and server read, in bytes.
pub const MAX_BODY_BYTES: usize = 8 << 20;

/// A body of known length made of up to three byte strings.
#[derive(Default)]
pub struct Pieces {
    parts: [Bytes; 3],
}

impl Pieces {
    pub fn new(parts: [Bytes; 3]) -> Self {
        Self { parts }
    }

    pub fn one(part: Bytes) -> Self {
        Self::new([part, Bytes::new(), Bytes::new()])
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let full = self.get_mut().parts.iter_mut().find(|part| !part.is_empty());
        Poll::Ready(full.map(|part| Ok(Frame::data(std::mem::take(part)))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.iter().all(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.parts.iter().map(|part| part.len() as u64).sum())
    }
}

/// Reads a body to its end, without a copy if it arrives in one frame.
pub async fn whole(mut body: Incoming) -> anyhow::Result<Bytes> {
    let expected = usize::try_from(body.size_hint().lower()).unwrap_or(MAX_BODY_BYTES);
    let Some(first) = next(&mut body).await? else {
        return Ok(Bytes::new());
    };
    if body.is_end_stream() {
        return Ok(first);
    }
    let mut all = BytesMut::with_capacity(expected.clamp(first.len(), MAX_BODY_BYTES));
    all.extend_from_slice(&first);
    while let Some(more) = next(&mut body).await? {
        if all.len() + more.len() > MAX_BODY_BYTES {
            bail!("the body is larger than {MAX_BODY_BYTES} bytes");
        }
        all.extend_from_slice(&more);
    }
    Ok(all.freeze())
}

async fn next(body: &mut Incoming) -> anyhow::Result<Option<Bytes>> {
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        match frame {
            None => return Ok(None),
            Some(frame) => {
                if let Ok(data) = frame.context("read a body")?.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}
