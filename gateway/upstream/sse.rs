//! The deprecated HTTP+SSE transport (2024-11-05): an event stream carries all messages of the
//! server, and each message to it is a POST to the endpoint named by the first event. Posts to no
//! other origin, follows no redirect, repeats and resumes nothing: a lost stream is a lost
//! connection.

mod post;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Uri};
use lockgate_egress::Origin;
use lockgate_protocol::sse::Event;
use tokio::time::timeout;
use url::{Position, Url};

use crate::duplex::{Bounds, Duplex, Exchange};
use crate::failure::{UpstreamError, UpstreamErrorKind};
use crate::identity_assertion::Identification;
use crate::incoming::{EventReader, Inbox, Intake};
use post::{Posts, make_request, read_status};

/// Longest wait for the `endpoint` event on an open stream.
const ENDPOINT_WAIT: Duration = Duration::from_secs(15);
/// Longest `endpoint` event, in bytes.
const MAX_ENDPOINT: usize = 4 << 10;

/// Opens the stream at `url` (of `origin`) and waits for the endpoint to POST to. `headers` are
/// sent with every request. Only the wait for the first event has a timeout. Dropping the future
/// closes the stream.
///
/// # Errors
/// No connection, no event stream, or a first event that is not an `endpoint` of the same origin.
pub(crate) async fn connect(
    origin: &Origin,
    url: &Url,
    headers: &HeaderMap,
    bounds: Bounds,
    inbox: Arc<dyn Inbox>,
    intake: Intake,
    identification: Option<Identification>,
) -> Result<Arc<Duplex>, UpstreamError> {
    let mut get = make_request(Method::GET, place(url)?, headers, Bytes::new());
    get.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    get.headers_mut().remove(CONTENT_TYPE);
    if let Some(identification) = &identification {
        identification.add(get.headers_mut(), None);
    }
    let response = origin.send(get).await?;
    let status = response.status();
    if !status.is_success() {
        return Err(refuse(&response, identification.as_ref()));
    }
    if !is_event_stream(response.headers()) {
        return Err(UpstreamError::new(
            UpstreamErrorKind::Garbage,
            "the server's response is not an event stream",
        ));
    }
    let mut stream =
        EventReader::new(response.into_body(), bounds.message_bytes, &intake.budget, &inbox);
    let Ok(first) = timeout(ENDPOINT_WAIT, next_event(&mut stream)).await else {
        return Err(UpstreamError::new(
            UpstreamErrorKind::Timeout,
            "the server opened an event stream but sent no endpoint",
        ));
    };
    let endpoint = match first {
        Ok(Some(event)) => endpoint(url, &event)?,
        Ok(None) => {
            return Err(UpstreamError::new(
                UpstreamErrorKind::Lost,
                "the event stream closed before the endpoint was sent",
            ));
        }
        Err(ended) => return Err(UpstreamError::new(UpstreamErrorKind::Lost, ended.words)),
    };
    let mut headers = headers.clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let posts = Arc::new(Posts::new(bounds.outgoing, Arc::clone(&intake.budget)));
    let exchange = Exchange::new(posts.clone(), bounds, inbox, intake);
    exchange.spawn(post::run(
        posts,
        origin.clone(),
        endpoint,
        headers,
        identification,
        exchange.clone(),
    ));
    exchange.spawn(read(stream, exchange.clone()));
    Ok(Duplex::over(exchange))
}

/// Returns the error for a refused stream.
fn refuse<B>(
    response: &http::Response<B>,
    identification: Option<&Identification>,
) -> UpstreamError {
    if let Some(identification) = identification {
        identification.note_refusal(response.status(), response.headers());
    }
    read_status(response.status())
}

/// Parses the endpoint named by the first event.
fn endpoint(url: &Url, event: &Event) -> Result<Uri, UpstreamError> {
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
    Err(UpstreamError::new(UpstreamErrorKind::Garbage, words))
}

/// Returns the path and query, the only parts of a URL in a request line.
fn place(url: &Url) -> Result<Uri, UpstreamError> {
    let text = &url[Position::BeforePath..Position::AfterQuery];
    text.parse().map_err(|_| {
        UpstreamError::new(UpstreamErrorKind::Garbage, "the URL is not valid in a request")
    })
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else { return false };
    let Ok(kind) = value.to_str() else { return false };
    let kind = kind.split(';').next().unwrap_or("");
    kind.trim().eq_ignore_ascii_case("text/event-stream")
}

/// Returns the next event with data.
async fn next_event(stream: &mut EventReader) -> Result<Option<Event>, UpstreamError> {
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
