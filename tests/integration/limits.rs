//! Limits at their boundary: a request at the limit is served, and a request above it is rejected
//! with the status and message of that limit.

use std::time::Duration;

use crate::rig::client::Request;
use crate::rig::gate::{command, config};
use crate::rig::upstream::modern;
use crate::rig::{Gate, Upstream, fixture, json, until};

fn list() -> Request {
    Request::modern("/mcp", "tools/list", json!({}))
}

/// Returns a request with a body of exactly this many bytes.
fn padded(bytes: usize) -> Request {
    let request = list();
    let mut body = request.body.clone();
    body.resize(bytes, b' ');
    request.body(body)
}

/// `http.body_bytes` → 413; `http.header_bytes` → 431.
#[tokio::test]
async fn bytes_of_a_request_are_bounded() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate =
        Gate::start(json!({"servers": {"a": server.config()}, "http": {"body_bytes": 2048, "header_bytes": 4096}}))
            .await;
    assert_eq!(padded(2048).send(gate.address).await.status, 200);
    let answer = padded(2049).send(gate.address).await;
    assert_eq!((answer.status, answer.code()), (413, -31013), "{}", answer.text());
    // A declared length above the limit, and a body without a length.
    let huge = String::from_utf8(padded(2048).bytes())
        .unwrap()
        .replace("Content-Length: 2048", "Content-Length: 99999999999");
    assert_eq!(crate::rig::Stream::open(gate.address, huge.as_bytes()).await.head.status, 413);
    let head = String::from_utf8(list().bytes()).unwrap();
    let head = head.split("Content-Length").next().unwrap();
    let chunked = format!(
        "{head}Transfer-Encoding: chunked\r\n\r\n{}",
        format!("400\r\n{}\r\n", " ".repeat(0x400)).repeat(3)
    );
    assert_eq!(crate::rig::Stream::open(gate.address, chunked.as_bytes()).await.head.status, 413);
    assert_eq!(list().with("X-Long", &"x".repeat(3000)).send(gate.address).await.status, 200);
    assert_eq!(list().with("X-Long", &"x".repeat(5000)).send(gate.address).await.status, 431);
    assert_eq!(list().send(gate.address).await.status, 200);
}

/// `limits.concurrent_requests` and `queued_requests`: further calls → 503 with a reason and
/// Retry-After, independent of the server's own limits. Lists need no permit, and other servers
/// keep their share.
#[tokio::test]
async fn more_calls_than_places_are_turned_away() {
    let hangs = |heard: &crate::rig::HeardMessage| match heard.method() {
        "tools/call" => crate::rig::Say::Nothing,
        _ => modern(&["t"])(heard),
    };
    let (server, good) = (Upstream::http(hangs).await, Upstream::http(modern(&["t"])).await);
    let limits = json!({"concurrent_requests": 4, "queued_requests": 4});
    let servers = json!({"a": server.with(json!({"timeout": 2})), "b": good.config()});
    let gate = Gate::start(json!({"servers": servers, "limits": limits})).await;
    let calls = async {
        let three = async { tokio::join!(gate.call("a__t"), gate.call("a__t"), gate.call("a__t")) };
        let waiting =
            async { tokio::join!(gate.call("a__t"), gate.call("a__t"), gate.call("a__t")) };
        tokio::join!(three, waiting)
    };
    let more = async {
        until("three run", async || (server.count("tools/call") == 3).then_some(())).await;
        let refused = until("three wait", async || {
            let answer =
                tokio::time::timeout(Duration::from_millis(200), gate.call("a__t")).await.ok()?;
            (answer.status == 503).then_some(answer)
        })
        .await;
        assert_eq!(
            (refused.code(), refused.header("retry-after")),
            (-31053, Some("1")),
            "{}",
            refused.text()
        );
        let data = refused.json()["error"]["data"].clone();
        assert_eq!(
            (data["reason"].as_str(), data["retryAfterMs"].as_u64()),
            (Some("gateway_overloaded"), Some(1000))
        );
        assert!(refused.text().contains("limits.queued_requests"), "{}", refused.text());
        assert_eq!(list().send(gate.address).await.status, 200);
        assert_eq!(gate.call("b__t").await.code(), 0, "another server's share");
    };
    let ((running, _), ()) = tokio::join!(calls, more);
    for late in [running.0, running.1, running.2] {
        assert_eq!(late.json()["error"]["data"]["reason"], "timeout", "{}", late.text());
    }
    assert_eq!(list().send(gate.address).await.status, 200);
}

