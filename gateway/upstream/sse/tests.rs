//! Tests of `sse`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use lockgate_egress::{Config, Connector, Origin, Policy};
use lockgate_protocol::jsonrpc::{Request, Response};
use lockgate_protocol::write;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use url::Url;

use super::connect;
use crate::BoxFuture;
use crate::call::{ClientChannel, Identification, IdentityAssertion, OwnIdentity};
use crate::duplex::{Bounds, Duplex, Role};
use crate::failure::{UpstreamError, UpstreamErrorKind};
use crate::http::Remote;
use crate::incoming::{Inbox, Intake};

const EVENT_TIMEOUT: Duration = Duration::from_secs(5);
const BOUNDS: Bounds = Bounds { message_bytes: 2000, depth: 16, outgoing: 4 };

struct Recorder(mpsc::UnboundedSender<String>);

impl Inbox for Recorder {
    fn notification(&self, note: Request, _running: Option<Arc<dyn ClientChannel>>) {
        self.0.send(format!("note {}", note.method_name())).ok();
    }

    fn question(
        &self,
        question: Request,
        _running: Option<Arc<dyn ClientChannel>>,
    ) -> BoxFuture<'static, Bytes> {
        Box::pin(async move { write::result(question.id(), b"{}").into() })
    }

    fn closed(&self, words: String) {
        self.0.send(format!("closed {words}")).ok();
    }
}

/// A request received by the server, and the stream for its response.
struct Arrived {
    line: String,
    headers: String,
    body: String,
    reply: OwnedWriteHalf,
}

impl Arrived {
    async fn reply(&mut self, text: &str) {
        self.reply.write_all(text.as_bytes()).await.unwrap();
    }

    async fn accept(mut self) {
        self.reply(
            "HTTP/1.1 202 Accepted\r\ncontent-length: 8\r\nconnection: close\r\n\r\nAccepted",
        )
        .await;
    }
}

/// A server with responses written by the test.
struct Server {
    url: Url,
    arrived: mpsc::UnboundedReceiver<Arrived>,
    identification: Option<Identification>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url =
            format!("http://{}/base/sse?key=1", listener.local_addr().unwrap()).parse().unwrap();
        let (sender, arrived) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, sender.clone()));
            }
        });
        Self { url, arrived, identification: None }
    }

    async fn next(&mut self) -> Arrived {
        timeout(EVENT_TIMEOUT, self.arrived.recv()).await.expect("no request arrived").unwrap()
    }

    fn connect(
        &self,
    ) -> (JoinHandle<Result<Arc<Duplex>, UpstreamError>>, mpsc::UnboundedReceiver<String>) {
        let config = Config {
            connect_timeout: EVENT_TIMEOUT,
            idle_connections: 4,
            idle_timeout: Duration::from_secs(60),
            ..Config::default()
        };
        let connector = Arc::new(Connector::new(&config).unwrap());
        let origin = Origin::new(connector, &self.url, Policy::Operator).unwrap();
        let (url, (log, seen)) = (self.url.clone(), mpsc::unbounded_channel());
        let headers = HeaderMap::from_iter([(
            http::header::AUTHORIZATION,
            HeaderValue::from_static("Bearer x"),
        )]);
        let identification = self.identification.clone();
        let remote = Remote { url, origin, headers };
        let connecting = tokio::spawn(async move {
            let recorder = Arc::new(Recorder(log));
            connect(&remote, BOUNDS, recorder, Intake::for_tests(), identification).await
        });
        (connecting, seen)
    }

    /// Returns the error of connecting when the server responds to the GET with `text`.
    async fn refuses(&mut self, text: &str) -> UpstreamError {
        let (connecting, _seen) = self.connect();
        let mut get = self.next().await;
        get.reply(text).await;
        drop(get);
        timeout(EVENT_TIMEOUT, connecting).await.unwrap().unwrap().err().expect("it connected")
    }

    /// Opens a connection and returns it with its stream.
    async fn open(&mut self) -> (Arc<Duplex>, Arrived, mpsc::UnboundedReceiver<String>) {
        let (connecting, seen) = self.connect();
        let mut get = self.next().await;
        get.reply(&format!("{STREAM}: hello\n\nevent: endpoint\ndata: messages?session=7\n\n"))
            .await;
        (timeout(EVENT_TIMEOUT, connecting).await.unwrap().unwrap().unwrap(), get, seen)
    }
}

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\n\r\n";

async fn serve(socket: TcpStream, sender: mpsc::UnboundedSender<Arrived>) {
    let (reader, writer) = socket.into_split();
    let mut reader = BufReader::new(reader);
    let (mut line, mut headers) = (String::new(), String::new());
    if reader.read_line(&mut line).await.unwrap_or(0) == 0 {
        return;
    }
    loop {
        let from = headers.len();
        if reader.read_line(&mut headers).await.unwrap_or(0) == 0
            || headers[from..].trim().is_empty()
        {
            break;
        }
    }
    headers.make_ascii_lowercase();
    let length = headers.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    reader.read_exact(&mut body).await.unwrap();
    let body = String::from_utf8(body).unwrap();
    sender.send(Arrived { line: line.trim_end().to_owned(), headers, body, reply: writer }).ok();
    // Keeps the reading half open until the client is done.
    let _ = reader.read(&mut [0; 1]).await;
}

