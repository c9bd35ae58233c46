//! Reading of whole request bodies within bounds on size, time, rate, number and memory. A body
//! that arrives along with its headers costs no timer, no lock and no copy. The content is not
//! inspected.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use lockgate_admission::budget::{Budget, Full, Hold, MAX_MEDIUM_MESSAGE};
use lockgate_admission::reader::{Buffer, NoMemory, Reader};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::HttpSettings;
use crate::error::ListenerError;

/// Time after which a body counts as slow.
const SLOW_AFTER: Duration = Duration::from_secs(1);
/// Interval of rate checks on a slow body, also in seconds.
const RATE_WINDOW: Duration = Duration::from_secs(RATE_WINDOW_SECS as u64);
const RATE_WINDOW_SECS: usize = 5;

/// The bounds on a body, and its principal.
#[derive(Clone, Copy)]
pub(crate) struct BodyBounds<'a> {
    pub bytes: usize,
    pub time: Duration,
    pub unfinished: &'a UnfinishedBodies,
    pub connection: &'a ConnectionUsage,
    /// [`lockgate_authn::Principal::key`].
    pub principal: u64,
}

/// A handle that holds memory for a body, and gives access to its budget.
pub(crate) trait HasBudget: AsRef<Budget> {
    fn budget(&self) -> &Arc<Budget>;
}

impl HasBudget for Arc<Budget> {
    fn budget(&self) -> &Arc<Budget> {
        self
    }
}

/// Reads the whole body. Returns it with its hold on the budget; a large body that arrives in parts
/// instead holds its memory for as long as its bytes exist.
pub(crate) async fn read_body<B, P>(
    body: B,
    bounds: BodyBounds<'_>,
    budget: P,
) -> Result<(Bytes, Hold<P>), ListenerError>
where
    B: Body<Data = Bytes>,
    P: HasBudget,
{
    let mut held = Hold::none(budget);
    let declared =
        body.size_hint().exact().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if let Some(bytes) = declared {
        if bytes > bounds.bytes {
            return Err(ListenerError::TooLarge { limit: bounds.bytes });
        }
        // Rejects a large body before the client sends it, if there is no memory at present.
        if bytes > MAX_MEDIUM_MESSAGE {
            Box::pin(Reader::new(held.by().budget()).hold(bytes)).await?;
        }
        held.set(bytes)?;
    }
    let mut body = pin!(body);
    let mut received =
        Received { first: Bytes::new(), rest: None, total: 0, declared, limit: bounds.bytes };
    // Reads the frames that have already arrived.
    let complete = std::future::poll_fn(|cx| {
        loop {
            match body.as_mut().poll_frame(cx) {
                Poll::Ready(frame) => {
                    let ended = received.take(frame, &mut held, declared.is_none());
                    if !matches!(ended, Ok(false)) || body.is_end_stream() {
                        return Poll::Ready(ended.map(|_| true));
                    }
                }
                Poll::Pending => return Poll::Ready(Ok(false)),
            }
        }
    });
    if complete.await? {
        return Ok((received.into_bytes(), held));
    }
    // Boxed because it is rare, to keep the future of a request small.
    Box::pin(read_late(body, bounds, received, held)).await
}

/// Reads a body that did not arrive with its headers.
async fn read_late<B, P>(
    body: Pin<&mut B>,
    bounds: BodyBounds<'_>,
    mut received: Received,
    mut held: Hold<P>,
) -> Result<(Bytes, Hold<P>), ListenerError>
where
    B: Body<Data = Bytes>,
    P: HasBudget,
{
    // From here on only received bytes are charged, because declared bytes may never arrive.
    let unfinished = bounds.unfinished.begin(bounds.connection, bounds.principal);
    let mut reader = Reader::new(held.by().budget());
    count(&mut received, &mut reader, &mut held).await?;
    read_rest(body, bounds, unfinished, &mut received, &mut reader, &mut held).await?;
    if received.total > MAX_MEDIUM_MESSAGE {
        return Ok((reader.finish(received.into_bytes(), 0), held));
    }
    Ok((received.into_bytes(), held))
}

