//! Requests to an origin over a bounded stack of idle connections. A request is repeated only if
//! none of it was sent.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header};
use parking_lot::Mutex;
use scopeguard::guard;
use tokio::time::{Instant, timeout};
use url::Url;

use crate::address::Policy;
use crate::body::{Body, FailedExchange, exchange, read_response};
use crate::connect::{Connector, Stream};
use crate::error::{SendError, SetupError};
use crate::http1::{
    Http1Connection, Http1Error, IdleConnections, Payload, RequestHead, ResponseHead, write_request,
};
use crate::target::Target;

/// Timeout of [`Origin::fetch`].
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// A scheme, host and port, and the connections to it. Cheap to clone; clones share the
/// connections.
#[derive(Clone)]
pub struct Origin(Arc<Pool>);

impl Origin {
    /// Creates an origin for this URL without connecting. The URL's path and query are only used
    /// for [`Origin::uri`].
    pub fn new(connector: Arc<Connector>, url: &Url, policy: Policy) -> Result<Self, SetupError> {
        let (target, host, uri) = Target::split(url)?;
        Ok(Self(Arc::new(Pool {
            capacity: connector.config().idle_connections,
            idle_timeout: connector.config().idle_timeout,
            connector,
            target,
            policy,
            host,
            uri,
            connecting: AtomicUsize::new(0),
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
        let mut request = *request.into();
        if request.uri().authority().is_some() {
            let path = request.uri().path_and_query().cloned();
            *request.uri_mut() = path.map(Uri::from).unwrap_or_default();
        }
        let is_head = request.method() == Method::HEAD;
        let request = write_request(request, self.0.host.clone());
        let (response, body) = self.run(request, is_head, read_response).await?;
        Ok(response.map(|()| body))
    }

    /// Requests a JSON document at the origin's URL, and returns the response with at most `max`
    /// bytes. Waits for at most 10 s, including connection setup.
    ///
    /// # Errors
    /// A description of why there is no response.
    pub async fn fetch(
        &self,
        mut request: Request<Payload>,
        max: usize,
    ) -> Result<Response<Bytes>, String> {
        *request.uri_mut() = self.uri().clone();
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let fetching = async {
            let response = self.send(request).await.map_err(|error| error.to_string())?;
            let (head, body) = response.into_parts();
            let body = body.collect_limited(max).await.map_err(|error| error.to_string())?;
            Ok(Response::from_parts(head, body))
        };
        let fetched = timeout(FETCH_TIMEOUT, fetching).await;
        fetched.map_err(|_| format!("no response within {} s", FETCH_TIMEOUT.as_secs()))?
    }

    /// Returns the head of a POST to the origin's URL with these headers, to be used repeatedly.
    pub fn post_head(&self, mut headers: HeaderMap) -> RequestHead {
        headers.insert(header::HOST, self.0.host.clone());
        let target = self.0.uri.path_and_query().map_or("/", |target| target.as_str());
        RequestHead::new(&Method::POST, target, &headers)
    }

    /// Begins a POST with a copy of `head` and room for so many bytes of its body, in the memory of
    /// an idle connection, if there is one.
    pub fn begin_post(&self, head: &RequestHead, room: usize) -> PostHead {
        let mut connection = self.0.take();
        let buffer = connection.as_mut().map(|connection| connection.take_buffer());
        PostHead { head: head.copy_to(buffer.unwrap_or_default(), room), connection }
    }

    /// Sends a request, and waits for the head of its response, which `read` reads. Otherwise like
    /// [`Origin::send`].
    pub async fn post<T: Send>(
        &self,
        request: PostRequest,
        read: impl Fn(&ResponseHead<'_, '_>) -> Result<T, Http1Error> + Send + Sync,
    ) -> Result<(T, Body), SendError> {
        let request = match request.0 {
            Assigned::Connection(connection) => {
                match exchange(connection, false, Some(self.0.clone()), &read).await {
                    Ok(response) => return Ok(response),
                    Err(FailedExchange { unsent: Some(unsent), .. }) => unsent,
                    Err(failed) => return Err(failed.into()),
                }
            }
            Assigned::Waiting(request) => *request,
        };
        // Boxed because it is rare, and without its type, which would be part of the types of all
        // futures of calls.
        let run: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(self.run(request, false, read));
        run.await
    }

    async fn run<T>(
        &self,
        mut request: (Vec<u8>, Payload),
        is_head: bool,
        read: impl Fn(&ResponseHead<'_, '_>) -> Result<T, Http1Error>,
    ) -> Result<(T, Body), SendError> {
        let mut attempts = 0;
        loop {
            // Each failed attempt consumes an idle connection. The bound excludes connections
            // returned during the loop.
            let idle = if attempts < self.0.capacity { self.0.take() } else { None };
            let is_new = idle.is_none();
            let connection = match idle {
                Some(mut connection) => {
                    connection.start(request);
                    connection
                }
                None => Http1Connection::new(self.0.connect().await?, request),
            };
            match exchange(connection, is_head, Some(self.0.clone()), &read).await {
                Ok(response) => return Ok(response),
                Err(FailedExchange { unsent: Some(unsent), .. }) if !is_new => request = unsent,
                Err(failed) => return Err(failed.into()),
            }
            attempts += 1;
        }
    }

    /// Returns whether a connection is being opened.
    pub fn is_connecting(&self) -> bool {
        self.0.connecting.load(Ordering::Relaxed) > 0
    }

    /// Returns the number of idle connections.
    pub fn idle(&self) -> usize {
        let mut open = 0;
        for shelf in &self.0.shelves {
            for idle in &mut shelf.lock().idle {
                open += usize::from(idle.connection.is_quiet());
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

/// The head of a POST request, and its connection if one was idle.
pub struct PostHead {
    head: RequestHead,
    connection: Option<Box<Http1Connection>>,
}

impl PostHead {
    /// Adds a header, unless its value cannot be sent.
    pub fn add(&mut self, name: &str, value: &[u8]) {
        self.head.add(name, value);
    }

    /// Returns the request with a body that begins with `start`, which is copied.
    pub fn with_body(self, start: &[u8], rest: impl Into<Payload>) -> PostRequest {
        let rest = rest.into();
        let mut head = self.head.with_length(start.len() + rest.len());
        head.extend_from_slice(start);
        PostRequest(match self.connection {
            Some(mut connection) => {
                connection.start((head, rest));
                Assigned::Connection(connection)
            }
            None => Assigned::Waiting(Box::new((head, rest))),
        })
    }
}

/// A POST request, on its connection if one was idle. Small, because it is passed through all steps
/// of a call.
pub struct PostRequest(Assigned);

enum Assigned {
    Connection(Box<Http1Connection>),
    Waiting(Box<(Vec<u8>, Payload)>),
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
    /// Number of connections that are being opened.
    connecting: AtomicUsize,
    /// A shelf per thread, up to `SHELVES_PER_ORIGIN`: the runtime of the thread that opened a
    /// connection watches its socket, so a call on the same thread wakes no other.
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
    connection: Box<Http1Connection>,
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
    async fn connect(&self) -> Result<Stream, SendError> {
        self.connecting.fetch_add(1, Ordering::Relaxed);
        let _counted = guard(&self.connecting, |count| {
            count.fetch_sub(1, Ordering::Relaxed);
        });
        self.connector.connect(&self.target, self.policy).await.map_err(SendError::unsent)
    }

    fn shelf(&self, slot: usize) -> &Mutex<Shelf> {
        &self.shelves[slot % SHELVES_PER_ORIGIN]
    }

    /// Takes the most recently used connection; closed and expired connections are removed.
    fn take(&self) -> Option<Box<Http1Connection>> {
        let mut shelf = self.shelf(slot()).lock();
        while let Some(mut found) = shelf.idle.pop() {
            if found.since.elapsed() < self.idle_timeout && found.connection.is_quiet() {
                return Some(found.connection);
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
    fn keep(self: Arc<Self>, connection: Box<Http1Connection>) {
        let since = Instant::now();
        let slot = slot();
        let mut shelf = self.shelf(slot).lock();
        if shelf.idle.len() >= self.capacity {
            shelf.idle.retain_mut(|idle| idle.connection.is_quiet());
        }
        if shelf.idle.len() >= self.capacity {
            drop(shelf);
            drop(connection);
            return;
        }
        shelf.idle.push(Idle { connection, since });
        if !shelf.swept {
            shelf.swept = true;
            drop(shelf);
            tokio::spawn(sweep(Arc::downgrade(&self), slot, self.idle_timeout));
        }
    }
}

#[cfg(test)]
mod tests;