fn request(id: u64) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{}}}}"#).into()
}

fn ask(duplex: &Arc<Duplex>, id: u64) -> JoinHandle<Result<Response, UpstreamError>> {
    let duplex = duplex.clone();
    tokio::spawn(async move { duplex.request(id, request(id), Role::Call(None), None, true).await })
}

async fn result(
    call: JoinHandle<Result<Response, UpstreamError>>,
) -> Result<Response, UpstreamError> {
    timeout(EVENT_TIMEOUT, call).await.expect("no answer").unwrap()
}

#[tokio::test]
async fn messages_are_posted_to_the_endpoint_and_answers_come_on_the_stream() {
    let mut server = Server::start().await;
    let (duplex, mut stream, mut seen) = server.open().await;
    assert_eq!(stream.line, "GET /base/sse?key=1 HTTP/1.1");
    assert!(
        stream.headers.contains("accept: text/event-stream")
            && stream.headers.contains("authorization: bearer x")
    );

    let (one, two) = (ask(&duplex, 1), ask(&duplex, 2));
    for _ in 0..2 {
        let post = server.next().await;
        assert_eq!(post.line, "POST /base/messages?session=7 HTTP/1.1");
        assert!(post.headers.contains("content-type: application/json"));
        assert!(post.headers.contains("authorization: bearer x"));
        assert!(post.body.contains("tools/call"));
        post.accept().await;
    }
    stream
        .reply("event: ping\ndata: 1\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":2,\"result\":{}}\n\n")
        .await;
    assert_eq!(result(two).await.unwrap().number(), Some(2));
    stream.reply("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n").await;
    assert_eq!(result(one).await.unwrap().number(), Some(1));

    stream
        .reply("data: nonsense\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}\n\n")
        .await;
    let post = server.next().await;
    assert_eq!(post.body, r#"{"jsonrpc":"2.0","id":"p","result":{}}"#);
    post.accept().await;
    stream.reply("data: {\"jsonrpc\":\"2.0\",\"method\":\"some/note\"}\n\n").await;
    assert_eq!(timeout(EVENT_TIMEOUT, seen.recv()).await.unwrap().unwrap(), "note some/note");
}

/// An assertion with a fixed name.
struct Says(&'static str);

impl IdentityAssertion for Says {
    fn sign_for(&self, audience: &Arc<str>) -> Option<HeaderValue> {
        HeaderValue::from_str(&format!("{} for {audience}", self.0)).ok()
    }
}

#[tokio::test]
async fn each_post_says_for_whom_it_is_and_the_stream_whose_it_is() {
    let mut server = Server::start().await;
    let identity = OwnIdentity { audience: "crm".into(), owner: Arc::new(Says("gate")) };
    server.identification = Some(Identification { identity: Some(identity), authorization: None });
    let (duplex, stream, _seen) = server.open().await;
    assert!(stream.headers.contains("lockgate-identity: gate for crm"), "{}", stream.headers);
    for (id, name) in [(1, "alice"), (2, "bob")] {
        let asking = duplex.clone();
        let assertion: Arc<dyn IdentityAssertion> = Arc::new(Says(name));
        let call = tokio::spawn(async move {
            asking.request(id, request(id), Role::Call(None), Some(assertion), true).await
        });
        let post = server.next().await;
        let told = format!("lockgate-identity: {name} for crm\r\n");
        assert!(post.headers.contains(&told), "{}", post.headers);
        assert_eq!(post.headers.matches("lockgate-identity").count(), 1);
        post.accept().await;
        // A cancellation carries the identity of the call.
        call.abort();
        let cancelled = server.next().await;
        assert!(cancelled.body.contains("notifications/cancelled"), "{}", cancelled.body);
        assert!(cancelled.headers.contains(&told), "{}", cancelled.headers);
        cancelled.accept().await;
    }
    duplex.notify(Bytes::from_static(b"{}"), None).unwrap();
    let note = server.next().await;
    assert!(note.headers.contains("lockgate-identity: gate for crm\r\n"), "{}", note.headers);
}

#[tokio::test]
async fn a_lost_stream_fails_what_waits() {
    let mut server = Server::start().await;
    let (duplex, stream, mut seen) = server.open().await;
    let call = ask(&duplex, 1);
    server.next().await.accept().await;
    drop(stream);
    let failure = result(call).await.unwrap_err();
    assert_eq!((failure.kind, failure.sent), (UpstreamErrorKind::Lost, true));
    assert_eq!(
        timeout(EVENT_TIMEOUT, seen.recv()).await.unwrap().unwrap(),
        "closed the server closed its event stream"
    );
    assert!(!duplex.exchange.is_open());
}

#[tokio::test]
async fn a_refused_post_fails_its_call_alone() {
    let mut server = Server::start().await;
    let (duplex, mut stream, _seen) = server.open().await;
    let other = ask(&duplex, 1);
    server.next().await.accept().await;
    for (status, kind, sent) in [
        ("401 Unauthorized", UpstreamErrorKind::NeedsAuth, false),
        ("404 Not Found", UpstreamErrorKind::SessionLost, false),
        ("500 Oops", UpstreamErrorKind::Garbage, true),
    ] {
        let call = ask(&duplex, 2);
        let mut post = server.next().await;
        post.reply(&format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"))
            .await;
        let failure = result(call).await.unwrap_err();
        assert_eq!((failure.kind, failure.sent), (kind, sent), "{status}");
    }
    stream.reply("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n").await;
    assert!(result(other).await.is_ok());
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_by_a_post() {
    let mut server = Server::start().await;
    let (duplex, _stream, _seen) = server.open().await;
    let call = ask(&duplex, 5);
    server.next().await.accept().await;
    call.abort();
    let post = server.next().await;
    assert!(
        post.body.contains(r#""method":"notifications/cancelled","params":{"requestId":5"#),
        "{}",
        post.body
    );
}

/// Some servers answer a POST only when its call has ended.
#[tokio::test]
async fn posts_that_stay_open_delay_neither_calls_nor_cancellations() {
    let mut server = Server::start().await;
    let (duplex, _get, _seen) = server.open().await;
    let mut open = Vec::new();
    for id in 0..128 {
        let call = ask(&duplex, id);
        open.push((call, server.next().await));
    }
    open[0].0.abort();
    assert!(server.next().await.body.contains("notifications/cancelled"));
}

#[tokio::test]
async fn an_event_that_is_too_large_ends_the_stream_and_tells_the_only_caller() {
    let mut server = Server::start().await;
    let (duplex, mut stream, mut seen) = server.open().await;
    let call = ask(&duplex, 1);
    server.next().await.accept().await;
    stream.reply(&format!("data: {}", "x".repeat(3000))).await;
    assert_eq!(result(call).await.unwrap_err().kind, UpstreamErrorKind::TooLarge);
    assert_eq!(
        timeout(EVENT_TIMEOUT, seen.recv()).await.unwrap().unwrap(),
        "closed the server sent an event larger than limits.event_bytes"
    );
}

#[tokio::test]
async fn closing_posts_what_waits_and_ends_the_stream() {
    let mut server = Server::start().await;
    let (duplex, stream, mut seen) = server.open().await;
    duplex.notify(Bytes::from_static(b"{\"last\":1}"), None).unwrap();
    duplex.close();
    let post = server.next().await;
    assert_eq!(post.body, "{\"last\":1}");
    post.accept().await;
    assert_eq!(
        timeout(EVENT_TIMEOUT, seen.recv()).await.unwrap().unwrap(),
        "closed the gateway closed the connection"
    );
    drop(stream);
}

#[tokio::test]
async fn an_endpoint_elsewhere_is_refused() {
    let mut server = Server::start().await;
    let port = server.url.port().unwrap();
    for (place, allowed) in [
        ("http://127.0.0.1:1/messages".to_owned(), false),
        (format!("https://127.0.0.1:{port}/messages"), false),
        (format!("http://localhost:{port}/messages"), false),
        ("//evil.example/messages".to_owned(), false),
        ("file:///etc/passwd".to_owned(), false),
        (format!("http://user@127.0.0.1:{port}/messages"), false),
        (" ".to_owned(), false),
        (format!("http://127.0.0.1:{port}/messages"), true),
        ("/messages#fragment".to_owned(), true),
    ] {
        let (connecting, _seen) = server.connect();
        let mut get = server.next().await;
        get.reply(&format!("{STREAM}event: endpoint\ndata: {place}\n\n")).await;
        let connected = timeout(EVENT_TIMEOUT, connecting).await.unwrap().unwrap();
        assert_eq!(connected.is_ok(), allowed, "{place}");
    }
}

#[tokio::test]
async fn what_is_not_such_a_server_is_told_apart() {
    let mut server = Server::start().await;
    let short = "content-length: 0\r\nconnection: close\r\n\r\n";
    for (reply, kind) in [
        (format!("HTTP/1.1 401 Unauthorized\r\n{short}"), UpstreamErrorKind::NeedsAuth),
        (format!("HTTP/1.1 404 Not Found\r\n{short}"), UpstreamErrorKind::SessionLost),
        (format!("HTTP/1.1 405 Method Not Allowed\r\n{short}"), UpstreamErrorKind::Garbage),
        (
            format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\n{short}"),
            UpstreamErrorKind::Garbage,
        ),
        (
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n{short}"),
            UpstreamErrorKind::Garbage,
        ),
        (STREAM.to_owned(), UpstreamErrorKind::Lost),
        (format!("{STREAM}data: {{}}\n\n"), UpstreamErrorKind::Garbage),
        (
            format!("{STREAM}event: endpoint\ndata: {}\n\n", "x".repeat(5000)),
            UpstreamErrorKind::Lost,
        ),
    ] {
        let failure = server.refuses(&reply).await;
        assert_eq!(failure.kind, kind, "{reply}: {failure}");
    }
}
