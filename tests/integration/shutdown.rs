//! Shutdown: calls that exceed the grace period get a response, and the process ends soon after.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Gate, HeardMessage, Say, Upstream, Value, json, until};

/// The time for running calls after draining, and a margin.
const GRACE_PERIOD: Duration = Duration::from_secs(30);
const GRACE_MARGIN: Duration = Duration::from_secs(8);

/// Returns a server that reports progress if requested, and never completes a call.
fn endless() -> impl Fn(&HeardMessage) -> Say + Send + Sync + 'static {
    let usual = modern(&["slow"]);
    move |heard| match (heard.method(), &heard.body["params"]["_meta"]["progressToken"]) {
        ("tools/call", Value::Null) => Say::Nothing,
        ("tools/call", token) => Say::Json(json!({
            "jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1},
        })),
        _ => usual(heard),
    }
}

#[tokio::test]
async fn a_call_that_outlives_the_shutdown_gets_an_answer() {
    let server = Upstream::lines(endless()).await;
    let mut gate =
        Gate::start(json!({"servers": {"a": server.with(json!({"timeout": 120}))}})).await;
    let (address, session) = (gate.address, gate.session("/mcp", "2025-11-25").await.id);
    let params = |token: Option<i64>| {
        let mut params = json!({"name": "a__slow", "arguments": {}});
        if let Some(token) = token {
            params["_meta"] = json!({"progressToken": token});
        }
        params
    };
    let mut open = Vec::new();
    for (case, request) in [
        ("modern", Request::modern("/mcp", "tools/call", params(None))),
        ("modern stream", Request::modern("/mcp", "tools/call", params(Some(1)))),
        ("legacy", Request::legacy("/mcp", &session, 8, "tools/call", &params(None))),
        ("legacy stream", Request::legacy("/mcp", &session, 9, "tools/call", &params(Some(2)))),
    ] {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(&request.bytes()).await.unwrap();
        open.push((case, socket));
    }
    until("every call has reached the server", async || {
        (server.count("tools/call") == 4).then_some(())
    })
    .await;
    let began = Instant::now();
    gate.terminate();
    for (case, mut socket) in open {
        let mut answer = Vec::new();
        let read =
            tokio::time::timeout(GRACE_PERIOD + GRACE_MARGIN, socket.read_to_end(&mut answer))
                .await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(read.is_ok(), "{case}: {answer}");
        assert!(answer.starts_with("HTTP/1.1 200"), "{case}: {answer}");
        assert!(
            answer.contains("-32603") && answer.contains("shut down before"),
            "{case}: {answer}"
        );
        assert_eq!(
            answer.contains("text/event-stream"),
            case.ends_with("stream"),
            "{case}: {answer}"
        );
        assert!(began.elapsed() > GRACE_PERIOD - Duration::from_secs(1), "{case}: too soon");
    }
    assert_eq!(gate.ended().await, Some(0));
    assert!(began.elapsed() < GRACE_PERIOD + GRACE_MARGIN, "{:?}", began.elapsed());
}

#[tokio::test]
async fn in_development_nothing_is_drained_where_nothing_runs() {
    for (drain, is_quick) in [(json!({}), true), (json!({"drain": 2}), false)] {
        let server = Upstream::http(modern(&["t"])).await;
        let servers = json!({"a": server.config()});
        let variables = [("LOCKGATE_HTTP__DRAIN", "")];
        let more = json!({"servers": servers, "http": drain});
        let mut gate = Gate::launch_with(more, &variables).await;
        gate.ready().await;
        assert_eq!(gate.call("a__t").await.status, 200);
        let began = Instant::now();
        gate.terminate();
        assert_eq!(gate.ended().await, Some(0));
        let took = began.elapsed();
        assert_eq!(took < Duration::from_millis(1500), is_quick, "{took:?}");
    }
}
