//! Tests of `intake`.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;

use http_body::{Frame, SizeHint};
use http_body_util::Full;

use super::*;

/// A body of given chunks that may declare its length, hang or break at the end.
struct Chunks {
    chunks: VecDeque<&'static str>,
    declared: Option<u64>,
    end: End,
}

#[derive(Clone, Copy)]
enum End {
    Clean,
    Hang,
    Break,
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match (self.chunks.pop_front(), self.end) {
            (Some(chunk), _) => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(chunk.as_bytes()))))),
            (None, End::Clean) => Poll::Ready(None),
            (None, End::Hang) => Poll::Pending,
            (None, End::Break) => Poll::Ready(Some(Err("broken"))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.declared.map(SizeHint::with_exact).unwrap_or_default()
    }
}

const BOUNDS: Bounds = Bounds { bytes: 8, time: Duration::from_secs(5) };

async fn take(
    chunks: &[&'static str],
    declared: Option<u64>,
    end: End,
    budget: &Arc<Budget>,
) -> Result<Bytes, Refusal> {
    let body = Chunks { chunks: chunks.iter().copied().collect(), declared, end };
    read(body, BOUNDS, Arc::clone(budget)).await.map(|(bytes, _)| bytes)
}

#[tokio::test]
async fn the_limit_is_inclusive_declared_or_not() {
    let budget = Arc::new(Budget::new(100));
    assert_eq!(take(&["1234", "5678"], None, End::Clean, &budget).await.unwrap(), "12345678");
    assert_eq!(take(&["12345678"], Some(8), End::Clean, &budget).await.unwrap(), "12345678");
    assert_eq!(take(&["1234", "56789"], None, End::Clean, &budget).await, Err(Refusal::TooLarge { limit: 8 }));
    assert_eq!(take(&[], Some(9), End::Hang, &budget).await, Err(Refusal::TooLarge { limit: 8 }));
    assert_eq!(take(&[], None, End::Clean, &budget).await.unwrap(), "");
    assert_eq!(take(&["", "ab", "", "c"], None, End::Clean, &budget).await.unwrap(), "abc");
    assert_eq!(budget.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_slow_or_broken_body_is_refused() {
    let budget = Arc::new(Budget::new(100));
    assert_eq!(take(&["12"], None, End::Hang, &budget).await, Err(Refusal::Slow));
    assert_eq!(take(&["12"], Some(4), End::Break, &budget).await, Err(Refusal::Broken));
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn bodies_share_one_budget() {
    let budget = Arc::new(Budget::new(6));
    let held = read(Full::new(Bytes::from_static(b"1234")), BOUNDS, Arc::clone(&budget)).await.unwrap();
    assert_eq!(take(&["123"], Some(3), End::Clean, &budget).await, Err(Refusal::Memory));
    assert_eq!(take(&["1", "23"], None, End::Clean, &budget).await, Err(Refusal::Memory));
    assert_eq!(take(&["12"], Some(2), End::Clean, &budget).await.unwrap(), "12");
    drop(held);
    assert_eq!(take(&["123456"], None, End::Clean, &budget).await.unwrap(), "123456");
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn a_body_in_one_piece_is_not_copied() {
    let budget = Arc::new(Budget::new(100));
    let bytes = Bytes::from(vec![b'x'; 8]);
    let at = bytes.as_ptr();
    let (read, _held) = read(Full::new(bytes), BOUNDS, Arc::clone(&budget)).await.unwrap();
    assert_eq!(read.as_ptr(), at);
}
