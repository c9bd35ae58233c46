//! The MCP server that the benchmark calls, in both eras. The call path is a single scan of the raw
//! bytes. It validates headers and sessions like a real server and supports only a few methods.

mod replies;

use std::collections::HashSet;
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;

use crate::body::{Pieces, whole};
use crate::scan::{Envelope, envelope};
use crate::wire::{LEGACY, METHOD, MODERN, NAME, REVISION, SESSION};
use replies::{LEGACY_REVISIONS, Lists};

/// Limit on open sessions.
const MAX_SESSIONS: usize = 200_000;

#[derive(clap::Args)]
pub struct Options {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// How many tools to list; the first is `echo`
    #[arg(long, default_value_t = 1)]
    tools: usize,
    /// Which eras to speak
    #[arg(long, default_value = "both")]
    era: Eras,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
pub enum Eras {
    Both,
    Modern,
    Legacy,
}

/// Listens, prints the address to standard output, and serves until the process ends.
pub async fn serve(options: Options) -> anyhow::Result<()> {
    if !options.listen.ip().is_loopback() {
        bail!("the echo server listens on loopback only");
    }
    let listener = TcpListener::bind(options.listen).await.context("listen")?;
    let address = listener.local_addr().context("read the address")?;
    {
        use std::io::Write;
        let mut out = std::io::stdout().lock();
        writeln!(out, "listening http://{address}/mcp")
            .and_then(|()| out.flush())
            .context("say where")?;
    }
    accept(listener, Arc::new(Echo::new(options.tools, options.era))).await
}

async fn accept(listener: TcpListener, echo: Arc<Echo>) -> anyhow::Result<()> {
    loop {
        let (stream, _) = listener.accept().await.context("accept a connection")?;
        stream.set_nodelay(true).context("set no delay")?;
        let echo = Arc::clone(&echo);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let echo = &echo;
                async move { Ok::<_, Infallible>(echo.answer(request).await) }
            });
            // A disconnect is not an error here: the load generator counts missing responses.
            drop(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            );
        });
    }
}

struct Echo {
    eras: Eras,
    lists: Lists,
    seed: RandomState,
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    minted: u64,
    open: HashSet<u64>,
}

