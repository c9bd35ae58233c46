//! Information about servers for operators and callers: limits, breakers, failure messages, and the
//! request id in log lines.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::rig::client::Request;
use crate::rig::gate::command;
use crate::rig::upstream::modern;
use crate::rig::{Gate, HeardMessage, Say, Upstream, Value, json, until};

/// Returns a server that never answers calls of `slow`, and hangs up on calls of `broken`.
fn odd() -> impl Fn(&HeardMessage) -> Say + Send + Sync + 'static {
    let usual = modern(&["slow", "broken", "good"]);
    move |heard| match (heard.method(), heard.body["params"]["name"].as_str()) {
        ("tools/call", Some("slow")) => Say::Nothing,
        ("tools/call", Some("broken")) => Say::Close,
        _ => usual(heard),
    }
}

async fn shown(gate: &Gate, name: &str) -> Value {
    let result = gate.call("system__servers").await.result();
    let all = result["structuredContent"]["servers"].as_array().cloned().unwrap_or_default();
    all.into_iter()
        .find(|server| server["name"] == name)
        .unwrap_or_else(|| panic!("no {name}: {result}"))
}

#[tokio::test]
async fn bounds_and_breakers_of_servers_are_visible() {
    let (a, b) = (Upstream::http(odd()).await, Upstream::http(odd()).await);
    let more = json!({"timeout": 20, "concurrency": 3, "queue": 5, "tool_timeouts": {"slow": 30},
        "breaker": {"failures": 1, "cooldown": 60}});
    let gate = Gate::start(json!({
        "builtin": {"system": true, "example": false}, "servers": {"a": a.with(more.clone()), "b": b.with(more)},
    }))
    .await;
    let call = Request::modern("/mcp", "tools/call", json!({"name": "a__slow", "arguments": {}}));
    let held = tokio::net::TcpStream::connect(gate.address).await.unwrap();
    let mut held = held;
    tokio::io::AsyncWriteExt::write_all(&mut held, &call.bytes()).await.unwrap();
    until("the call runs", async || (a.count("tools/call") == 1).then_some(())).await;
    assert_eq!(gate.call("b__good").await.code(), 0);
    assert_ne!(gate.call("b__broken").await.code(), 0);
    let load = shown(&gate, "a").await["load"].clone();
    let wanted = json!({"startTimeoutMs": load["startTimeoutMs"], "timeoutMs": 20_000, "toolTimeoutsMs": {"slow": 30_000},
        "running": 1, "concurrency": 3, "waiting": 0, "queue": 5, "silentMs": load["silentMs"],
        "breaker": {"state": "closed", "failures": 0}});
    assert_eq!(load, wanted);
    assert!(load["silentMs"].as_u64().is_some_and(|ms| ms < 10_000), "{load}");
    let breaker = shown(&gate, "b").await["load"]["breaker"].clone();
    assert_eq!(breaker["state"], "open", "{breaker}");
    assert!(breaker["why"].as_str().is_some_and(|why| !why.is_empty()), "{breaker}");
    assert!(breaker["retryInMs"].as_u64().is_some_and(|ms| ms > 1000), "{breaker}");
    let metrics = Request::bare("GET", "/metrics", "").send(gate.address).await.text();
    for line in [
        "lockgate_server_calls_running{server=\"a\"} 1",
        "lockgate_server_calls_limit{server=\"a\"} 3",
        "lockgate_server_calls_waiting{server=\"a\"} 0",
        "lockgate_server_calls_queue{server=\"a\"} 5",
        "lockgate_server_timeout_seconds{server=\"a\"} 20",
        "lockgate_server_breaker_open{server=\"a\"} 0",
        "lockgate_server_breaker_open{server=\"b\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    let spent = metrics.lines().find(|line| {
        line.starts_with("lockgate_tool_duration_seconds_sum{")
            && line.contains("server=\"b\",tool=\"good\"")
    });
    let spent = spent.and_then(|line| line.rsplit(' ').next()).and_then(|n| n.parse::<f64>().ok());
    assert!(spent.is_some_and(|seconds| seconds > 0.0 && seconds < 10.0), "{metrics}");
}

/// A failure message names the failure and the place once; callers get the reason without the
/// address.
#[tokio::test]
async fn a_failure_says_what_failed_and_where() {
    let plain = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tls = plain.local_addr().unwrap();
    let plain = tokio::spawn(async move {
        while let Ok((mut socket, _)) = plain.accept().await {
            let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
            let _ = tokio::io::AsyncWriteExt::write_all(&mut socket, answer).await;
            let _ = tokio::io::copy(&mut socket, &mut tokio::io::sink()).await;
        }
    });
    let lost = Upstream::http(|_: &HeardMessage| Say::Status(404, Vec::new(), Value::Null)).await;
    let mut gone = Upstream::http(modern(&["t"])).await;
    gone.stop().await;
    let closed = gone.address;
    let servers = json!({
        "closed": {"url": format!("http://{closed}/mcp")},
        "tls": {"url": format!("https://{tls}/mcp")},
        "lost": lost.with(json!({"era": "modern"})),
    });
    let gate =
        Gate::launch(json!({"builtin": {"system": true, "example": false}, "servers": servers}))
            .await;
    until("everything has failed", async || {
        let log = gate.log();
        ["closed", "tls", "lost"]
            .iter()
            .all(|name| log.contains(&format!("server={name} state")))
            .then_some(())
    })
    .await;
    let run = tokio::task::spawn_blocking({
        let file = gate.folder.path().join("lockgate.json");
        move || command().args(["servers", "--json", "--config"]).arg(file).output().unwrap()
    });
    let output = run.await.unwrap();
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let trouble = |name: &str| {
        let found = all.iter().find(|server| server["name"] == name);
        found.and_then(|server| server["trouble"].as_str()).unwrap_or_default().to_owned()
    };
    let words = trouble("closed");
    assert!(words.starts_with(&format!("connect failed: {closed}: Connection refused")), "{words}");
    let words = trouble("tls");
    assert!(words.contains("does not speak TLS") && words.contains(&tls.to_string()), "{words}");
    let words = trouble("lost");
    assert!(words.contains("HTTP status 404") && !words.contains("legacy"), "{words}");
    assert!(
        all.iter()
            .find(|s| s["name"] == "closed")
            .is_some_and(|s| s["load"]["breaker"]["state"] == "closed")
    );
    for (name, stage, reason) in [
        ("closed", "connect", "the connection was refused"),
        ("tls", "tls", "the encrypted connection failed"),
        ("lost", "http", "no MCP server at this address"),
    ] {
        let server = shown(&gate, name).await;
        assert_eq!(
            (&server["failedStage"], &server["failedReason"]),
            (&json!(stage), &json!(reason)),
            "{server}"
        );
        assert!(!server.to_string().contains(&closed.port().to_string()), "{server}");
    }
    let (_, listed) = gate.tools("/mcp").await;
    let missing = listed["_meta"]["lockgate/degraded"].to_string();
    assert!(missing.contains("connect failed: the connection was refused"), "{listed}");
    plain.abort();
}