/// Charges the received bytes. A large body waits for memory, and is registered for eviction.
async fn count<P: HasBudget>(
    received: &mut Received,
    reader: &mut Reader,
    held: &mut Hold<P>,
) -> Result<(), ListenerError> {
    if received.total <= MAX_MEDIUM_MESSAGE {
        held.set(received.total)?;
        return Ok(());
    }
    held.shrink(usize::MAX);
    reader.hold(received.total).await?;
    Ok(())
}

impl From<NoMemory> for ListenerError {
    fn from(_: NoMemory) -> Self {
        Self::Memory
    }
}

impl From<Full> for ListenerError {
    fn from(_: Full) -> Self {
        Self::Memory
    }
}

/// Reads the remaining frames within the time and rate limits.
async fn read_rest<B, P>(
    mut body: Pin<&mut B>,
    bounds: BodyBounds<'_>,
    mut unfinished: UnfinishedBody<'_>,
    received: &mut Received,
    reader: &mut Reader,
    held: &mut Hold<P>,
) -> Result<(), ListenerError>
where
    B: Body<Data = Bytes>,
    P: HasBudget,
{
    unfinished.add_bytes(received.total)?;
    let begun = Instant::now();
    let mut looked = Instant::now();
    let mut before = received.total;
    let end = begun + bounds.time;
    let mut timer = pin!(tokio::time::sleep_until(end.min(begun + SLOW_AFTER)));
    loop {
        let frame = tokio::select! {
            biased;
            none = reader.told() => return Err(none.into()),
            frame = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)) => frame,
            () = &mut timer => {
                let now = Instant::now();
                if now >= end {
                    return Err(ListenerError::Slow);
                }
                unfinished.mark_slow(end)?;
                if now >= looked + RATE_WINDOW {
                    let rate = (received.total - before) / RATE_WINDOW_SECS;
                    if rate < bounds.unfinished.settings.body_rate {
                        return Err(ListenerError::Pace);
                    }
                    (looked, before) = (now, received.total);
                }
                timer.as_mut().reset(end.min(looked + RATE_WINDOW));
                continue;
            }
        };
        let length = received.total;
        if received.take(frame, held, false)? {
            return Ok(());
        }
        unfinished.add_bytes(received.total - length)?;
        count(received, reader, held).await?;
        if body.is_end_stream() {
            return Ok(());
        }
    }
}

struct Received {
    first: Bytes,
    rest: Option<Buffer>,
    total: usize,
    declared: Option<usize>,
    limit: usize,
}

impl Received {
    /// Adds a frame, and charges it if `counted`. Returns whether the body is complete.
    fn take<E, P>(
        &mut self,
        frame: Option<Result<http_body::Frame<Bytes>, E>>,
        held: &mut Hold<P>,
        counted: bool,
    ) -> Result<bool, ListenerError>
    where
        P: HasBudget,
    {
        let Some(frame) = frame else { return Ok(true) };
        let Ok(frame) = frame else { return Err(ListenerError::Broken) };
        let Ok(data) = frame.into_data() else { return Ok(false) };
        self.total += data.len();
        if self.total > self.limit {
            return Err(ListenerError::TooLarge { limit: self.limit });
        }
        if counted {
            held.set(self.total)?;
        }
        if self.total == data.len() {
            self.first = data;
            return Ok(false);
        }
        let rest = self.rest.get_or_insert_with(|| {
            let mut all = Buffer::new(self.declared.unwrap_or(self.limit));
            all.extend(&self.first);
            all
        });
        rest.extend(&data);
        Ok(false)
    }

    fn into_bytes(self) -> Bytes {
        self.rest.map_or(self.first, |mut rest| rest.take())
    }
}

