//! Malformed messages of upstreams: only the affected caller gets an error, and calls to a healthy
//! server are unaffected, in both eras and over both transports.

use std::time::{Duration, Instant};

use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, HeardMessage, Say, Upstream, Value, json};

/// Returns a modern server that misbehaves when its tool is called with the name of a misdeed.
fn bad(
    misdeed: impl Fn(&HeardMessage, &str) -> Say + Send + Sync + 'static,
) -> impl Fn(&HeardMessage) -> Say + Send + Sync + 'static {
    move |heard| match heard.body["params"]["arguments"]["how"].as_str() {
        Some(how) if heard.method() == "tools/call" && how != "well" => misdeed(heard, how),
        _ => modern(&["t"])(heard),
    }
}

async fn bad_call(gate: &Gate, how: &str) -> Answer {
    gate.modern("/mcp", "tools/call", json!({"name": "bad__t", "arguments": {"how": how}})).await
}

/// Calls the healthy server until the bad call is over; returns the duration of the slowest call.
async fn meanwhile(gate: &Gate, bad: impl Future<Output = Answer>) -> (Answer, Duration) {
    let mut slowest = Duration::ZERO;
    tokio::pin!(bad);
    loop {
        let began = Instant::now();
        let good = gate.call("good__ok").await;
        assert_eq!((good.status, good.code()), (200, 0), "{}", good.text());
        slowest = slowest.max(began.elapsed());
        tokio::select! {
            answer = &mut bad => return (answer, slowest),
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
    }
}

#[track_caller]
fn is_clear(how: &str, answer: &Answer, reasons: &[&str]) {
    let json = answer.json();
    assert_eq!(
        (answer.status, answer.code(), &json["id"]),
        (200, -32603, &json!(1)),
        "{how}: {}",
        answer.text()
    );
    let data = &json["error"]["data"];
    assert_eq!(data["upstream"], "bad", "{how}: {json}");
    assert!(reasons.iter().any(|r| data["reason"] == *r), "{how}: {json}");
    assert!(!answer.text().contains("127.0.0.1"), "{how}: {json}");
}

/// Each way in which an HTTP server can fail a call (E-21, E-26 and the list of the issue).
#[tokio::test]
async fn garbage_over_http_fails_the_one_call() {
    let upstream = Upstream::http(bad(|heard, how| {
        let whole = heard.result(json!({"resultType": "complete", "content": []})).to_string();
        match how {
            "wrong id" => {
                Say::Json(json!({"jsonrpc": "2.0", "id": 424_242, "result": {"resultType": "complete", "content": []}}))
            }
            "no id" => Say::Json(json!({"jsonrpc": "2.0", "result": {"resultType": "complete", "content": []}})),
            "null as id" => Say::Json(json!({"jsonrpc": "2.0", "id": null, "result": {"content": []}})),
            "no id in a stream" => Say::Sse("data: {\"jsonrpc\":\"2.0\",\"result\":{\"content\":[]}}\n\n".into()),
            "id as text" => {
                Say::Json(json!({"jsonrpc": "2.0", "id": heard.body["id"].to_string(), "result": {"content": []}}))
            }
            "half a message" => Say::Text("application/json", whole[..whole.len() / 2].into()),
            "half a body" => Say::Raw(
                format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{whole}")
                    .into(),
            ),
            "half a head" => Say::Raw(b"HTTP/1.1 200 OK\r\ncontent-".to_vec()),
            "no HTTP" => Say::Raw(b"hello\r\n\r\n".to_vec()),
            "endless line" => Say::Endless(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":\"".to_vec(), b'x'),
            "a gigabyte declared" => Say::Raw(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1073741824\r\n\r\n{".to_vec(),
            ),
            "too large" => Say::Text("application/json", vec![b' '; 200_000]),
            "invalid UTF-8" => Say::Text(
                "application/json",
                whole.replace("content", "conte\u{1}").bytes().map(|b| if b == 1 { 0xff } else { b }).collect(),
            ),
            "html" => Say::Text("text/html", b"<html>".to_vec()),
            "empty" => Say::Text("application/json", Vec::new()),
            "close" => Say::Close,
            "500" => Say::Status(500, Vec::new(), Value::Null),
            "503" => Say::Status(503, vec![("retry-after", "7".into())], Value::Null),
            "redirect" => Say::Status(302, vec![("location", "http://127.0.0.1:9/".into())], Value::Null),
            "deep" => Say::Text(
                "application/json",
                format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"a\":{}{}}}}}",
                    heard.body["id"],
                    "[".repeat(10_000),
                    "]".repeat(10_000)
                )
                .into(),
            ),
            "an array" => Say::Text("application/json", format!("[{whole}]").into()),
            "a request" => Say::Json(json!({"jsonrpc": "2.0", "id": heard.body["id"], "method": "ping"})),
            "no result" => Say::Json(json!({"jsonrpc": "2.0", "id": heard.body["id"]})),
            "a list as result" => Say::Json(heard.result(json!([]))),
            "stream without answer" => {
                Say::Sse(": hello\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n".into())
            }
            "stream of garbage" => Say::Sse("data: {{{\n\n".into()),
            "endless event" => Say::Sse(format!("data: {}", "x".repeat(200_000))),
            "unknown result type" => Say::Json(heard.result(json!({"resultType": "surprise", "content": []}))),
            "result type that is no text" => Say::Json(heard.result(json!({"resultType": 5, "content": []}))),
            _ => Say::Nothing,
        }
    }))
    .await;
    let good = Upstream::http(modern(&["ok"])).await;
    let limits = json!({"response_bytes": "64KiB", "event_bytes": "64KiB"});
    let more = json!({"limits": limits, "timeout": 1, "breaker": {"failures": 1000}});
    let gate =
        Gate::start(json!({"servers": {"bad": upstream.with(more), "good": good.config()}})).await;
    let any = ["bad_response", "connection_lost"];
    let cases: &[(&str, &[&str])] = &[
        ("wrong id", &["bad_response"]),
        ("no id", &["bad_response"]),
        ("null as id", &["bad_response"]),
        ("no id in a stream", &["bad_response"]),
        ("id as text", &["bad_response"]),
        ("half a message", &["bad_response"]),
        ("half a body", &any),
        ("half a head", &any),
        ("no HTTP", &any),
        ("endless line", &["too_large"]),
        ("a gigabyte declared", &["too_large"]),
        ("too large", &["too_large"]),
        ("invalid UTF-8", &["bad_response"]),
        ("html", &["bad_response"]),
        ("empty", &["bad_response"]),
        ("close", &any),
        ("500", &["bad_response", "unavailable"]),
        ("503", &["unavailable"]),
        ("redirect", &["bad_response"]),
        ("deep", &["bad_response"]),
        ("an array", &["bad_response"]),
        ("a request", &["bad_response"]),
        ("no result", &["bad_response"]),
        ("a list as result", &["bad_response"]),
        ("stream without answer", &["connection_lost"]),
        ("stream of garbage", &["bad_response"]),
        ("endless event", &["too_large"]),
        ("unknown result type", &["bad_response"]),
        ("result type that is no text", &["bad_response"]),
        ("silence", &["timeout"]),
    ];
    for (how, reasons) in cases {
        let before = upstream.count("tools/call");
        let (answer, slowest) = meanwhile(&gate, bad_call(&gate, how)).await;
        is_clear(how, &answer, reasons);
        assert!(slowest < Duration::from_millis(900), "{how}: a call elsewhere took {slowest:?}");
        assert_eq!(upstream.count("tools/call"), before + 1, "{how}: a call is sent once");
        assert_eq!(bad_call(&gate, "well").await.code(), 0, "{how}: the next call works");
    }
    // The same for a legacy client.
    let session = gate.session("/mcp", "2025-11-25").await;
    for how in ["wrong id", "no id", "half a message", "endless line", "silence"] {
        let answer =
            session.ask("tools/call", json!({"name": "bad__t", "arguments": {"how": how}})).await;
        assert_eq!(
            (answer.status, answer.code(), &answer.json()["id"]),
            (200, -32603, &json!(7)),
            "{how}: {}",
            answer.text()
        );
    }
}

/// Servers report unreadable requests with an error without an id. Each HTTP exchange has a single
/// request, so the error is for that request.
#[tokio::test]
async fn an_error_without_an_id_is_the_answer() {
    let error = json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "cannot read that"}});
    let upstream = Upstream::http(bad(move |_, how| match how {
        "stream" => Say::Sse(format!("data: {error}\n\n")),
        _ => Say::Status(400, Vec::new(), error.clone()),
    }))
    .await;
    let gate = Gate::start(json!({"servers": {"bad": upstream.config()}})).await;
    for how in ["body", "stream"] {
        let answer = bad_call(&gate, how).await;
        assert!(answer.text().contains("cannot read that"), "{how}: {}", answer.text());
        assert_eq!(answer.json()["id"], json!(1), "{how}");
    }
}

