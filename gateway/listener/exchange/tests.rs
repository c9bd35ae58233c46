//! Tests of `exchange`.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use futures_util::StreamExt;
use lockgate_proxy::transport::{Outgoing, Text};
use lockgate_telemetry::Rejection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use http::header::AUTHORIZATION;

use super::*;
use crate::tests::fake::{
    Running, config, echo, empty, fake, fake_within, message, plain, post, read_to, start,
};

const GRACE: Duration = Duration::from_secs(5);

async fn running() -> Running {
    start(config(), echo(), GRACE).await
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

#[test]
fn paths_are_matched_by_hand() {
    let server = |slug: &str| Route::Mcp(Endpoint::Server(slug.into()));
    let table = [
        ("/mcp", Route::Mcp(Endpoint::All)),
        ("/servers/git-hub.v2_~/mcp", server("git-hub.v2_~")),
        ("/sse", Route::Sse(Endpoint::All)),
        ("/servers/a/sse", Route::Sse(Endpoint::Server("a".into()))),
        ("/agents/Ag_1/mcp", Route::Mcp(Endpoint::agent("Ag_1"))),
        ("/agents/a/sse", Route::Sse(Endpoint::agent("a"))),
        ("/messages", Route::Messages),
    ];
    for (text, expected) in table {
        assert_eq!(parse_route(text, true), expected, "{text}");
    }
    for other in [
        "/",
        "/mcp/",
        "/MCP",
        "/servers//mcp",
        "/servers/a/b/mcp",
        "/servers/a%2fb/mcp",
        "/servers/mcp",
        "/servers/sse",
        "/servers/a/messages",
        "/agents//mcp",
        "/agents/mcp",
        "/other/a/mcp",
        "",
    ] {
        assert_eq!(parse_route(other, true), Route::Fallback, "{other}");
    }
    assert_eq!(parse_route(&format!("/servers/{}/mcp", "x".repeat(129)), true), Route::Fallback);
    for off in ["/sse", "/messages", "/servers/a/sse"] {
        assert_eq!(parse_route(off, false), Route::Fallback, "{off}");
    }
}

#[tokio::test]
async fn a_message_goes_in_and_its_reply_comes_out() {
    let running = running().await;
    let answer = running.send(post("/mcp", "", r#"{"a":1}"#)).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    for line in [
        "content-type: application/json\r\n",
        "cache-control: no-store\r\n",
        "content-length: 7\r\n",
    ] {
        assert!(answer.contains(line), "{answer}");
    }
    assert!(answer.ends_with("\r\n\r\n{\"a\":1}"), "{answer}");
    let chunked = "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json; \
                   charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    assert!(running.send(chunked).await.ends_with("\r\n\r\nabcde"));
    assert_eq!(running.send(plain("DELETE", "/mcp", "")).await.split(' ').nth(1), Some("204"));
    assert!(
        running.send(plain("GET", "/mcp", "accept: text/event-stream\r\n")).await.ends_with("got")
    );
    assert!(running.send(plain("GET", "/health", "")).await.ends_with("other /health"));
}

#[tokio::test]
async fn every_rejection_has_its_status_and_an_error_without_id() {
    let running = running().await;
    let long = format!("x-long: {}\r\n", "x".repeat(2000));
    let chunks = format!("{:x}\r\n{}\r\n0\r\n\r\n", 1001, "x".repeat(1001));
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let table = [
        (421, "GET / HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n".to_owned()),
        (421, "GET /mcp HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n".to_owned()),
        (400, "POST /mcp HTTP/1.1\r\nconnection: close\r\n\r\n".to_owned()),
        (403, plain("GET", "/health", "origin: https://evil.example\r\n")),
        (403, plain("OPTIONS", "/mcp", "origin: https://evil.example\r\n")),
        (403, post("/mcp", "origin: null\r\n", "{}")),
        (405, plain("PUT", "/mcp", "")),
        (405, plain("HEAD", "/servers/x/mcp", "")),
        (405, plain("POST", "/sse", "")),
        (405, plain("GET", "/messages", "")),
        (415, "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_owned()),
        (415, plain("POST", "/mcp", "content-type: text/plain\r\ncontent-length: 0\r\n")),
        (406, post("/mcp", "accept: text/html\r\n", "{}")),
        (406, plain("GET", "/mcp", "accept: application/json\r\n")),
        (400, post("/mcp", "authorization: Bearer a\r\nauthorization: Bearer b\r\n", "{}")),
        (413, post("/mcp", "", &"x".repeat(1001))),
        // Rejected by the declared length, before any body bytes arrived.
        (413, format!("{head}connection: close\r\ncontent-length: 1001\r\n\r\n")),
        (413, format!("{head}connection: close\r\ntransfer-encoding: chunked\r\n\r\n{chunks}")),
        (431, post("/mcp", &long, "{}")),
        (404, post("/messages?session=00000000000000000000000000000000", "", "{}")),
    ];
    for (expected, request) in table {
        let answer = running.send(&request).await;
        assert_eq!(status(&answer), expected, "{request:?} -> {answer:?}");
        let ours = expected != 431 && !request.starts_with("HEAD");
        assert!(!ours || answer.contains(r#"{"jsonrpc":"2.0","error":{"code":-3"#), "{answer}");
    }
    assert_eq!(status(&running.send(post("/mcp", "", &"x".repeat(1000))).await), 200);
    let allow = running.send(plain("PUT", "/mcp", "")).await;
    assert!(allow.contains("allow: POST, GET, DELETE, OPTIONS\r\n"), "{allow}");
}

#[tokio::test]
async fn oversized_headers_are_counted() {
    let handler = echo();
    let running = start(config(), Arc::clone(&handler), GRACE).await;
    let long = format!("x-long: {}\r\n", "x".repeat(2000));
    assert_eq!(status(&running.send(post("/mcp", &long, "{}")).await), 431);
    // The client has read the response before the connection's task ends.
    running.stop().await;
    assert_eq!(*handler.record_rejection.lock().unwrap(), [Rejection::HeadersTooLarge]);
}

#[tokio::test]
async fn pages_of_allowed_origins_get_cors_headers() {
    let running = running().await;
    let origin = "origin: https://app.example\r\n";
    let answer = running.send(post("/mcp", origin, "{}")).await;
    assert!(answer.contains("access-control-allow-origin: https://app.example\r\n"), "{answer}");
    assert!(
        answer.contains("access-control-expose-headers: Mcp-Session-Id, WWW-Authenticate\r\n"),
        "{answer}"
    );
    let ask =
        format!("{origin}access-control-request-headers: mcp-method, x-evil, authorization\r\n");
    let answer = running.send(plain("OPTIONS", "/servers/x/mcp", &ask)).await;
    assert_eq!(status(&answer), 204);
    assert!(
        answer.contains("access-control-allow-headers: mcp-method, authorization\r\n"),
        "{answer}"
    );
    // A page can read the reason for its rejection.
    let answer = running.send(post("/mcp", &format!("{origin}accept: text/html\r\n"), "{}")).await;
    assert!(status(&answer) == 406 && answer.contains("access-control-allow-origin"), "{answer}");
    let answer = running.send(post("/mcp", "", "{}")).await;
    assert!(!answer.contains("access-control"), "{answer}");
}

#[tokio::test]
async fn the_proxy_sees_endpoint_peer_and_principal_but_no_authorization_header() {
    let seen = fake(|exchange| async move {
        let Exchange { endpoint, peer, principal, headers, .. } = exchange;
        assert!(!headers.contains_key(AUTHORIZATION));
        let method = headers.get("mcp-method").cloned();
        message(format!("{endpoint:?} {peer:?} {} {method:?}", principal.subject))
    });
    let running = start(config(), seen, GRACE).await;
    let head = "Authorization: Bearer t0ken\r\nMcp-Method: tools/call\r\n";
    let answer = running.send(post("/servers/git/mcp?access_token=query", head, "{}")).await;
    assert!(
        answer.ends_with(r#"Server("git") Address(127.0.0.1) t0ken Some("tools/call")"#),
        "{answer}"
    );
    let answer = running.send(post("/mcp?access_token=query", "", "{}")).await;
    assert!(answer.ends_with("All Address(127.0.0.1) nobody None"), "{answer}");
}

#[tokio::test]
async fn who_is_behind_a_message_is_asked_before_its_body_is_read() {
    let running = running().await;
    let stranger = "authorization: Bearer stranger\r\n";
    let endless = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 900\r\n";
    let mut stream = running.connect().await;
    stream.write_all(format!("{endless}{stranger}\r\n").as_bytes()).await.unwrap();
    assert!(read_to(&mut stream, "\r\n\r\n").await.starts_with("HTTP/1.1 401"));
    for verb in ["GET", "DELETE"] {
        assert_eq!(status(&running.send(plain(verb, "/mcp", stranger)).await), 401);
    }
}

#[tokio::test]
async fn metadata_is_for_everybody_and_for_pages_of_allowed_origins() {
    let running = running().await;
    let path = "/.well-known/oauth-protected-resource/mcp";
    let head = "authorization: Bearer stranger\r\norigin: https://app.example\r\n";
    let answer = running.send(plain("GET", path, head)).await;
    assert!(
        status(&answer) == 200 && answer.contains("content-type: application/json\r\n"),
        "{answer}"
    );
    assert!(answer.contains("access-control-allow-origin: https://app.example\r\n"), "{answer}");
    assert!(answer.ends_with(&format!("{{\"resource\":\"{path}\"}}")), "{answer}");
    assert_eq!(status(&running.send(plain("OPTIONS", path, head)).await), 204);
    let answer = running.send(post(path, "", "{}")).await;
    assert!(status(&answer) == 405 && answer.contains("allow: GET, OPTIONS\r\n"), "{answer}");
    let none = running.send(plain("GET", "/.well-known/oauth-protected-resource/else", "")).await;
    assert!(none.contains("other /.well-known/"), "{none}");
    let foreign = running.send(plain("GET", path, "origin: https://evil.example\r\n")).await;
    assert_eq!(status(&foreign), 403);
    assert!(running.send(plain("GET", path, "")).await.contains("cache-control: max-age=3600\r\n"));
    let keys = running.send(plain("GET", KEY_SET, "")).await;
    assert!(status(&keys) == 200 && keys.contains("cache-control: max-age=300\r\n"), "{keys}");
    let none = running.send(plain("GET", "/other/.well-known/jwks.json", "")).await;
    assert!(none.contains("other /other/.well-known/"), "{none}");
}

#[tokio::test]
async fn a_spliced_text_is_one_body_with_a_length() {
    let parts = || [Bytes::from_static(b"{\"a\":"), Bytes::new(), Bytes::from_static(b"1}")];
    let spliced = fake(move |_| async move {
        Reply::message(Text::Spliced(Box::new(parts()))).with_status(StatusCode::BAD_REQUEST)
    });
    let running = start(config(), spliced, GRACE).await;
    let answer = running.send(post("/mcp", "", "{}")).await;
    assert!(status(&answer) == 400 && answer.contains("content-length: 7\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n{\"a\":1}"), "{answer}");
}

#[tokio::test]
async fn an_accepted_notification_is_202_without_a_body() {
    let running = start(config(), fake(|_| async { empty(StatusCode::ACCEPTED) }), GRACE).await;
    let answer = running.send(post("/mcp", "", "{}")).await;
    assert!(answer.starts_with("HTTP/1.1 202") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn a_stream_is_an_event_stream_that_nobody_keeps_or_buffers() {
    let reply = fake(|_| async {
        let events = futures_util::stream::pending::<Outgoing>().boxed();
        Reply::events(events)
    });
    let running = start(config(), reply, GRACE).await;
    let mut streaming = running.connect().await;
    streaming.write_all(post("/mcp", "", "stream").as_bytes()).await.unwrap();
    let head = read_to(&mut streaming, "\r\n\r\n").await;
    for line in [
        "content-type: text/event-stream\r\n",
        "cache-control: no-store\r\n",
        "x-accel-buffering: no\r\n",
    ] {
        assert!(head.contains(line), "{head}");
    }
}

#[tokio::test]
async fn memory_of_bodies_in_flight_is_bounded() {
    let (entered, mut entries) = mpsc::unbounded_channel();
    let hold = fake_within(60_000, move |_| {
        entered.send(()).unwrap();
        std::future::pending()
    });
    let mut config = config();
    let limits = &mut config.http;
    limits.body_bytes = 100_000;
    (limits.unfinished_bytes_per_connection, limits.unfinished_bytes_per_principal) =
        (100_000, 100_000);
    let running = start(config, hold, GRACE).await;
    let mut hanging = running.connect().await;
    hanging.write_all(post("/mcp", "", &"x".repeat(50_000)).as_bytes()).await.unwrap();
    entries.recv().await.unwrap();
    let answer = running.send(post("/mcp", "", &"x".repeat(20_000))).await;
    assert!(status(&answer) == 503 && answer.contains("too many bytes are in flight"), "{answer}");
}

/// An unread response holds memory. A further response that does not fit is replaced by an error
/// with its id, and requests succeed again once the first response was read.
#[tokio::test]
async fn memory_of_answers_in_flight_is_bounded() {
    const LARGE: usize = 8 << 20;
    let large = fake_within(LARGE + 1000, |exchange| async move {
        let ExchangeKind::Post(body) = exchange.kind else { return empty(StatusCode::OK) };
        let result = if body.starts_with(b"large") { vec![b'1'; LARGE] } else { b"1".to_vec() };
        message(write::result(b"\"x\"", &result))
    });
    let budget = Arc::clone(large.budget());
    let running = start(config(), large, GRACE).await;
    let mut unread = running.connect().await;
    unread.write_all(post("/mcp", "", "large").as_bytes()).await.unwrap();
    read_to(&mut unread, "200 OK").await;
    let refused = running.send(post("/mcp", "", "large")).await;
    assert!(status(&refused) == 503 && refused.contains("\"id\":\"x\",\"error\""), "{refused}");
    assert!(
        refused.contains("limits.bytes_in_flight") && !refused.contains("retry-after"),
        "{refused}"
    );
    assert_eq!(status(&running.send(post("/mcp", "", "small")).await), 200);
    let mut rest = Vec::new();
    unread.read_to_end(&mut rest).await.unwrap();
    assert_eq!(budget.used(), 0);
    assert_eq!(status(&running.send(post("/mcp", "", "large")).await), 200);
}

#[tokio::test]
async fn a_client_that_goes_drops_its_call_or_its_stream() {
    struct Guard(mpsc::UnboundedSender<&'static str>, &'static str);
    impl Drop for Guard {
        fn drop(&mut self) {
            let _ = self.0.send(self.1);
        }
    }
    let (say, mut said) = mpsc::unbounded_channel();
    let hold = fake(move |exchange| {
        let say = say.clone();
        async move {
            say.send("begun").unwrap();
            if matches!(exchange.kind, ExchangeKind::Get) {
                let guard = Guard(say, "stream dropped");
                let one =
                    Outgoing { data: Bytes::from_static(b"{}").into(), ..Outgoing::default() };
                let first = futures_util::stream::once(async { one });
                let events = first.chain(futures_util::stream::pending()).map(move |event| {
                    let _kept = &guard;
                    event
                });
                return Reply::events(events.boxed());
            }
            let _guard = Guard(say, "call dropped");
            std::future::pending().await
        }
    });
    let running = start(config(), hold, GRACE).await;
    let mut stream = running.connect().await;
    stream.write_all(post("/mcp", "", "{}").as_bytes()).await.unwrap();
    assert_eq!(said.recv().await, Some("begun"));
    drop(stream);
    assert_eq!(said.recv().await, Some("call dropped"));
    let mut stream = running.connect().await;
    stream.write_all(plain("GET", "/mcp", "").as_bytes()).await.unwrap();
    assert_eq!(said.recv().await, Some("begun"));
    read_to(&mut stream, "data: {}\n\n").await;
    drop(stream);
    assert_eq!(said.recv().await, Some("stream dropped"));
}