impl Echo {
    fn new(tools: usize, eras: Eras) -> Self {
        Self {
            eras,
            lists: Lists::new(tools),
            seed: RandomState::new(),
            sessions: Mutex::default(),
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Reply> {
        let (head, body) = request.into_parts();
        if head.uri.path() != "/mcp" {
            return empty(StatusCode::NOT_FOUND);
        }
        if head.headers.contains_key(ORIGIN) {
            return empty(StatusCode::FORBIDDEN);
        }
        match head.method {
            Method::POST => {}
            Method::DELETE => return self.end(&head.headers),
            _ => return empty(StatusCode::METHOD_NOT_ALLOWED),
        }
        let Ok(bytes) = whole(body).await else {
            return empty(StatusCode::PAYLOAD_TOO_LARGE);
        };
        let Some(found) = envelope(&bytes) else {
            return json(StatusCode::BAD_REQUEST, replies::unreadable());
        };
        let revision = head.headers.get(REVISION).map(HeaderValue::as_bytes);
        let modern = found.params.revision.is_some() || revision == Some(MODERN.as_bytes());
        if modern && self.eras != Eras::Legacy {
            self.modern(&head.headers, &found, &bytes)
        } else {
            self.legacy(&head.headers, &found, &bytes)
        }
    }

    fn modern(&self, headers: &HeaderMap, found: &Envelope<'_>, bytes: &Bytes) -> Response<Reply> {
        let Some(id) = found.id else {
            return empty(StatusCode::ACCEPTED);
        };
        let refuse = |code, words| json(StatusCode::BAD_REQUEST, replies::error(id, code, words));
        let header = |name: &HeaderName| headers.get(name).map(HeaderValue::as_bytes);
        if found.params.revision.is_none() || !found.params.capabilities {
            return refuse(-32602, "incomplete _meta");
        }
        let named = found.method != b"tools/call" || header(&NAME) == found.params.name;
        if header(&REVISION) != found.params.revision
            || header(&METHOD) != Some(found.method)
            || !named
        {
            return refuse(-32020, "headers and body differ");
        }
        if found.params.revision != Some(MODERN.as_bytes()) {
            return json(StatusCode::BAD_REQUEST, replies::unsupported(id, found.params.revision));
        }
        match found.method {
            b"tools/call" => call(id, found, bytes, replies::MODERN_END),
            b"tools/list" => json(StatusCode::OK, self.lists.modern(id)),
            b"server/discover" => json(StatusCode::OK, replies::discover(id)),
            b"subscriptions/listen" => listen(id),
            _ => json(StatusCode::NOT_FOUND, replies::error(id, -32601, "method not found")),
        }
    }

    fn legacy(&self, headers: &HeaderMap, found: &Envelope<'_>, bytes: &Bytes) -> Response<Reply> {
        if self.eras == Eras::Modern {
            return json(
                StatusCode::BAD_REQUEST,
                replies::unsupported(found.id.unwrap_or(b"0"), None),
            );
        }
        if let (b"initialize", Some(id)) = (found.method, found.id) {
            return self.open(id, found.params.asked);
        }
        if let Err(status) = self.session(headers) {
            return empty(status);
        }
        let Some(id) = found.id else {
            return empty(StatusCode::ACCEPTED);
        };
        match found.method {
            b"tools/call" => call(id, found, bytes, replies::LEGACY_END),
            b"tools/list" => json(StatusCode::OK, self.lists.legacy(id)),
            b"ping" => json(StatusCode::OK, replies::nothing(id)),
            _ => json(StatusCode::OK, replies::error(id, -32601, "method not found")),
        }
    }

    fn open(&self, id: &[u8], asked: Option<&[u8]>) -> Response<Reply> {
        let agreed = LEGACY_REVISIONS
            .iter()
            .find(|known| Some(known.as_bytes()) == asked)
            .unwrap_or(&LEGACY);
        let mut sessions = self.sessions.lock();
        if sessions.open.len() >= MAX_SESSIONS {
            return empty(StatusCode::SERVICE_UNAVAILABLE);
        }
        sessions.minted += 1;
        // A keyed hash of a counter is unguessable, and cheap to look up.
        let session = self.seed.hash_one(sessions.minted);
        sessions.open.insert(session);
        drop(sessions);
        let mut response = json(StatusCode::OK, replies::initialized(id, agreed));
        if let Ok(value) = HeaderValue::from_str(&format!("{session:016x}")) {
            response.headers_mut().insert(SESSION, value);
        }
        response
    }

    fn session(&self, headers: &HeaderMap) -> Result<u64, StatusCode> {
        let value = headers.get(SESSION).ok_or(StatusCode::BAD_REQUEST)?;
        let read = value.to_str().ok().and_then(|text| u64::from_str_radix(text, 16).ok());
        read.filter(|session| self.sessions.lock().open.contains(session))
            .ok_or(StatusCode::NOT_FOUND)
    }

    fn end(&self, headers: &HeaderMap) -> Response<Reply> {
        match self.session(headers) {
            Ok(session) => {
                self.sessions.lock().open.remove(&session);
                empty(StatusCode::OK)
            }
            Err(StatusCode::BAD_REQUEST) => empty(StatusCode::METHOD_NOT_ALLOWED),
            Err(status) => empty(status),
        }
    }
}

/// Returns the text between two short strings as a slice of the request, without copying it.
fn call(id: &[u8], found: &Envelope<'_>, bytes: &Bytes, end: &'static str) -> Response<Reply> {
    match (found.params.name, found.params.text) {
        (Some(b"echo"), Some(text)) => {
            let pieces = [
                replies::text_before(id),
                bytes.slice_ref(text),
                Bytes::from_static(end.as_bytes()),
            ];
            respond(StatusCode::OK, JSON, Reply::Whole(Pieces::new(pieces)))
        }
        (Some(b"echo"), None) => {
            json(StatusCode::OK, replies::error(id, -32602, "text is required"))
        }
        _ => json(StatusCode::OK, replies::error(id, -32602, "unknown tool")),
    }
}

fn listen(id: &[u8]) -> Response<Reply> {
    respond(
        StatusCode::OK,
        HeaderValue::from_static("text/event-stream"),
        Reply::Held(Some(replies::acknowledged(id))),
    )
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

fn json(status: StatusCode, body: Bytes) -> Response<Reply> {
    respond(status, JSON, Reply::Whole(Pieces::one(body)))
}

fn respond(status: StatusCode, kind: HeaderValue, body: Reply) -> Response<Reply> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn empty(status: StatusCode) -> Response<Reply> {
    let mut response = Response::new(Reply::Whole(Pieces::default()));
    *response.status_mut() = status;
    response
}

/// A body sent at once, or an event and a stream that stays open until the client closes it.
enum Reply {
    Whole(Pieces),
    Held(Option<Bytes>),
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(pieces) => Pin::new(pieces).poll_frame(context),
            Self::Held(event) => match event.take() {
                Some(event) => Poll::Ready(Some(Ok(Frame::data(event)))),
                None => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(pieces) if pieces.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(pieces) => pieces.size_hint(),
            Self::Held(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests;