/// Over stdio, malformed data may end the whole connection, which is then re-established.
#[tokio::test]
async fn garbage_over_stdio_fails_the_one_call() {
    let upstream = Upstream::lines(bad(|heard, how| {
        let whole = heard.result(json!({"resultType": "complete", "content": []})).to_string();
        match how {
            "wrong id" => {
                Say::Json(json!({"jsonrpc": "2.0", "id": 424_242, "result": {"content": []}}))
            }
            "no id" => Say::Json(json!({"jsonrpc": "2.0", "result": {"content": []}})),
            "half a message" => Say::Raw(whole[..whole.len() / 2].into()),
            "half a line" => Say::Text("", whole[..whole.len() / 2].into()),
            "endless line" => {
                Say::Endless(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":\"".to_vec(), b'x')
            }
            "invalid UTF-8" => Say::Text("", vec![b'{', 0xff, 0xfe, b'}']),
            "deep" => Say::Text("", "[".repeat(10_000).into()),
            "no JSON" => Say::Text("", b"Listening on port 3000".to_vec()),
            "end" => Say::Close,
            _ => Say::Nothing,
        }
    }))
    .await;
    let good = Upstream::http(modern(&["ok"])).await;
    let more =
        json!({"limits": {"line_bytes": "64KiB"}, "timeout": 1, "breaker": {"failures": 1000}});
    let gate =
        Gate::start(json!({"servers": {"bad": upstream.with(more), "good": good.config()}})).await;
    for how in [
        "wrong id",
        "no id",
        "half a message",
        "half a line",
        "endless line",
        "invalid UTF-8",
        "deep",
        "no JSON",
        "end",
        "silence",
    ] {
        let before = upstream.count("tools/call");
        let (answer, slowest) = meanwhile(&gate, bad_call(&gate, how)).await;
        is_clear(how, &answer, &["bad_response", "connection_lost", "too_large", "timeout"]);
        assert!(slowest < Duration::from_millis(900), "{how}: a call elsewhere took {slowest:?}");
        assert_eq!(upstream.count("tools/call"), before + 1, "{how}: a call is sent once");
        crate::rig::until(how, async || (bad_call(&gate, "well").await.code() == 0).then_some(()))
            .await;
    }
}

