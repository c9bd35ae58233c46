//! Requests to an origin over a bounded stack of idle connections. A request is repeated only if
//! none of it was sent.
//!
//! `examples/egress_cost.rs` decided which task drives a connection (microseconds of CPU per
//! request, 1 KiB each way, loopback, two shared cores; range over three runs, each the median of
//! five interleaved rounds; in `naive` the caller polls the connection):

//
// | runtime, callers | task per connection | naive | this pool |
// |---|---|---|---|
// | current_thread, 1 | 15.3–15.5 | 15.2–15.7 | 15.1–16.3 |
// | current_thread, 8 | 8.4–11.8 | 9.1–12.4 | 9.0–12.4 |
// | current_thread, 64 | 8.7–14.8 | 9.0–14.0 | 8.8–13.9 |
// | multi_thread 2, 1 | 11.9–20.8 | 21.8–28.9 | 15.6–19.6 |
// | multi_thread 2, 8 | 10.3–10.9 | 10.8–13.7 | 10.6–11.4 |
// | multi_thread 2, 64 | 10.9–14.9 | 14.5–15.6 | 11.3–14.9 |
//
// A pool polled by its callers through a waker that swallows self-inflicted wake-ups was built too:
// never clearly cheaper than tasks, and 1 to 5 µs dearer with 8 or more callers on one thread,
// though system calls (one `writev`, one `recvfrom`) and instructions in user space (19 thousand,
// 12 of them in hyper's reading and writing) are the same. So a task drives.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderValue, Request, Response, Uri, header};
use parking_lot::Mutex;
use tokio::time::Instant;
use url::{Position, Url};

use crate::address::Policy;
use crate::body::Body;
use crate::config::Config;
use crate::connect::Connector;
use crate::error::{SendError, SetupError};
use crate::http1::{Http1Connection, IdleConnections};
use crate::payload::Payload;
use crate::target::Target;

/// A scheme, host and port, and the connections to it. Cheap to clone; clones share the
/// connections.
#[derive(Clone)]
pub struct Origin(Arc<Pool>);

impl Origin {
    /// Creates an origin for this URL without connecting. The URL's path and query are only used
    /// for [`Origin::uri`].
    pub fn new(
        connector: Arc<Connector>,
        url: &Url,
        policy: Policy,
        config: &Config,
    ) -> Result<Self, SetupError> {
        let target = Target::new(url)?;
        let wrong = SetupError::Url("the host or path cannot be sent");
        let Ok(host) = HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort])
        else {
            return Err(wrong);
        };
        let Ok(uri) = url[Position::BeforePath..Position::AfterQuery].parse() else {
            return Err(wrong);
        };
        Ok(Self(Arc::new(Pool {
            connector,
            target,
            policy,
            host,
            uri,
            capacity: config.idle_connections,
            idle_timeout: config.idle_timeout,
            shelves: Default::default(),
        })))
    }

    /// Returns the path and query of the origin's URL, in the form of a request line.
    pub fn uri(&self) -> &Uri {
        &self.0.uri
    }

    /// Sends a request and waits for the response head. Sets `Host`, and ignores scheme and
    /// authority of the request's URI. Dropping the future closes the connection. Only connecting
    /// has a timeout: deadlines are the caller's responsibility.
    pub async fn send(
        &self,
        request: impl Into<Box<Request<Payload>>>,
    ) -> Result<Response<Body>, SendError> {
        // Boxed, so that no future on the way here holds it by value.
        let mut request = request.into();
        request.headers_mut().insert(header::HOST, self.0.host.clone());
        if request.uri().authority().is_some() {
            *request.uri_mut() = match request.uri().path_and_query() {
                Some(path) => Uri::from(path.clone()),
                None => Uri::default(),
            };
        }
        // Each failed attempt consumes an idle connection. The bound excludes connections returned
        // during the loop.
        for _ in 0..self.0.capacity {
            let Some(link) = self.0.take() else { break };
            match self.exchange(link, request).await {
                Ok(response) => return Ok(response),
                Err((_, Some(unsent))) => request = unsent,
                Err((error, None)) => return Err(error),
            }
        }
        let stream = match self.0.connector.connect(&self.0.target, self.0.policy).await {
            Ok(stream) => stream,
            Err(error) => return Err(SendError::unsent(error)),
        };
        let link = Http1Connection::new(stream).await.map_err(SendError::unsent)?;
        self.exchange(link, request).await.map_err(|(error, _)| error)
    }

    /// Sends a request on a connection. The error contains the request if it may be sent on
    /// another.
    async fn exchange(
        &self,
        mut link: Http1Connection,
        request: Box<Request<Payload>>,
    ) -> Result<Response<Body>, (SendError, Option<Box<Request<Payload>>>)> {
        match link.send(*request).await {
            Ok(response) => Ok(response.map(|incoming| Body::new(incoming, link, self.0.clone()))),
            Err(mut error) => {
                let unsent = error.take_message();
                let sent = unsent.is_none();
                let error = SendError { sent, cause: error.into_error().into() };
                Err((error, unsent.map(Box::new)))
            }
        }
    }

    /// Returns the number of idle connections.
    pub fn idle(&self) -> usize {
        let mut open = 0;
        for shelf in &self.0.shelves {
            for idle in &shelf.lock().idle {
                open += usize::from(!idle.link.is_closed());
            }
        }
        open
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin")
            .field("target", &self.0.target)
            .field("idle", &self.idle())
            .finish_non_exhaustive()
    }
}

