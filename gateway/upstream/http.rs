//! Streamable HTTP to a server, in both eras: a POST per message, answered by JSON or by an event
//! stream. Repeats no request, follows no redirect, and resumes a broken stream only if the server
//! sent event ids.

mod post;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method as Verb, Request as HttpRequest, StatusCode, Version,
};
use lockgate_egress::{
    Body, Http1Error, Origin, Payload, PostHead, PostRequest, RequestHead, ResponseHead,
};
use lockgate_protocol::jsonrpc::{Message as Received, Response};
use lockgate_protocol::method::Method;
use lockgate_protocol::{meta, modern};
use tokio::task::JoinSet;
use url::Url;

use crate::call::{ClientChannel, IDENTITY_HEADER, Identification, IdentityAssertion};
use crate::config::Settings;
use crate::event_stream::{Event, EventReader};
use crate::failure::{Result, UpstreamError, UpstreamErrorKind};
use crate::incoming::{self, Inbox, Intake, ReadBody};
use crate::outstanding::OpenQuestions;

pub use post::HTTP_STATUS;
pub(crate) use post::{Post, Posted, status_failure};

/// Most resumptions of a call's broken stream.
const MAX_RESUMES: usize = 5;
/// Most questions answered at once during a call.
const MAX_QUESTIONS: usize = 16;

/// The URL of a server, the connections to it, and the configured headers.
pub(crate) struct Remote {
    pub(crate) url: Url,
    pub(crate) origin: Origin,
    pub(crate) headers: HeaderMap,
}

/// A server's endpoint and the headers that every request to it carries.
pub(crate) struct HttpTransport {
    origin: Origin,
    settings: Arc<Settings>,
    inbox: Arc<dyn Inbox>,
    intake: Intake,
    /// Open questions of all streams.
    questions: Arc<OpenQuestions>,
    /// Headers of every request: configured headers, `Accept`, `Content-Type`, `User-Agent`, and in
    /// the legacy era the session id and version once known.
    base: ArcSwap<Base>,
    /// Present for a server with headers that are made for each request.
    identification: Option<Identification>,
    /// Whether the last response was of HTTP/1.1.
    is_http11: AtomicBool,
}

/// The headers of every request, and the head of a POST with them.
struct Base {
    headers: HeaderMap,
    head: RequestHead,
}

