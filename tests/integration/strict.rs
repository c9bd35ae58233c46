//! Nearly valid requests: each gets the specific status and code of its error, without side
//! effects.

use crate::rig::client::{Request, with_meta};
use crate::rig::upstream::modern;
use crate::rig::{Gate, Upstream, Value, json};

async fn one() -> (Gate, Upstream) {
    let server = Upstream::http(modern(&["echo"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    (gate, server)
}

fn call() -> Request {
    Request::modern("/mcp", "tools/call", json!({"name": "a__echo", "arguments": {}}))
}

/// E-06: a header that mirrors the body requires the value in the body.
#[tokio::test]
async fn a_name_in_the_header_must_stand_in_the_body() {
    let (gate, server) = one().await;
    for params in
        [json!({}), json!({"name": 5}), json!({"name": null}), json!({"name": ["a__echo"]})]
    {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": with_meta(params.clone())});
        let answer = call().body(body.to_string()).send(gate.address).await;
        assert_eq!((answer.status, answer.code()), (400, -32020), "{params}: {}", answer.text());
        let answer = call().without("Mcp-Name").body(body.to_string()).send(gate.address).await;
        assert_eq!((answer.status, answer.code()), (200, -32602), "{params}: {}", answer.text());
    }
    assert_eq!(server.count("tools/call"), 0);
}

/// A missing endpoint is not a missing method, for any verb and in either era.
#[tokio::test]
async fn an_unknown_endpoint_is_404_and_says_nothing_of_methods() {
    let (gate, _server) = one().await;
    let unknown = "/servers/none/mcp";
    let answer = gate.modern(unknown, "server/discover", json!({})).await;
    assert_eq!(answer.status, 404);
    assert_ne!(answer.code(), -32601, "{}", answer.text());
    for verb in ["GET", "DELETE"] {
        let answer = Request::bare(verb, unknown, "").send(gate.address).await;
        assert_eq!(answer.status, 404, "{verb}: {}", answer.text());
        let answer = Request::bare(verb, "/servers/a/mcp", "").send(gate.address).await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST, OPTIONS")), "{verb}");
    }
}

#[tokio::test]
async fn a_body_in_another_form_is_refused_before_it_is_read() {
    let (gate, server) = one().await;
    for (case, request, status) in [
        ("gzip", call().with("Content-Encoding", "gzip"), 415),
        ("gzip after identity", call().with("Content-Encoding", "identity, gzip"), 415),
        (
            "two encodings",
            call().with("Content-Encoding", "identity").also("Content-Encoding", "br"),
            415,
        ),
        ("latin-1", call().with("Content-Type", "application/json; charset=iso-8859-1"), 415),
        ("utf-16", call().with("Content-Type", "application/json;charset=\"utf-16\""), 415),
        ("two types", call().also("Content-Type", "text/plain"), 400),
        (
            "two charsets",
            call().with("Content-Type", "application/json; charset=utf-8; charset=latin1"),
            415,
        ),
    ] {
        let answer = request.send(gate.address).await;
        assert_eq!(answer.status, status, "{case}: {}", answer.text());
    }
    assert_eq!(
        call().with("Content-Encoding", "gzip").send(gate.address).await.header("accept-encoding"),
        Some("identity")
    );
    assert_eq!(server.count("tools/call"), 0);
    for (case, request) in [
        ("identity", call().with("Content-Encoding", "Identity")),
        ("utf-8", call().with("Content-Type", "application/json; charset=UTF-8")),
        ("quoted", call().with("Content-Type", "Application/JSON ; Charset=\"utf-8\"")),
        ("another parameter", call().with("Content-Type", "application/json; profile=x")),
    ] {
        let answer = request.send(gate.address).await;
        assert_eq!((answer.status, answer.code()), (200, 0), "{case}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_session_is_not_opened_for_half_an_initialize() {
    let (gate, _server) = one().await;
    let init = |params: Option<Value>| {
        let mut body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"});
        if let Some(params) = params {
            body["params"] = params;
        }
        Request::bare("POST", "/mcp", body.to_string())
    };
    let version = "2025-11-25";
    for params in [
        None,
        Some(json!({})),
        Some(json!({"protocolVersion": version, "capabilities": true})),
        Some(json!({"protocolVersion": version, "capabilities": null})),
        Some(json!({"protocolVersion": version, "capabilities": []})),
    ] {
        let answer = init(params.clone()).send(gate.address).await;
        assert_eq!((answer.status, answer.code()), (200, -32602), "{params:?}: {}", answer.text());
        assert_eq!(answer.header("mcp-session-id"), None, "{params:?}");
    }
}

/// L-07: an unknown or expired event id opens a new stream, and the session continues.
#[tokio::test]
async fn an_unknown_event_id_opens_a_fresh_stream() {
    let (gate, mut server) = one().await;
    let session = gate.session("/mcp", "2025-11-25").await;
    let listen = |id: &str| {
        Request::bare("GET", "/mcp", "")
            .with("Mcp-Session-Id", &session.id)
            .with("Accept", "text/event-stream")
            .with("Last-Event-ID", id)
    };
    for id in [
        "99-1",
        "0-999999",
        "18446744073709551615-18446744073709551615",
        "x",
        "1",
        "-",
        "",
        "1-x",
        "0-0",
        "ä",
    ] {
        let stream = listen(id).open(gate.address).await;
        assert_eq!(stream.head.status, 200, "{id}");
        assert_eq!(session.ask("ping", json!({})).await.code(), 0, "{id}");
    }
    // Such a stream carries messages from now on.
    let mut stream = listen("0-999999").open(gate.address).await;
    server.stop().await;
    gate.configure(json!({"servers": {}}));
    let note = stream.next().await.expect("a message");
    assert!(note["method"].as_str().is_some_and(|m| m.ends_with("/list_changed")), "{note}");
    // In another session the response is 404.
    let foreign = listen("0-1").with("Mcp-Session-Id", "nobody").send(gate.address).await;
    assert_eq!(foreign.status, 404);
}