/// The state shared by clones of an origin and the bodies of its responses.
pub(crate) struct Pool {
    connector: Arc<Connector>,
    target: Target,
    policy: Policy,
    host: HeaderValue,
    uri: Uri,
    capacity: usize,
    idle_timeout: Duration,
    /// A shelf per thread, up to `SHELVES_PER_ORIGIN`: a connection is driven by the thread that
    /// made it, so a call on the same thread wakes no other.
    shelves: [Mutex<Shelf>; SHELVES_PER_ORIGIN],
}

#[derive(Default)]
struct Shelf {
    /// The most recently used connection is on top and taken first, so that the rest can expire.
    /// Sorted by time.
    idle: Vec<Idle>,
    swept: bool,
}

struct Idle {
    link: Http1Connection,
    since: Instant,
}

/// Shelves per origin; additional threads share.
const SHELVES_PER_ORIGIN: usize = 16;

/// Returns the shelf of the current thread.
fn slot() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SLOT: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHELVES_PER_ORIGIN;
    }
    SLOT.with(|slot| *slot)
}

impl Pool {
    fn shelf(&self, slot: usize) -> &Mutex<Shelf> {
        &self.shelves[slot % SHELVES_PER_ORIGIN]
    }

    /// Takes the most recently used ready connection. A connection stays if its driver has not yet
    /// processed the end of the last exchange; closed and expired connections are removed.
    fn take(&self) -> Option<Http1Connection> {
        let mut shelf = self.shelf(slot()).lock();
        while let Some(at) =
            shelf.idle.iter().rposition(|idle| idle.link.is_ready() || idle.link.is_closed())
        {
            let found = shelf.idle.remove(at);
            if !found.link.is_closed() && found.since.elapsed() < self.idle_timeout {
                return Some(found.link);
            }
        }
        None
    }

    /// Closes expired connections and returns the next expiry; `None` if no connection is left.
    fn expire(&self, slot: usize, now: Instant) -> Option<Instant> {
        let mut shelf = self.shelf(slot).lock();
        let old =
            shelf.idle.partition_point(|idle| now.duration_since(idle.since) >= self.idle_timeout);
        let expired: Vec<Idle> = shelf.idle.drain(..old).collect();
        let next = shelf.idle.first().map(|idle| idle.since + self.idle_timeout);
        shelf.swept = next.is_some();
        drop(shelf);
        drop(expired);
        next
    }
}

/// Closes idle connections on expiry, so that an unused server keeps no sockets. Ends with the last
/// connection or the origin.
async fn sweep(pool: std::sync::Weak<Pool>, slot: usize, first: Duration) {
    let mut next = Instant::now() + first;
    loop {
        tokio::time::sleep_until(next).await;
        let Some(pool) = pool.upgrade() else { return };
        match pool.expire(slot, Instant::now()) {
            Some(later) => next = later,
            None => return,
        }
    }
}

impl IdleConnections for Pool {
    fn keep(self: Arc<Self>, link: Http1Connection) {
        if link.is_closed() {
            return;
        }
        let since = Instant::now();
        let slot = slot();
        let mut shelf = self.shelf(slot).lock();
        if shelf.idle.len() >= self.capacity {
            shelf.idle.retain(|idle| !idle.link.is_closed());
        }
        if shelf.idle.len() >= self.capacity {
            drop(shelf);
            drop(link);
            return;
        }
        shelf.idle.push(Idle { link, since });
        if !shelf.swept {
            shelf.swept = true;
            drop(shelf);
            tokio::spawn(sweep(Arc::downgrade(&self), slot, self.idle_timeout));
        }
    }
}

#[cfg(test)]
mod tests;