/// The headers of a response that concern its body.
struct Head {
    status: StatusCode,
    version: Version,
    media: Media,
    /// `None` for status 200, unless requested.
    headers: Option<Box<HeaderMap>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Media {
    EventStream,
    Html,
    Other,
}

impl Base {
    fn new(origin: &Origin, headers: HeaderMap) -> Self {
        let head = origin.post_head(headers.clone());
        Self { headers, head }
    }
}

impl HttpTransport {
    pub(crate) fn new(
        remote: &Remote,
        settings: Arc<Settings>,
        inbox: Arc<dyn Inbox>,
        intake: Intake,
        identification: Option<Identification>,
    ) -> Self {
        let mut base = HeaderMap::new();
        base.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("lockgate/", env!("CARGO_PKG_VERSION"))),
        );
        for (name, value) in &remote.headers {
            // Set for each request; `config` refuses the other headers that the gateway sets.
            if name != meta::TRACEPARENT && name != meta::TRACESTATE {
                base.insert(name.clone(), value.clone());
            }
        }
        base.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        base.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self {
            origin: remote.origin.clone(),
            settings,
            inbox,
            intake,
            questions: Arc::default(),
            base: ArcSwap::from_pointee(Base::new(&remote.origin, base)),
            identification,
            is_http11: AtomicBool::new(false),
        }
    }

    /// Adds headers to all later requests (version, legacy session id).
    pub(crate) fn carry(&self, headers: HeaderMap) {
        let mut base = self.base.load().headers.clone();
        base.extend(headers);
        self.base.store(Arc::new(Base::new(&self.origin, base)));
    }

    /// Records a response that refuses the credential.
    pub(crate) fn note_refusal(&self, posted: &Posted) {
        if let (Some(identification), Some(headers)) = (&self.identification, &posted.headers) {
            identification.note_refusal(posted.status, headers);
        }
    }

    pub(crate) fn has_session(&self) -> bool {
        self.base.load().headers.contains_key(modern::SESSION_HEADER)
    }

    /// Returns a request without a body, on behalf of the caller, or of the connection's owner.
    fn request(
        &self,
        verb: Verb,
        assertion: Option<&dyn IdentityAssertion>,
    ) -> HttpRequest<Payload> {
        let mut request = HttpRequest::new(Payload::default());
        *request.method_mut() = verb;
        *request.uri_mut() = self.origin.uri().clone();
        let headers = request.headers_mut();
        headers.clone_from(&self.base.load().headers);
        headers.remove(CONTENT_TYPE);
        if let Some(identification) = &self.identification {
            identification.add(headers, assertion);
        }
        request
    }

    /// Prepares the POST request for a message, on behalf of the caller, or of the connection's
    /// owner.
    pub(crate) fn message(
        &self,
        text: Bytes,
        assertion: Option<&dyn IdentityAssertion>,
    ) -> PostRequest {
        self.head(0, assertion).with_body(b"", text)
    }

    /// Returns the head of such a request, with room for so many bytes of the message.
    pub(crate) fn head(&self, room: usize, assertion: Option<&dyn IdentityAssertion>) -> PostHead {
        let mut head = self.origin.begin_post(&self.base.load().head, room);
        if let Some(identification) = &self.identification {
            if let Some(value) = identification.sign(assertion) {
                head.add(IDENTITY_HEADER, value.as_bytes());
            }
            if let Some((name, value)) = identification.authorize() {
                head.add(name.as_str(), value.as_bytes());
            }
        }
        head
    }

    pub(crate) fn is_connecting(&self) -> bool {
        self.origin.is_connecting()
    }

    pub(crate) async fn post(self: &Arc<Self>, post: Post<'_>) -> Result<Posted> {
        let Post { id, message, channel, sink, assertion, keeps_headers } = post;
        let answered = self.origin.post(message, |head| read_head(head, keeps_headers));
        let (head, body) = answered.await?;
        self.inbox.heard();
        self.is_http11.store(head.version == Version::HTTP_11, Relaxed);
        let response = if head.media == Media::EventStream && head.status.is_success() {
            match id {
                Some(id) => Some(Box::pin(self.follow(body, id, channel, assertion)).await?),
                None => None,
            }
        } else {
            let sink = sink.filter(|_| head.status.is_success());
            let destination = sink.zip(id);
            let max = self.settings.load().limits.response_bytes;
            match incoming::read_body(body, max, &self.intake, &*self.inbox, destination).await? {
                ReadBody::Whole(text) => {
                    self.read_response(text, id, head.status, head.media).await?
                }
                ReadBody::Streamed => Some(Response::taken()),
            }
        };
        Ok(Posted { status: head.status, headers: head.headers, response })
    }

    /// Reads the response in a plain body: a message with the request's id, or an error without an
    /// id.
    async fn read_response(
        &self,
        text: Bytes,
        id: Option<u64>,
        status: StatusCode,
        media: Media,
    ) -> Result<Option<Response>> {
        if text.is_empty() {
            return Ok(None);
        }
        let id = id.unwrap_or(0);
        let depth = self.settings.load().limits.depth;
        match self.intake.parse(text, depth).await? {
            Ok(Received::Response(response))
                if response.number() == Some(id) || response.id().is_none() =>
            {
                Ok(Some(response))
            }
            Ok(_) if status.is_success() => {
                Err(UpstreamError::garbage("the server's response has the id of another request"))
            }
            Err(_) if status.is_success() => Err(UpstreamError::garbage(media.describe_foreign())),
            _ => Ok(None),
        }
    }

    /// Reads a stream until the response with `id`, and dispatches notifications and questions on
    /// the way.
    async fn follow(
        self: &Arc<Self>,
        body: Body,
        id: u64,
        channel: Option<&Arc<dyn ClientChannel>>,
        assertion: Option<&dyn IdentityAssertion>,
    ) -> Result<Response> {
        let mut reading = self.read_events(body);
        let mut questions = JoinSet::new();
        let mut resumes = 0;
        loop {
            match reading.next().await {
                Ok(Some(event)) => {
                    let Some(message) = self.read_event(event).await? else { continue };
                    if let Some(response) = self.take(message, Some(id), channel, &mut questions) {
                        reading.drain();
                        return Ok(response);
                    }
                }
                Err(failure)
                    if matches!(
                        failure.kind,
                        UpstreamErrorKind::TooLarge | UpstreamErrorKind::NoMemory
                    ) =>
                {
                    return Err(failure);
                }
                ended => {
                    resumes += 1;
                    let words = match ended {
                        Err(failure) => failure.words,
                        Ok(_) => "the server's stream closed without a response".into(),
                    };
                    let last = reading.last_id.clone().filter(|_| resumes <= MAX_RESUMES);
                    let Some(last) = last else { return Err(UpstreamError::lost(words)) };
                    if let Some(channel) = channel {
                        channel.waiting(reading.retry);
                    }
                    tokio::time::sleep(reading.pause()).await;
                    let Some(body) = self.open(Some(&last), assertion).await? else {
                        return Err(UpstreamError::lost(words));
                    };
                    reading.resume(body);
                }
            }
        }
    }

    fn read_events(&self, body: Body) -> EventReader {
        let max = self.settings.load().limits.event_bytes;
        EventReader::new(body, max, &self.intake.budget, &self.inbox)
    }

    /// Parses the message in an event, if any.
    async fn read_event(&self, event: Event) -> Result<Option<Received>> {
        if event.data.is_empty() {
            return Ok(None);
        }
        let depth = self.settings.load().limits.depth;
        let message = self.intake.parse(event.data, depth).await?;
        let words = "the server sent an event that is not a JSON-RPC message";
        message.map(Some).map_err(|_| UpstreamError::garbage(words))
    }

    /// Dispatches a message of a stream. Returns the message if it is the expected response.
    fn take(
        self: &Arc<Self>,
        message: Received,
        id: Option<u64>,
        channel: Option<&Arc<dyn ClientChannel>>,
        questions: &mut JoinSet<()>,
    ) -> Option<Response> {
        match message {
            // An error without an id can only concern the request that the stream belongs to.
            Received::Response(response)
                if id.is_some() && (response.number() == id || response.id().is_none()) =>
            {
                return Some(response);
            }
            Received::Response(_) => tracing::debug!("response with an unknown id dropped"),
            Received::Notification(note) => match (note.method, channel) {
                (Method::Progress, Some(channel)) => channel.progress(&note),
                (Method::Cancelled, _) if self.questions.take_back(&note) => {}
                _ => self.inbox.notification(note, channel.cloned()),
            },
            Received::Request(question) if !self.inbox.answers() => {
                tracing::debug!(method = %question.method_name(), "request of a modern server \
                    dropped");
            }
            Received::Request(question) => {
                while questions.try_join_next().is_some() {}
                if questions.len() < MAX_QUESTIONS {
                    let id = question.id_bytes();
                    let answer = self.inbox.question(question, channel.cloned());
                    let answer = self.questions.answer(id, answer);
                    let transport = Arc::clone(self);
                    questions.spawn(async move {
                        if let Some(text) = answer.await {
                            transport.deliver(transport.message(text, None)).await;
                        }
                    });
                }
            }
        }
        None
    }

    /// Opens or resumes the stream of a legacy session. Returns `None` if the server offers no
    /// stream (405 and the like).
    async fn open(
        &self,
        last_id: Option<&str>,
        assertion: Option<&dyn IdentityAssertion>,
    ) -> Result<Option<Body>> {
        let mut request = self.request(Verb::GET, assertion);
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(value) = last_id.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert(HeaderName::from_static("last-event-id"), value);
        }
        let response = self.origin.send(request).await?;
        let streams = response.status() == StatusCode::OK && is_event_stream(response.headers());
        if response.status() == StatusCode::NOT_FOUND && self.has_session() {
            let words = "the server no longer has the session";
            return Err(UpstreamErrorKind::SessionLost.error(words));
        }
        Ok(if streams { Some(response.into_body()) } else { None })
    }

    /// Follows the stream of a legacy session, reopening it when it breaks, until the session is
    /// lost or the server offers no stream. Calls `opened` each time a stream is established.
    pub(crate) async fn listen(
        self: &Arc<Self>,
        mut opened: impl FnMut(bool) + Send,
    ) -> UpstreamError {
        let mut questions = JoinSet::new();
        let mut last_id = None::<String>;
        let mut wait = Duration::from_millis(500);
        let mut first = true;
        loop {
            match self.open(last_id.as_deref(), None).await {
                Ok(Some(body)) => {
                    opened(first);
                    first = false;
                    wait = Duration::from_millis(500);
                    let mut reading = self.read_events(body);
                    while let Ok(Some(event)) = reading.next().await {
                        match self.read_event(event).await {
                            Ok(Some(note)) => drop(self.take(note, None, None, &mut questions)),
                            Ok(None) => {}
                            Err(_) => break,
                        }
                    }
                    wait = wait.max(reading.pause());
                    last_id = reading.last_id.or(last_id);
                }
                Ok(None) if first => {
                    return UpstreamErrorKind::Unavailable.error("the server offers no stream");
                }
                Err(failure) if failure.kind == UpstreamErrorKind::SessionLost => return failure,
                Ok(None) | Err(_) => wait = (wait * 2).min(Duration::from_secs(30)),
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Ends a legacy session. A server's refusal (405) is ignored.
    pub(crate) async fn delete(&self) {
        if self.has_session() {
            let request = self.request(Verb::DELETE, None);
            if let Ok(response) = self.origin.send(request).await {
                let _ = response.into_body().collect_limited(64 * 1024).await;
            }
        }
    }
}

impl Media {
    fn read(content_type: &[u8]) -> Self {
        let kind = content_type.split(|&b| b == b';').next().unwrap_or(b"").trim_ascii();
        if kind.eq_ignore_ascii_case(b"text/event-stream") {
            Self::EventStream
        } else if kind.starts_with(b"text/html") {
            Self::Html
        } else {
            Self::Other
        }
    }

    /// Returns the error message for a body that is not JSON-RPC.
    fn describe_foreign(self) -> &'static str {
        match self {
            Self::Html => "the server's response is an HTML page, not a JSON-RPC message",
            Self::EventStream | Self::Other => "the server's response is not a JSON-RPC message",
        }
    }
}

pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE).map(|value| Media::read(value.as_bytes()));
    media == Some(Media::EventStream)
}

fn read_head(head: &ResponseHead<'_, '_>, keeps_headers: bool) -> Result<Head, Http1Error> {
    Ok(Head {
        status: head.status,
        version: head.version,
        media: head.values("content-type").next().map_or(Media::Other, Media::read),
        headers: if keeps_headers || head.status != StatusCode::OK {
            Some(Box::new(head.header_map()?))
        } else {
            None
        },
    })
}

/// Parses configured headers and marks them as sensitive.
///
/// # Errors
/// The name of an invalid header, or of a header with an invalid value.
pub fn header_map(headers: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let parsed = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("{name:?} is not a header name"))?;
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| format!("the value of header {name} cannot be sent"))?;
        value.set_sensitive(true);
        map.insert(parsed, value);
    }
    Ok(map)
}