/// Accounting of incomplete request bodies: the number of slow bodies, and the bytes, per
/// connection and per principal. A body that arrives along with its headers is not counted.
pub(crate) struct UnfinishedBodies {
    settings: HttpSettings,
    principals: Mutex<HashMap<u64, Usage>>,
}

pub(crate) type ConnectionUsage = Mutex<Usage>;

/// The incomplete bodies of a connection or a principal.
#[derive(Default)]
pub(crate) struct Usage {
    /// The deadline of each slow body.
    slow: Vec<Instant>,
    bytes: usize,
}

/// An incomplete body, until dropped.
struct UnfinishedBody<'a> {
    all: &'a UnfinishedBodies,
    connection: &'a ConnectionUsage,
    /// [`lockgate_authn::Principal::key`].
    principal: u64,
    /// The body's deadline, if it is slow.
    slow: Option<Instant>,
    bytes: usize,
}

impl Usage {
    /// Returns the time until the first deadline if `most` bodies are slow. By then at least one of
    /// them has ended.
    fn time_if_full(&self, most: usize) -> Option<Duration> {
        let now = Instant::now();
        let first = self.slow.iter().min().filter(|_| self.slow.len() >= most);
        first.map(|end| end.saturating_duration_since(now))
    }

    fn remove(&mut self, slow: Option<Instant>, bytes: usize) {
        if let Some(end) = slow
            && let Some(at) = self.slow.iter().position(|&other| other == end)
        {
            self.slow.swap_remove(at);
        }
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl UnfinishedBodies {
    pub(crate) fn new(settings: HttpSettings) -> Self {
        Self { settings, principals: Mutex::default() }
    }

    fn begin<'a>(&'a self, connection: &'a ConnectionUsage, principal: u64) -> UnfinishedBody<'a> {
        UnfinishedBody { all: self, connection, principal, slow: None, bytes: 0 }
    }
}

impl UnfinishedBody<'_> {
    fn add_bytes(&mut self, bytes: usize) -> Result<(), ListenerError> {
        if bytes == 0 {
            return Ok(());
        }
        let settings = &self.all.settings;
        self.bytes += bytes;
        let mut connection = self.connection.lock();
        connection.bytes += bytes;
        let mut principals = self.all.principals.lock();
        let principal = principals.entry(self.principal).or_default();
        principal.bytes += bytes;
        // A single body of the largest size is always admitted.
        let single = settings.body_bytes;
        if connection.bytes > settings.unfinished_bytes_per_connection.max(single) {
            return Err(ListenerError::ConnectionBytes);
        }
        if principal.bytes > settings.unfinished_bytes_per_principal.max(single) {
            return Err(ListenerError::PrincipalBytes);
        }
        Ok(())
    }

    /// Marks the body as slow, with the deadline `end`.
    fn mark_slow(&mut self, end: Instant) -> Result<(), ListenerError> {
        if self.slow.is_some() {
            return Ok(());
        }
        let settings = &self.all.settings;
        let mut connection = self.connection.lock();
        let most = settings.slow_bodies_per_connection;
        if let Some(retry_after) = connection.time_if_full(most) {
            return Err(ListenerError::ConnectionBodies { retry_after });
        }
        let mut principals = self.all.principals.lock();
        let principal = principals.entry(self.principal).or_default();
        let most = settings.slow_bodies_per_principal;
        if let Some(retry_after) = principal.time_if_full(most) {
            return Err(ListenerError::PrincipalBodies { retry_after });
        }
        connection.slow.push(end);
        principal.slow.push(end);
        self.slow = Some(end);
        Ok(())
    }
}

impl Drop for UnfinishedBody<'_> {
    fn drop(&mut self) {
        if self.slow.is_none() && self.bytes == 0 {
            return;
        }
        self.connection.lock().remove(self.slow, self.bytes);
        let mut principals = self.all.principals.lock();
        if let Entry::Occupied(mut entry) = principals.entry(self.principal) {
            let usage = entry.get_mut();
            usage.remove(self.slow, self.bytes);
            if usage.slow.is_empty() && usage.bytes == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests;
