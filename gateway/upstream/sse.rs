//! The deprecated HTTP+SSE transport (2024-11-05): an event stream carries all messages of the
//! server, and each message to it is a POST to the endpoint named by the first event. Posts to no
//! other origin, follows no redirect, repeats and resumes nothing: a lost stream is a lost
//! connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use lockgate_admission::budget::Budget;
use lockgate_egress::{Origin, Payload};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::{Position, Url};

use crate::call::Identification;
use crate::duplex::{
    Bounds, Duplex, Exchange, MessageQueue, Outgoing, QueuedMessage, count_outgoing,
};
use crate::event_stream::{Event, EventReader};
use crate::failure::{Result, UpstreamError, UpstreamErrorKind};
use crate::http::{HTTP_STATUS, Remote, is_event_stream};
use crate::incoming::{Inbox, Intake};

/// Longest wait for the `endpoint` event on an open stream.
const ENDPOINT_WAIT: Duration = Duration::from_secs(15);
/// Longest `endpoint` event, in bytes.
const MAX_ENDPOINT: usize = 4 << 10;

/// Opens the stream of a server and waits for the endpoint to POST to. Only the wait for the first
/// event has a timeout. Dropping the future closes the stream.
///
/// # Errors
/// No connection, no event stream, or a first event that is not an `endpoint` of the same origin.
pub(crate) async fn connect(
    remote: &Remote,
    bounds: Bounds,
    inbox: Arc<dyn Inbox>,
    intake: Intake,
    identification: Option<Identification>,
) -> Result<Arc<Duplex>> {
    let Remote { url, origin, headers } = remote;
    let mut get = make_request(Method::GET, place(url)?, headers, Bytes::new());
    get.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    get.headers_mut().remove(CONTENT_TYPE);
    if let Some(identification) = &identification {
        identification.add(get.headers_mut(), None);
    }
    let response = origin.send(get).await?;
    let status = response.status();
    if !status.is_success() {
        if let Some(identification) = &identification {
            identification.note_refusal(status, response.headers());
        }
        return Err(read_status(status));
    }
    if !is_event_stream(response.headers()) {
        return Err(UpstreamError::garbage("the server's response is not an event stream"));
    }
    let mut stream =
        EventReader::new(response.into_body(), bounds.message_bytes, &intake.budget, &inbox);
    let Ok(first) = timeout(ENDPOINT_WAIT, next_event(&mut stream)).await else {
        let words = "the server opened an event stream but sent no endpoint";
        return Err(UpstreamError::timeout(words));
    };
    let endpoint = match first {
        Ok(Some(event)) => endpoint(url, &event)?,
        Ok(None) => {
            let words = "the event stream closed before the endpoint was sent";
            return Err(UpstreamError::lost(words));
        }
        Err(ended) => return Err(UpstreamError::lost(ended.words)),
    };
    let mut headers = headers.clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let posts = Arc::new(Posts::new(bounds.outgoing, Arc::clone(&intake.budget)));
    let exchange = Exchange::new(posts.clone(), bounds, inbox, intake);
    exchange.spawn(run(posts, origin.clone(), endpoint, headers, identification, exchange.clone()));
    exchange.spawn(read(stream, exchange.clone()));
    Ok(Arc::new(Duplex { exchange, name: "sse" }))
}

/// Parses the endpoint named by the first event.
fn endpoint(url: &Url, event: &Event) -> Result<Uri> {
    let is_endpoint = event.event.as_deref() == Some("endpoint");
    let text = std::str::from_utf8(&event.data).unwrap_or("").trim();
    let words = match url.join(text) {
        _ if !is_endpoint || event.data.len() > MAX_ENDPOINT => {
            "the first event of the stream is not an endpoint"
        }
        Err(_) => "the server's endpoint is not a URL",
        Ok(_) if text.is_empty() => "the server's endpoint is not a URL",
        Ok(endpoint) if endpoint.origin() != url.origin() => {
            "the server's endpoint is at another origin, which is not allowed"
        }
        Ok(endpoint) if !endpoint.username().is_empty() || endpoint.password().is_some() => {
            "the server's endpoint contains user information, which is not allowed"
        }
        Ok(endpoint) => return place(&endpoint),
    };
    Err(UpstreamError::garbage(words))
}

/// Returns the path and query, the only parts of a URL in a request line.
fn place(url: &Url) -> Result<Uri> {
    let text = &url[Position::BeforePath..Position::AfterQuery];
    text.parse().map_err(|_| UpstreamError::garbage("the URL is not valid in a request"))
}

/// Returns the next event with data.
async fn next_event(stream: &mut EventReader) -> Result<Option<Event>> {
    loop {
        match stream.next().await? {
            Some(event) if event.data.is_empty() => {}
            event => return Ok(event),
        }
    }
}

/// Passes messages to the exchange until the stream ends.
async fn read(mut stream: EventReader, exchange: Arc<Exchange>) {
    let words = loop {
        match next_event(&mut stream).await {
            // Other event types are not part of this protocol.
            Ok(Some(event)) if event.event.is_none() => exchange.message(event.data).await,
            Ok(Some(_)) => {}
            Ok(None) => break "the server closed its event stream".to_owned(),
            Err(failure) => {
                // The rest of such an event cannot be distinguished from later events, so the
                // stream ends.
                if matches!(failure.kind, UpstreamErrorKind::TooLarge | UpstreamErrorKind::NoMemory)
                {
                    exchange.fail_only(failure.clone());
                    break failure.words.into_owned();
                }
                break format!("reading the event stream failed: {}", failure.words);
            }
        }
    };
    exchange.end(&words);
}