/// A server's own limits: calls beyond `concurrency` and `queue` are rejected, and other servers
/// are unaffected.
#[tokio::test]
async fn calls_to_one_server_are_bounded() {
    let slow = Upstream::http(|heard| match heard.method() {
        "tools/call" => crate::rig::Say::Nothing,
        _ => modern(&["t"])(heard),
    })
    .await;
    let good = Upstream::http(modern(&["t"])).await;
    let bounds = json!({"timeout": 1, "concurrency": 1, "queue": 1});
    let gate = Gate::start(json!({"servers": {"a": slow.with(bounds), "b": good.config()}})).await;
    let all = async {
        tokio::join!(gate.call("a__t"), gate.call("a__t"), gate.call("a__t"), gate.call("a__t"))
    };
    let other = async {
        until("one runs", async || (slow.count("tools/call") == 1).then_some(())).await;
        gate.call("b__t").await
    };
    let ((a, b, c, d), other) = tokio::join!(all, other);
    assert_eq!(other.code(), 0);
    let reasons = [a, b, c, d]
        .map(|x| x.json()["error"]["data"]["reason"].as_str().unwrap_or_default().to_owned());
    assert_eq!(reasons.iter().filter(|r| *r == "overloaded").count(), 2, "{reasons:?}");
}

/// `limits.sessions` → 503 with Retry-After until a session ends. `limits.session_idle` expires
/// sessions.
#[tokio::test]
async fn sessions_are_bounded_in_number_and_time() {
    let server = Upstream::http(modern(&["t"])).await;
    let limits = json!({"sessions": 2, "sessions_per_principal": 2, "session_idle": 10});
    let gate = Gate::start(json!({"servers": {"a": server.config()}, "limits": limits})).await;
    let (one, two) =
        (gate.session("/mcp", "2025-11-25").await, gate.session("/mcp", "2025-11-25").await);
    let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let open = || Request::bare("POST", "/mcp", initialize);
    let refused = open().send(gate.address).await;
    assert_eq!(
        (refused.status, refused.code(), refused.header("retry-after").is_some()),
        (503, -31053, true),
        "{}",
        refused.text()
    );
    assert_eq!(list().send(gate.address).await.status, 200, "modern clients need no session");
    let end = Request::bare("DELETE", "/mcp", "").with("Mcp-Session-Id", &one.id);
    assert_eq!(end.send(gate.address).await.status, 204);
    assert_eq!(open().send(gate.address).await.status, 200);
    // Ten seconds is the minimum of `session_idle`. A session with an open stream does not expire.
    let _stream = two.listen().await;
    let began = std::time::Instant::now();
    while open().send(gate.address).await.status != 200 {
        assert!(began.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    assert_eq!(two.call("a__t").await.code(), 0);
}

/// `auth.key` is required at every MCP endpoint and for the metrics, only in the header.
#[tokio::test]
async fn a_key_is_wanted_from_everybody() {
    let server = Upstream::http(modern(&["t"])).await;
    let key = "correct-horse-battery-staple-9";
    let gate = Gate::start(json!({"servers": {"a": server.config()}, "auth": {"key": key}})).await;
    let before = server.heard().len();
    let call = || Request::modern("/mcp", "tools/call", json!({"name": "a__t", "arguments": {}}));
    let query = Request { path: format!("/mcp?access_token={key}"), ..call() };
    for (case, request) in [
        ("none", call()),
        ("wrong", call().with("Authorization", "Bearer correct-horse-battery-staple-8")),
        ("longer", call().with("Authorization", &format!("Bearer {key}x"))),
        ("empty", call().with("Authorization", "Bearer ")),
        ("basic", call().with("Authorization", &format!("Basic {key}"))),
        ("in the address", query),
        ("get", Request::bare("GET", "/mcp", "").with("Mcp-Session-Id", "x")),
        ("delete", Request::bare("DELETE", "/mcp", "").with("Mcp-Session-Id", "x")),
        ("another endpoint", Request { path: "/servers/a/mcp".into(), ..call() }),
        ("metrics", Request::bare("GET", "/metrics", "")),
        ("garbage", call().body("{")),
    ] {
        let answer = request.send(gate.address).await;
        assert_eq!(answer.status, 401, "{case}: {}", answer.text());
        assert!(
            answer.header("www-authenticate").is_some_and(|v| v.starts_with("Bearer")),
            "{case}"
        );
    }
    assert_eq!(server.heard().len(), before);
    let right = format!("Bearer {key}");
    assert_eq!(call().with("Authorization", &right).send(gate.address).await.code(), 0);
    assert_eq!(
        call().with("Authorization", &format!("bearer {key}")).send(gate.address).await.code(),
        0
    );
    assert_eq!(
        call()
            .with("Authorization", &right)
            .also("Authorization", &right)
            .send(gate.address)
            .await
            .status,
        400
    );
    assert_eq!(Request::bare("GET", "/readyz", "").send(gate.address).await.status, 200);
    // A-03, S-04: the key is not forwarded or logged.
    assert!(
        server.heard().iter().all(|h| h.header("authorization").is_none() && !h.text.contains(key))
    );
    assert!(!gate.log().contains(key));
}

#[test]
fn another_address_than_loopback_needs_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lockgate.json");
    for (more, listen) in [
        (json!({}), "0.0.0.0:0"),
        (json!({"admin": {"listen": "0.0.0.0:45678"}}), "127.0.0.1:0"),
        (json!({}), "[::]:0"),
    ] {
        std::fs::write(&file, config(more).to_string()).unwrap();
        let out =
            command().args(["serve", "--listen", listen, "--config"]).arg(&file).output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{listen}");
        assert!(
            String::from_utf8_lossy(&out.stderr).contains("auth.key"),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
}

/// Calls per minute and caller: further calls are rejected with the time to wait, before the
/// server.
#[tokio::test]
async fn calls_per_minute_are_bounded() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate =
        Gate::start(json!({"servers": {"a": server.config()}, "policy": {"calls_per_minute": 3}}))
            .await;
    let mut codes = Vec::new();
    for _ in 0..6 {
        codes.push(gate.call("a__t").await.code());
    }
    assert_eq!(codes, [0, 0, 0, -31029, -31029, -31029]);
    assert_eq!(server.count("tools/call"), 3);
    assert!(
        gate.call("a__t").await.json()["error"]["data"]["retryAfterMs"]
            .as_u64()
            .is_some_and(|ms| ms <= 60_000)
    );
    assert_eq!(list().send(gate.address).await.status, 200);
}

/// `limits.subscriptions`: for a session and for a listen, a further subscription is rejected with
/// the limit's name, and the others stay.
#[tokio::test]
async fn subscriptions_are_bounded() {
    let gate =
        Gate::start(json!({"servers": {"f": fixture(&[])}, "limits": {"subscriptions": 2}})).await;
    let uri = |n: usize| format!("f+test://template/{n}/data");
    let session = gate.session("/mcp", "2025-11-25").await;
    for (n, code) in [(0, 0), (1, 0), (0, 0), (2, -32602)] {
        let answer = session.ask("resources/subscribe", json!({"uri": uri(n)})).await;
        assert_eq!(answer.code(), code, "{n}: {}", answer.text());
    }
    assert_eq!(session.ask("resources/unsubscribe", json!({"uri": uri(1)})).await.code(), 0);
    assert_eq!(session.ask("resources/subscribe", json!({"uri": uri(2)})).await.code(), 0);
    let refused = session.ask("resources/subscribe", json!({"uri": uri(3)})).await;
    assert!(refused.text().contains("limits.subscriptions"), "{}", refused.text());
    let other = gate.session("/mcp", "2025-11-25").await;
    assert_eq!(
        other.ask("resources/subscribe", json!({"uri": uri(3)})).await.code(),
        0,
        "each session its own"
    );
    let listen = |count: usize| {
        let uris: Vec<String> = (0..count).map(uri).collect();
        Request::modern(
            "/mcp",
            "subscriptions/listen",
            json!({"notifications": {"resourceSubscriptions": uris}}),
        )
    };
    let refused = listen(3).send(gate.address).await;
    assert!(
        refused.code() == -32602 && refused.text().contains("limits.subscriptions"),
        "{}",
        refused.text()
    );
    let granted = listen(2).open(gate.address).await.next().await.unwrap();
    assert_eq!(granted["method"], "notifications/subscriptions/acknowledged", "{granted}");
}

/// `limits.bytes_in_flight`: bodies that together exceed the limit wait or are rejected; small
/// bodies continue, and all bytes are released at the end.
#[tokio::test]
async fn bytes_in_flight_are_bounded() {
    let server = Upstream::http(|heard| match heard.body["params"]["name"].as_str() {
        Some("slow") => crate::rig::Say::Nothing,
        _ => modern(&["t", "slow"])(heard),
    })
    .await;
    let edge = 1 << 20;
    let gate = Gate::start(json!({
        "servers": {"a": server.with(json!({"timeout": 2}))},
        "limits": {"bytes_in_flight": edge}, "http": {"body_bytes": edge},
    }))
    .await;
    let call = |tool: &str, bytes: usize| {
        let request = Request::modern("/mcp", "tools/call", json!({"name": tool, "arguments": {}}));
        let mut body = request.body.clone();
        body.resize(bytes, b' ');
        request.body(body)
    };
    assert_eq!(
        call("a__t", edge).send(gate.address).await.code(),
        0,
        "all of it at once is served"
    );
    let held = async { call("a__slow", edge - 4096).send(gate.address).await };
    let others = async {
        until("the large one runs", async || (server.count("tools/call") == 2).then_some(())).await;
        let refused = call("a__t", 200 << 10).send(gate.address).await;
        let small = call("a__t", 2048).send(gate.address).await;
        (refused, small)
    };
    let (held, (refused, small)) = tokio::join!(held, others);
    assert_eq!(held.json()["error"]["data"]["reason"], "timeout", "{}", held.text());
    assert_eq!((refused.status, refused.code()), (503, -31053), "{}", refused.text());
    assert!(refused.header("retry-after").is_some());
    assert_eq!(small.code(), 0, "{}", small.text());
    assert_eq!(call("a__t", edge).send(gate.address).await.code(), 0);
}

/// Returns a server with a tool `long` that returns this many bytes, and a small tool.
fn long(bytes: usize) -> impl Fn(&crate::rig::HeardMessage) -> crate::rig::Say + Send + Sync {
    move |heard| match heard.body["params"]["name"].as_str() {
        Some("long") => heard.text_result(&"x".repeat(bytes)),
        _ => modern(&["t", "long"])(heard),
    }
}

/// `limits.bytes_in_flight` includes responses until their clients have read them. Further large
/// responses are rejected with the limit's name, small responses continue, and all bytes are
/// released.
#[tokio::test]
async fn answers_that_nobody_reads_are_bounded() {
    let edge = 24 << 20;
    // Responses over stdio are buffered whole.
    let server = Upstream::lines(long(edge / 2 + (1 << 20))).await;
    for era in ["modern", "legacy"] {
        let gate = Gate::start(json!({
            "servers": {"a": server.config()}, "limits": {"bytes_in_flight": edge}, "http": {"body_bytes": 1 << 20},
        }))
        .await;
        let session = gate.session("/mcp", "2025-11-25").await;
        let params = json!({"name": "a__long", "arguments": {}});
        let call = || match era {
            "modern" => Request::modern("/mcp", "tools/call", params.clone()),
            _ => Request::legacy("/mcp", &session.id, 1, "tools/call", &params),
        };
        // Two halves and their heads exceed the limit.
        let unread = call().open(gate.address).await;
        assert_eq!(unread.head.status, 200);
        let refused = call().send(gate.address).await;
        assert_eq!(
            (refused.status, refused.code(), refused.json()["id"].as_i64()),
            (503, -31053, Some(1)),
            "{era}"
        );
        assert!(refused.text().contains("limits.bytes_in_flight"), "{}", refused.text());
        assert_eq!(
            refused.header("retry-after"),
            None,
            "the call was made: it is not to be made again"
        );
        assert_eq!(gate.call("a__t").await.code(), 0);
        assert!(unread.whole().await.body.len() > edge / 2);
        let again = until("what was read does not count", async || {
            let answer = call().send(gate.address).await;
            (answer.status == 200).then_some(answer)
        });
        assert!(again.await.body.len() > edge / 2, "{era}");
    }
}

/// `http.write_timeout`: a client that reads nothing for this time loses its connection, which is
/// logged. A slow client gets the whole response, and an idle stream stays open.
#[tokio::test]
async fn a_client_that_reads_nothing_is_let_go() {
    let size = 24 << 20;
    let server = Upstream::http(long(size)).await;
    let gate = Gate::start(json!({
        "servers": {"a": server.config()}, "http": {"write_timeout": 5, "keep_alive": 300},
    }))
    .await;
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let mut idle = Request::modern("/mcp", "subscriptions/listen", listen).open(gate.address).await;
    assert!(idle.next().await.unwrap()["method"].as_str().unwrap().ends_with("acknowledged"));
    let call =
        || Request::modern("/mcp", "tools/call", json!({"name": "a__long", "arguments": {}}));
    let mut slow = tokio::net::TcpStream::connect(gate.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut slow, &call().bytes()).await.unwrap();
    let unread = call().open(gate.address).await;
    let began = std::time::Instant::now();
    let patient = async {
        // Two pieces a second for longer than the limit, then the rest.
        let (mut piece, mut got) = (vec![0; 1 << 20], 0);
        loop {
            let n = tokio::io::AsyncReadExt::read(&mut slow, &mut piece).await.unwrap();
            got += n;
            if n == 0 {
                return got;
            }
            if began.elapsed() < Duration::from_secs(9) {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    };
    let ended = until("the log tells of it", async || {
        gate.log().contains("connection closed: the client").then_some(())
    });
    let (got, ()) = tokio::join!(patient, ended);
    assert!(got > size, "{got}");
    assert!(gate.log().contains("http.write_timeout"));
    assert_eq!(
        gate.log().matches("connection closed: the client").count(),
        1,
        "nobody else was let go"
    );
    let part = unread.rest().await;
    assert!(part < size, "{part} bytes of an answer that was cut off");
    assert!(idle.is_open().await, "a stream without news");
}
