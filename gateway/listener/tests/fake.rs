//! Test support: a `Handler` made of a closure, a server around it on a free port, and a client
//! that sends raw bytes.

#![allow(clippy::unwrap_used)]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{Response, StatusCode};
use lockgate_admission::budget::Budget;
use lockgate_authn::{Credentials, Identity, Principal};
use lockgate_proxy::quota::Streams;
use lockgate_proxy::transport::{Endpoint, Exchange, ExchangeKind, Reply};
use lockgate_proxy::{Exhausted, OpenStream};
use lockgate_telemetry::Rejection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client_address::TrustedProxies;
use crate::config::{Config, HttpSettings};
use crate::{Drain, Server};

type Answer = dyn Fn(Exchange) -> BoxFuture<'static, Reply> + Send + Sync;

/// Limit on event streams of all callers together.
const MAX_STREAMS: usize = 3;

pub struct Fake {
    answer: Box<Answer>,
    budget: Arc<Budget>,
    /// Cloned once per open stream.
    pub(crate) streams: Arc<Streams>,
    pub(crate) record_rejection: Mutex<Vec<Rejection>>,
}

impl Fake {
    /// Identifies each caller by its bearer token, and rejects the token `stranger`.
    pub(crate) async fn identify(
        &self,
        _: &Endpoint,
        credentials: &Credentials,
    ) -> Result<Principal, Reply> {
        match credentials.bearer.as_deref() {
            Some("stranger") => Err(empty(StatusCode::UNAUTHORIZED)),
            bearer => Ok(Principal::new(Identity::new("fake", bearer.unwrap_or("nobody")))),
        }
    }

    pub(crate) fn stream(&self, _: &Principal) -> Result<OpenStream, Exhausted> {
        if Arc::strong_count(&self.streams) <= MAX_STREAMS {
            Ok(self.streams.of_call())
        } else {
            Err(Exhausted::Principal)
        }
    }

    pub(crate) fn metadata(&self, path: &str) -> Option<String> {
        (path.ends_with("/mcp") || path == lockgate_authn::KEY_SET)
            .then(|| format!("{{\"resource\":\"{path}\"}}"))
    }

    pub(crate) fn record_rejection(&self, why: Rejection, _: &str) {
        self.record_rejection.lock().unwrap().push(why);
    }

    pub(crate) async fn describe_rejection(
        &self,
        _: &Parts,
        answer: Response<Bytes>,
    ) -> Response<Bytes> {
        answer
    }

    pub(crate) fn record_response(&self, _: StatusCode) {}

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(crate) fn handle(&self, exchange: &Exchange) -> BoxFuture<'static, Reply> {
        (self.answer)(exchange.clone())
    }
}

pub(crate) fn fake<F, A>(answer: F) -> Arc<Fake>
where
    F: Fn(Exchange) -> A + Send + Sync + 'static,
    A: Future<Output = Reply> + Send + 'static,
{
    fake_within(100_000, answer)
}

pub(crate) fn fake_within<F, A>(bytes: usize, answer: F) -> Arc<Fake>
where
    F: Fn(Exchange) -> A + Send + Sync + 'static,
    A: Future<Output = Reply> + Send + 'static,
{
    Arc::new(Fake {
        answer: Box::new(move |exchange| answer(exchange).boxed()),
        budget: Arc::new(Budget::new(bytes)),
        streams: Arc::default(),
        record_rejection: Mutex::default(),
    })
}

/// Echoes every message, and answers GET and DELETE.
pub(crate) fn echo() -> Arc<Fake> {
    fake(|exchange| async {
        match exchange.kind {
            ExchangeKind::Post(body) => message(body),
            ExchangeKind::Get | ExchangeKind::Listen => message("got"),
            ExchangeKind::Delete => empty(StatusCode::NO_CONTENT),
        }
    })
}

pub(crate) fn message(body: impl Into<Bytes>) -> Reply {
    Reply::message(body.into())
}

pub(crate) fn empty(status: StatusCode) -> Reply {
    Reply::empty(status)
}

pub(crate) fn config() -> Config {
    Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        audience: crate::config::Audience::Clients,
        trusted_proxies: TrustedProxies::default(),
        drains_when_idle: true,
        http: HttpSettings {
            origins: vec!["https://app.example".into()],
            sse: true,
            drain: Duration::ZERO,
            body_bytes: 1000,
            header_bytes: 2000,
            read_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(10),
            body_rate: 100,
            slow_bodies_per_connection: 2,
            slow_bodies_per_principal: 3,
            unfinished_bytes_per_connection: 5000,
            unfinished_bytes_per_principal: 10_000,
            connections: 100,
            connections_per_address: Some(100),
            ..HttpSettings::default()
        },
    }
}

pub(crate) struct Running {
    pub address: SocketAddr,
    pub drain: Drain,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<std::io::Result<usize>>,
}

pub(crate) async fn start(config: Config, handler: Arc<Fake>, grace: Duration) -> Running {
    let server = Server::bind(config).unwrap();
    let address = server.address();
    let drain = server.drain();
    let (stop, stopped) = oneshot::channel::<()>();
    let other = crate::fallback(tower::service_fn(
        |request: http::Request<crate::IncomingBody>| async move {
            let path = request.uri().path().to_owned();
            Ok::<_, Infallible>(Response::new(http_body_util::Full::new(Bytes::from(format!(
                "other {path}"
            )))))
        },
    ));
    let shutdown = async { drop(stopped.await) };
    let ended = tokio::spawn(server.run(handler, other, shutdown, grace));
    Running { address, drain, stop, ended }
}

impl Running {
    pub(crate) async fn stop(self) -> usize {
        drop(self.stop);
        self.ended.await.unwrap().unwrap()
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes on a new connection and reads until the server closes it.
    pub(crate) async fn send(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_ref()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// Formats a POST that closes the connection. `head` holds further header lines, with line ends.
pub(crate) fn post(path: &str, head: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: \
            application/json\r\ncontent-length: {length}\r\n{head}\r\n{body}"
    )
}

/// Formats a request without a body that closes the connection.
pub(crate) fn plain(method: &str, path: &str, head: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{head}\r\n")
}

/// Reads until `end` is received; panics after a timeout.
pub(crate) async fn read_to(stream: &mut (impl AsyncReadExt + Unpin), end: &str) -> String {
    let mut all = Vec::new();
    let read = async {
        while !String::from_utf8_lossy(&all).contains(end) {
            if stream.read_buf(&mut all).await.unwrap() == 0 {
                break;
            }
        }
    };
    let timely = tokio::time::timeout(Duration::from_secs(20), read).await.is_ok();
    let text = String::from_utf8_lossy(&all).into_owned();
    assert!(timely && text.contains(end), "no {end:?} in {text:?}");
    text
}