/// E-21, E-26: unusual but valid responses are accepted: comments, several data lines, CRLF, no
/// resultType.
#[tokio::test]
async fn unusual_but_correct_answers_are_understood() {
    let upstream = Upstream::http(bad(|heard, how| {
        let answer = heard.result(json!({"content": [{"type": "text", "text": how}]})).to_string();
        let (first, rest) =
            answer.split_once(",\"").map(|(a, b)| (a.to_owned(), format!("\"{b}"))).unwrap();
        match how {
            "no resultType" => Say::Text("application/json", answer.into()),
            "comments" => Say::Sse(format!(": hi\n\n:\n\nevent: message\ndata: {answer}\n\n")),
            "CRLF" => Say::Sse(format!("data: {answer}\r\n\r\n")),
            "CR" => Say::Sse(format!("data: {answer}\r\r")),
            "several data lines" => Say::Sse(format!("data: {first},\ndata: {rest}\n\n")),
            "priming" => Say::Sse(format!("id: 1\nretry: 10\ndata:\n\ndata: {answer}\n\n")),
            "charset" => Say::Text("Application/JSON; charset=utf-8", answer.into()),
            "white space" => Say::Text("application/json", format!("\n\t {answer} \r\n").into()),
            "another answer first" => Say::Sse(format!(
                "data: {{\"jsonrpc\":\"2.0\",\"id\":77777,\"result\":{{}}}}\n\ndata: {answer}\n\n"
            )),
            _ => Say::Sse(format!("\u{feff}data: {answer}\n\n")),
        }
    }))
    .await;
    let gate = Gate::start(json!({"servers": {"bad": upstream.with(json!({"timeout": 2}))}})).await;
    for how in [
        "no resultType",
        "comments",
        "CRLF",
        "CR",
        "several data lines",
        "priming",
        "charset",
        "white space",
        "another answer first",
        "byte order mark",
    ] {
        let answer = bad_call(&gate, how).await;
        assert_eq!(answer.code(), 0, "{how}: {}", answer.text());
        assert_eq!(answer.result()["content"][0]["text"], how);
        assert_eq!(answer.result()["resultType"], "complete", "{how}");
    }
}
