//! Tests of `sse`.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::StatusCode;
use lockgate_admission::budget::Budget;
use lockgate_proxy::transport::{Exchange, Text};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::*;
use crate::tests::fake::{
    Fake, Running, config, empty, fake, message, plain, post, read_to, start,
};
use http::HeaderValue;
use lockgate_authn::Principal;

const GRACE: Duration = Duration::from_secs(5);
const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
const HANG: &str = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call"}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Returns a proxy that creates session `s1`, recognises it, and reports the requests it receives.
fn proxy(seen: mpsc::UnboundedSender<String>) -> Arc<Fake> {
    fake(move |exchange: Exchange| {
        let seen = seen.clone();
        async move {
            let session =
                exchange.headers.get(SESSION).map(|value| value.to_str().unwrap().to_owned());
            let note = |what: &str| {
                seen.send(format!("{what} {}", session.as_deref().unwrap_or("-"))).unwrap()
            };
            match exchange.kind {
                ExchangeKind::Post(body) if body == INITIALIZE => {
                    note("initialize");
                    let headers = HeaderMap::from_iter([(SESSION, HeaderValue::from_static("s1"))]);
                    let body = Text::Whole(Bytes::from_static(
                        br#"{"id":1,"result":{"protocolVersion":"2024-11-05"}}"#,
                    ));
                    Reply::message(body).with_headers(headers)
                }
                ExchangeKind::Post(body) if body == LIST => {
                    note("list");
                    let event = |data: &'static str| Outgoing {
                        data: Bytes::from(data).into(),
                        ..Outgoing::default()
                    };
                    let events = futures_util::stream::iter([
                        event("{\"progress\":1}"),
                        event("{\"id\":2}"),
                    ])
                    .boxed();
                    Reply::events(events)
                }
                ExchangeKind::Post(body) if body == HANG => {
                    let _guard = Guard(seen.clone());
                    note("hang");
                    std::future::pending().await
                }
                ExchangeKind::Post(body) if body == INITIALIZED => {
                    note("initialized");
                    empty(StatusCode::ACCEPTED)
                }
                ExchangeKind::Post(_) => message(r#"{"error":"parse"}"#),
                ExchangeKind::Get => panic!("the stream is counted already"),
                ExchangeKind::Listen => {
                    note("get");
                    let event = Outgoing {
                        data: Bytes::from_static(b"{\"news\":1}").into(),
                        ..Outgoing::default()
                    };
                    let events = futures_util::stream::once(async { event })
                        .chain(futures_util::stream::pending());
                    Reply::events(events.boxed())
                }
                ExchangeKind::Delete => {
                    note("delete");
                    empty(StatusCode::NO_CONTENT)
                }
            }
        }
    })
}

struct Guard(mpsc::UnboundedSender<String>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send("dropped".into());
    }
}

async fn open_stream(running: &Running, head: &str) -> (TcpStream, String) {
    let mut stream = running.connect().await;
    stream.write_all(plain("GET", "/sse", head).as_bytes()).await.unwrap();
    let text = read_to(&mut stream, "event: endpoint\ndata: /messages?session=").await;
    let text =
        if text.ends_with("\n\n\r\n") { text } else { text + &read_to(&mut stream, "\r\n").await };
    let id = text
        .split("session=")
        .nth(1)
        .unwrap()
        .chars()
        .take_while(char::is_ascii_hexdigit)
        .collect();
    (stream, id)
}

fn accepted(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 202")
}