/// A server whose lists cannot be read again has a fault in the API, at the tool and on the command
/// line, although its earlier lists still serve; the next good read ends it.
#[tokio::test]
async fn a_list_that_cannot_be_read_again_is_a_fault() {
    const CHANGED: &str = "\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}";
    let turns = AtomicUsize::new(0);
    let usual = modern(&["t"]);
    let lists = Upstream::lines(move |heard| match heard.method() {
        "tools/list" if turns.fetch_add(1, Ordering::SeqCst) == 1 => {
            let result = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
            Say::Text("", heard.result(result).to_string().into_bytes())
        }
        "tools/list" | "tools/call" => {
            let Say::Json(answer) = usual(heard) else { unreachable!("it answers") };
            Say::Text("", format!("{answer}{CHANGED}").into_bytes())
        }
        _ => usual(heard),
    })
    .await;
    let gate = Gate::start(json!({
        "builtin": {"system": true, "example": false}, "servers": {"lists": lists.config()},
    }))
    .await;
    let described = async || {
        let shown = Request::bare("GET", "/api/servers/lists", "").send(gate.address).await;
        shown.json()
    };
    let failing = until("the lists cannot be read", async || {
        Some(described().await).filter(|server| server["fault"].is_object())
    })
    .await;
    assert_eq!((&failing["state"], &failing["stage"]), (&json!("connected"), &json!("list")));
    assert_eq!(failing["fault"]["summary"], "lists did not list its tools.");
    let cause = "The result of tools/list has no `tools`.";
    assert_eq!(failing["fault"]["cause"], cause);
    assert_eq!(failing["reason"], "list failed: its lists could not be read");
    let told = shown(&gate, "lists").await;
    assert_eq!(told["failedStage"], "list", "{told}");
    let url = format!("http://{}", gate.address);
    let run = tokio::task::spawn_blocking(move || {
        command().args(["servers", "--url", &url]).output().unwrap()
    });
    let output = run.await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("failing") && text.contains("list failed"), "{text}");
    assert!(!output.status.success());
    // The earlier list serves, and with the next good one all is well.
    assert_eq!(gate.call("lists__t").await.code(), 0);
    until("the lists were read", async || described().await["fault"].is_null().then_some(())).await;
}

/// A log line about a request carries the client's request id, or a generated id.
#[tokio::test]
async fn a_line_of_the_log_names_its_request() {
    let a = Upstream::http(odd()).await;
    let gate = Gate::start(
        json!({"servers": {"a": a.config()}, "log": {"level": "info", "format": "json"}}),
    )
    .await;
    let broken =
        || Request::modern("/mcp", "tools/call", json!({"name": "a__broken", "arguments": {}}));
    let answer = broken().with("X-Request-Id", "trace-me.1").send(gate.address).await;
    assert_eq!(answer.header("x-request-id"), Some("trace-me.1"));
    let odd = broken().with("X-Request-Id", "no \"good\" name").send(gate.address).await;
    assert_eq!(odd.header("x-request-id"), None);
    let lines = until("both calls are logged", async || {
        let log = gate.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lines: Vec<Value> = lines.filter(|line| line["message"] == "call failed").collect();
        (lines.len() == 2).then_some(lines)
    })
    .await;
    assert_eq!((&lines[0]["request_id"], &lines[0]["rpc_id"]), (&json!("trace-me.1"), &json!("1")));
    let made = lines[1]["request_id"].as_str().unwrap();
    assert!(made.contains('-') && !made.contains(' '), "{made}");
}

#[tokio::test]
async fn a_log_of_json_is_nothing_else() {
    let server = Upstream::http(modern(&["t"])).await;
    let log = json!({"format": "json"});
    let mut gate = Gate::start(json!({"servers": {"a": server.config()}, "log": log})).await;
    assert_eq!(gate.call("a__t").await.code(), 0);
    gate.terminate();
    assert_eq!(gate.ended().await, Some(0));
    let text = gate.log();
    assert!(text.lines().count() >= 3, "{text}");
    for line in text.lines() {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(object.is_object(), "{line}");
    }
    assert!(text.contains(&format!("http://{}", gate.address)), "{text}");
}
