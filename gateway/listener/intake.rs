//! Reads a request body once, whole, within its bounds of size, time and memory. A body that came along with its
//! headers costs no timer and no copy. It does not look at what it reads.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use lockgate_admission::budget::{Budget, Full, Hold};

use crate::refusal::Refusal;

/// First guess at the size of a body that does not say how long it is.
const GUESS: usize = 16 * 1024;

/// How much may be read, and for how long.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub bytes: usize,
    pub time: Duration,
}

/// The whole body, and what it holds of the budget.
pub(crate) async fn read<B, P>(body: B, bounds: Bounds, budget: P) -> Result<(Bytes, Hold<P>), Refusal>
where
    B: Body<Data = Bytes>,
    P: AsRef<Budget>,
{
    let mut held = Hold::none(budget);
    let declared = body.size_hint().exact().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if let Some(bytes) = declared {
        if bytes > bounds.bytes {
            return Err(Refusal::TooLarge { limit: bounds.bytes });
        }
        held.grow(bytes).map_err(full)?;
    }
    let bytes = {
        let mut all = pin!(collect(body, bounds.bytes, declared, &mut held));
        match std::future::poll_fn(|cx| Poll::Ready(all.as_mut().poll(cx))).await {
            Poll::Ready(bytes) => bytes?,
            Poll::Pending => tokio::time::timeout(bounds.time, all).await.map_err(|_| Refusal::Slow)??,
        }
    };
    Ok((bytes, held))
}

fn full(_: Full) -> Refusal {
    Refusal::Memory
}

async fn collect<B, P>(body: B, limit: usize, declared: Option<usize>, held: &mut Hold<P>) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes>,
    P: AsRef<Budget>,
{
    let mut body = pin!(body);
    let mut first = Bytes::new();
    let mut rest: Option<BytesMut> = None;
    let mut total = 0;
    while let Some(frame) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let Ok(data) = frame.map_err(|_| Refusal::Broken)?.into_data() else { continue };
        total += data.len();
        if total > limit {
            return Err(Refusal::TooLarge { limit });
        }
        if declared.is_none() {
            held.grow(data.len()).map_err(full)?;
        }
        if total == data.len() {
            first = data;
        } else {
            let rest = rest.get_or_insert_with(|| {
                let mut all = BytesMut::with_capacity(declared.unwrap_or(GUESS).max(total));
                all.extend_from_slice(&first);
                all
            });
            rest.extend_from_slice(&data);
        }
        if body.is_end_stream() {
            break;
        }
    }
    Ok(rest.map_or(first, BytesMut::freeze))
}

#[cfg(test)]
mod tests;