#[tokio::test]
async fn messages_are_answered_on_the_stream_within_one_session() {
    let (seen, mut saw) = mpsc::unbounded_channel();
    let running = start(config(), proxy(seen), GRACE).await;
    let (mut stream, id) = open_stream(&running, "").await;
    assert_eq!(id.len(), 32);
    let path = format!("/messages?session={id}");

    assert!(accepted(&running.send(post(&path, "", INITIALIZE)).await));
    let text = read_to(&mut stream, "data: {\"news\":1}\n\n").await;
    assert!(
        text.contains("data: {\"id\":1,\"result\":{\"protocolVersion\":\"2024-11-05\"}}\n\n"),
        "{text}"
    );
    assert_eq!(saw.recv().await.unwrap(), "initialize -");
    assert_eq!(saw.recv().await.unwrap(), "get s1");

    assert!(accepted(&running.send(post(&path, "mcp-session-id: forged\r\n", INITIALIZED)).await));
    assert_eq!(saw.recv().await.unwrap(), "initialized s1");
    assert!(accepted(&running.send(post(&path, "", LIST)).await));
    read_to(&mut stream, "data: {\"id\":2}\n\n").await;
    assert_eq!(saw.recv().await.unwrap(), "list s1");
    // An invalid message is answered in its own POST.
    assert!(running.send(post(&path, "", "nonsense")).await.ends_with("{\"error\":\"parse\"}"));

    assert!(accepted(&running.send(post(&path, "", HANG)).await));
    assert_eq!(saw.recv().await.unwrap(), "hang s1");
    drop(stream);
    let mut rest = [saw.recv().await.unwrap(), saw.recv().await.unwrap()];
    rest.sort();
    assert_eq!(rest, ["delete s1", "dropped"]);
    assert!(running.send(post(&path, "", LIST)).await.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn a_session_belongs_to_the_principal_that_opened_it() {
    let (seen, _saw) = mpsc::unbounded_channel();
    let running = start(config(), proxy(seen), GRACE).await;
    let (_stream, id) = open_stream(&running, "authorization: Bearer one\r\n").await;
    let path = format!("/messages?session={id}");
    for head in ["", "authorization: Bearer two\r\n", "authorization: Basic one\r\n"] {
        assert!(running.send(post(&path, head, LIST)).await.starts_with("HTTP/1.1 404"), "{head}");
    }
    assert!(accepted(&running.send(post(&path, "authorization: Bearer one\r\n", LIST)).await));
    // An unauthenticated client gets no stream, and cannot detect existing streams.
    let stranger = "authorization: Bearer stranger\r\n";
    for request in [
        plain("GET", "/sse", stranger),
        post(&path, stranger, LIST),
        post("/messages?session=x", stranger, LIST),
    ] {
        assert!(running.send(request).await.starts_with("HTTP/1.1 401"));
    }
    let (_stream, id) = open_stream(&running, "").await;
    let path = format!("/messages?session={id}");
    assert!(
        running
            .send(post(&path, "authorization: Bearer one\r\n", LIST))
            .await
            .starts_with("HTTP/1.1 404")
    );
    assert!(accepted(&running.send(post(&path, "", LIST)).await));
}

#[tokio::test]
async fn streams_are_bounded_and_end_at_shutdown() {
    let (seen, _saw) = mpsc::unbounded_channel();
    let mut config = config();
    config.http.connections = 2;
    let running = start(config, proxy(seen), GRACE).await;
    let (mut stream, _) = open_stream(&running, "").await;
    let stop = tokio::spawn(running.stop());
    read_to(&mut stream, "0\r\n\r\n").await;
    assert_eq!(stop.await.unwrap(), 0);
    let sessions = Sessions::new(1);
    let session = || {
        let principal = Principal::new(lockgate_authn::Identity::new("local", "user"));
        let peer = lockgate_authn::Peer::Stdio;
        let handler = crate::tests::fake::echo();
        let caller = SessionClient { handler, peer, principal, endpoint: Endpoint::All };
        let owner = Arc::new(Owner { caller, proxied: Mutex::default() });
        Session { owner, out: MessageQueue::new(&Arc::new(Budget::new(1000))).0 }
    };
    assert!(sessions.add(session()).is_ok());
    assert_eq!(sessions.add(session()), Err(ListenerError::Streams));
}

#[tokio::test]
async fn streams_count_among_those_of_their_caller_until_they_end() {
    let (seen, _saw) = mpsc::unbounded_channel();
    let proxy = proxy(seen);
    let running = start(config(), Arc::clone(&proxy), GRACE).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(open_stream(&running, "").await.0);
    }
    let mut refused = running.connect().await;
    refused.write_all(plain("GET", "/sse", "").as_bytes()).await.unwrap();
    let answer = read_to(&mut refused, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    held.clear();
    let over = async {
        while Arc::strong_count(&proxy.streams) > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(GRACE, over).await.unwrap();
    open_stream(&running, "").await;
}

#[test]
fn the_session_is_taken_from_the_query() {
    let table = [
        (Some("session=ab"), "ab"),
        (Some("x=1&session=ab&y"), "ab"),
        (Some("xsession=ab"), ""),
        (None, ""),
    ];
    for (query, expected) in table {
        assert_eq!(find_session_id(query), expected);
    }
}
