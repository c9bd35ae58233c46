//! Messages to an HTTP+SSE server: a bounded queue, and the task that posts its entries. Requests
//! are posted concurrently; notifications and responses are posted in order, and later messages
//! wait for them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use lockgate_admission::budget::Budget;
use lockgate_egress::{Origin, Payload};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::duplex::{Exchange, Outgoing, count_outgoing};
use crate::failure::{UpstreamError, UpstreamErrorKind};
use crate::identity_assertion::{Identification, IdentityAssertion};

/// Number of requests posted concurrently.
const MAX_CONCURRENT_POSTS: usize = 32;
/// Time for a server to accept a request; some answer the POST only when the call has ended.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);
/// Time for a server to accept a notification or a response, which later messages wait for.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Most queued bytes; a single message may be longer.
const MAX_QUEUED: usize = 64 << 20;
/// Maximum bytes read from the body of an acceptance, which is discarded.
const MAX_ACCEPTANCE: usize = 64 << 10;

pub(super) struct Posts {
    state: Mutex<PostState>,
    capacity: usize,
    budget: Arc<Budget>,
    more: Notify,
}

#[derive(Default)]
struct PostState {
    queue: VecDeque<Item>,
    bytes: usize,
    closing: bool,
}

struct Item {
    id: Option<u64>,
    text: Bytes,
    assertion: Option<Arc<dyn IdentityAssertion>>,
}

impl Posts {
    pub(super) fn new(capacity: usize, budget: Arc<Budget>) -> Self {
        Self { state: Mutex::default(), capacity, budget, more: Notify::new() }
    }

    /// Waits for the next message; `None` once the queue is closed and empty.
    async fn next(&self) -> Option<Item> {
        loop {
            {
                let mut state = self.state.lock();
                if let Some(item) = state.queue.pop_front() {
                    state.bytes -= item.text.len();
                    return Some(item);
                }
                if state.closing {
                    return None;
                }
            }
            self.more.notified().await;
        }
    }
}

impl Outgoing for Posts {
    fn send(
        &self,
        id: Option<u64>,
        text: Bytes,
        assertion: Option<Arc<dyn IdentityAssertion>>,
    ) -> Result<(), UpstreamError> {
        let text = count_outgoing(text, &self.budget)?;
        let mut state = self.state.lock();
        if state.closing {
            return Err(UpstreamError::new(
                UpstreamErrorKind::Unavailable,
                "the connection to the server is closed",
            ));
        }
        if state.queue.len() >= self.capacity
            || !state.queue.is_empty() && state.bytes + text.len() > MAX_QUEUED
        {
            return Err(UpstreamError::new(
                UpstreamErrorKind::Overloaded,
                "the server accepts messages too slowly",
            ));
        }
        state.bytes += text.len();
        state.queue.push_back(Item { id, text, assertion });
        drop(state);
        self.more.notify_one();
        Ok(())
    }

    fn withdraw(&self, id: u64) -> bool {
        let mut state = self.state.lock();
        if let Some(at) = state.queue.iter().position(|item| item.id == Some(id))
            && let Some(item) = state.queue.remove(at)
        {
            state.bytes -= item.text.len();
            return true;
        }
        false
    }

    fn close(&self) {
        self.state.lock().closing = true;
        self.more.notify_one();
    }

    fn is_open(&self) -> bool {
        !self.state.lock().closing
    }

    fn end(&self) -> Vec<u64> {
        let mut state = self.state.lock();
        state.closing = true;
        state.bytes = 0;
        state.queue.drain(..).filter_map(|item| item.id).collect()
    }
}

/// Posts the queued messages until the connection is closed, then ends it. The server notices by
/// the end of its stream.
pub(super) async fn run(
    posts: Arc<Posts>,
    origin: Origin,
    uri: Uri,
    headers: HeaderMap,
    identification: Option<Identification>,
    exchange: Arc<Exchange>,
) {
    let mut running = JoinSet::new();
    while let Some(Item { id, text, assertion }) = posts.next().await {
        while running.try_join_next().is_some() {}
        if running.len() >= MAX_CONCURRENT_POSTS {
            running.join_next().await;
        }
        let mut message = make_request(Method::POST, uri.clone(), &headers, text);
        if let Some(identification) = &identification {
            identification.add(message.headers_mut(), assertion.as_deref());
        }
        let Some(id) = id else {
            if let Err(failure) = deliver_within(NOTIFICATION_TIMEOUT, &origin, message).await {
                tracing::debug!(%failure, "a notification or response was not delivered");
            }
            continue;
        };
        let origin = origin.clone();
        let exchange = exchange.clone();
        running.spawn(async move {
            if let Err(failure) = deliver_within(REQUEST_TIMEOUT, &origin, message).await {
                exchange.fail(id, failure);
            }
        });
    }
    let finish = async { while running.join_next().await.is_some() {} };
    let _ = timeout(NOTIFICATION_TIMEOUT, finish).await;
    exchange.end("the gateway closed the connection");
}

async fn deliver_within(
    wait: Duration,
    origin: &Origin,
    message: Request<Payload>,
) -> Result<(), UpstreamError> {
    match timeout(wait, deliver(origin, message)).await {
        Ok(delivered) => delivered,
        Err(_) => {
            let words = "the server did not accept the message in time";
            Err(UpstreamError::new(UpstreamErrorKind::Timeout, words).after_send())
        }
    }
}

/// Posts a message; any 2xx status means accepted.
async fn deliver(origin: &Origin, message: Request<Payload>) -> Result<(), UpstreamError> {
    let response = origin.send(message).await?;
    let status = response.status();
    // Read to its end, so that the connection can be reused.
    let read = response.into_body().collect_limited(MAX_ACCEPTANCE).await;
    if status.is_success() {
        if let Err(error) = read {
            tracing::debug!(%error, "reading the body of a 2xx response failed");
        }
        return Ok(());
    }
    Err(read_status(status))
}

pub(super) fn make_request(
    method: Method,
    uri: Uri,
    headers: &HeaderMap,
    text: Bytes,
) -> Request<Payload> {
    let mut request = Request::new(text.into());
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    request.headers_mut().clone_from(headers);
    request
}

/// Returns the error for a status other than 2xx. A refused message was not processed; any other
/// may have been.
pub(super) fn read_status(status: StatusCode) -> UpstreamError {
    let words = format!("the server answered with HTTP status {}", status.as_u16());
    match status.as_u16() {
        401 | 403 | 407 => UpstreamError::new(UpstreamErrorKind::NeedsAuth, words),
        404 | 410 => UpstreamError::new(
            UpstreamErrorKind::SessionLost,
            format!("{words}: unknown session or path"),
        ),
        300..=399 => UpstreamError::new(
            UpstreamErrorKind::Garbage,
            format!("{words}, a redirect, which is not followed"),
        ),
        429 | 503 => UpstreamError::new(UpstreamErrorKind::Unavailable, words)
            .after_send()
            .retry_after(Duration::from_secs(1)),
        _ => UpstreamError::new(UpstreamErrorKind::Garbage, words).after_send(),
    }
}