#[cfg(test)]
mod tests;

/// Number of requests posted concurrently: as many as a server may have calls.
const MAX_CONCURRENT_POSTS: usize = 1024;
/// Time for a server to accept a request; some answer the POST only when the call has ended.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);
/// Time for a server to accept a notification or a response, which later messages wait for.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum bytes read from the body of an acceptance, which is discarded.
const MAX_ACCEPTANCE: usize = 64 << 10;

struct Posts {
    queue: Mutex<MessageQueue>,
    budget: Arc<Budget>,
    more: Notify,
}

impl Posts {
    fn new(capacity: usize, budget: Arc<Budget>) -> Self {
        let queue = MessageQueue::new(capacity, "the server accepts messages too slowly");
        Self { queue: Mutex::new(queue), budget, more: Notify::new() }
    }

    /// Waits for the next message; `None` once the queue is closed and empty.
    async fn next(&self) -> Option<QueuedMessage> {
        loop {
            {
                let mut queue = self.queue.lock();
                let next = queue.pop();
                if next.is_some() || queue.is_closed {
                    return next;
                }
            }
            self.more.notified().await;
        }
    }
}

impl Outgoing for Posts {
    fn send(&self, mut message: QueuedMessage) -> Result<()> {
        message.text = count_outgoing(message.text, &self.budget)?;
        self.queue.lock().push(message)?;
        self.more.notify_one();
        Ok(())
    }

    fn withdraw(&self, id: u64) -> bool {
        self.queue.lock().withdraw(id, 0)
    }

    fn close(&self) {
        self.queue.lock().is_closed = true;
        self.more.notify_one();
    }

    fn is_open(&self) -> bool {
        !self.queue.lock().is_closed
    }

    fn end(&self) -> Vec<u64> {
        self.queue.lock().end(0)
    }
}

/// Posts the queued messages until the connection is closed, then ends it. The server notices by
/// the end of its stream.
async fn run(
    posts: Arc<Posts>,
    origin: Origin,
    uri: Uri,
    headers: HeaderMap,
    identification: Option<Identification>,
    exchange: Arc<Exchange>,
) {
    let mut running = JoinSet::new();
    while let Some(QueuedMessage { id, text, assertion }) = posts.next().await {
        while running.try_join_next().is_some() {}
        let mut message = make_request(Method::POST, uri.clone(), &headers, text);
        if let Some(identification) = &identification {
            identification.add(message.headers_mut(), assertion.as_deref());
        }
        let Some(id) = id else {
            if let Err(failure) = deliver(NOTIFICATION_TIMEOUT, &origin, message).await {
                tracing::debug!(%failure, "a notification or response was not delivered");
            }
            continue;
        };
        if running.len() >= MAX_CONCURRENT_POSTS {
            running.join_next().await;
        }
        let origin = origin.clone();
        let exchange = exchange.clone();
        running.spawn(async move {
            if let Err(failure) = deliver(REQUEST_TIMEOUT, &origin, message).await {
                exchange.fail(id, failure);
            }
        });
    }
    let finish = async { while running.join_next().await.is_some() {} };
    let _ = timeout(NOTIFICATION_TIMEOUT, finish).await;
    exchange.end("the gateway closed the connection");
}

/// Posts a message; any 2xx status means accepted.
async fn deliver(wait: Duration, origin: &Origin, message: Request<Payload>) -> Result<()> {
    let delivery = async {
        let response = origin.send(message).await?;
        let status = response.status();
        // Read to its end, so that the connection can be reused.
        let read = response.into_body().collect_limited(MAX_ACCEPTANCE).await;
        if !status.is_success() {
            return Err(read_status(status));
        }
        if let Err(error) = read {
            tracing::debug!(%error, "reading the body of a 2xx response failed");
        }
        Ok(())
    };
    let words = "the server did not accept the message in time";
    timeout(wait, delivery).await.map_err(|_| UpstreamError::timeout(words))?
}

fn make_request(method: Method, uri: Uri, headers: &HeaderMap, text: Bytes) -> Request<Payload> {
    let mut request = Request::new(text.into());
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    request.headers_mut().clone_from(headers);
    request
}

/// Returns the error for a status other than 2xx. A refused message was not processed; any other
/// may have been.
fn read_status(status: StatusCode) -> UpstreamError {
    let words = format!("{HTTP_STATUS} {}", status.as_u16());
    match status.as_u16() {
        401 | 403 | 407 => UpstreamErrorKind::NeedsAuth.error(words),
        404 | 410 => {
            UpstreamErrorKind::SessionLost.error(format!("{words}: unknown session or path"))
        }
        300..=399 => {
            UpstreamErrorKind::Garbage.error(format!("{words}, a redirect, which is not followed"))
        }
        429 | 503 => UpstreamErrorKind::Unavailable
            .error(words)
            .after_send()
            .retry_after(Duration::from_secs(1)),
        _ => UpstreamError::garbage(words),
    }
}
