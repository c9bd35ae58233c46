//! Hung servers: detected before a call fails, and recovered automatically. Slow servers are left
//! alone, and a call triggers the reconnection of a server that was down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::rig::client::Request;
use crate::rig::upstream::{legacy, modern};
use crate::rig::{Gate, HeardMessage, Say, Upstream, Value, alive, fixture, json, signal, until};

/// Returns health checks with an interval and a timeout of a second.
fn health() -> Value {
    json!({"interval": 1, "timeout": 1})
}

fn with(mut config: Value, more: Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

async fn metrics(gate: &Gate) -> String {
    Request::bare("GET", "/metrics", "").send(gate.address).await.text()
}

async fn is(gate: &Gate, server: &str, state: &str) -> bool {
    metrics(gate)
        .await
        .contains(&format!("lockgate_server_state{{server=\"{server}\",state=\"{state}\"}} 1"))
}

async fn restarts(gate: &Gate, server: &str) -> u32 {
    let text = metrics(gate).await;
    let head = format!("lockgate_server_restarts_total{{server=\"{server}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&head)?.parse().ok()).unwrap_or_default()
}

/// A hung child without calls is detected and restarted. Calls are answered before or after the
/// restart, never twice.
#[tokio::test]
async fn a_hung_child_is_started_anew() {
    for era in ["modern", "legacy"] {
        let server = with(fixture(&["--era", era]), json!({"health": health()}));
        let gate = Gate::start(json!({"servers": {"a": server, "b": fixture(&[])}})).await;
        assert_eq!(gate.call("a__test_simple_text").await.code(), 0);
        let before = gate.children();
        let log = gate.log();
        let line = log
            .lines()
            .find(|line| line.contains("child process started") && line.contains("server=\"a\""));
        let pid = line
            .and_then(|l| l.split("pid=").nth(1)?.split_whitespace().next()?.parse().ok())
            .unwrap();
        assert!(before.contains(&pid), "{before:?} {pid}");
        signal(pid, Signal::STOP);
        until("it is ended", async || (!alive(pid)).then_some(())).await;
        until("it is back", async || {
            (gate.call("a__test_simple_text").await.code() == 0).then_some(())
        })
        .await;
        until("it is counted", async || (restarts(&gate, "a").await == 1).then_some(())).await;
        assert!(gate.log().contains("did not answer a ping within 1 s"), "{era}");
        assert_eq!(restarts(&gate, "b").await, 0);
    }
}

/// A call on a hung child keeps its own timeout and ends with an error, while the state reports the
/// hang.
#[tokio::test]
async fn a_call_of_a_hung_child_has_its_own_time() {
    for era in ["modern", "legacy"] {
        let more = json!({"health": health(), "timeout": 4});
        let gate =
            Gate::start(json!({"servers": {"a": with(fixture(&["--era", era]), more)}})).await;
        let pid = gate.children()[0];
        signal(pid, Signal::STOP);
        let began = Instant::now();
        let call = gate.call("a__test_simple_text");
        let watched = async {
            until("the state says so", async || is(&gate, "a", "unresponsive").await.then_some(()))
                .await;
            assert!(alive(pid), "a call still runs");
            let (_, list) = gate.tools("/mcp").await;
            let degraded = &list["_meta"]["lockgate/degraded"][0];
            assert_eq!(
                (&degraded["server"], &degraded["state"]),
                (&json!("a"), &json!("unresponsive")),
                "{list}"
            );
        };
        let (answer, ()) = tokio::join!(call, watched);
        assert!(began.elapsed() > Duration::from_millis(3500), "{:?}", began.elapsed());
        assert_eq!(answer.code(), -32603, "{}", answer.text());
        until("it is ended", async || (!alive(pid)).then_some(())).await;
        until("it is back", async || {
            (gate.call("a__test_simple_text").await.code() == 0).then_some(())
        })
        .await;
        until("it is counted", async || (restarts(&gate, "a").await == 1).then_some(())).await;
    }
}

/// A slow, single-threaded server keeps its process, although it cannot answer pings during a call.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slow_server_is_left_alone() {
    for new in [true, false] {
        let (good, old) = (modern(&["slow"]), legacy("2025-06-18", &["slow"]));
        let server = Upstream::lines(move |heard| {
            if heard.method() == "tools/call" {
                std::thread::sleep(Duration::from_secs(5));
            }
            if new { good(heard) } else { old(heard) }
        })
        .await;
        let servers = json!({"a": server.with(json!({"health": health(), "timeout": 10}))});
        let gate = Gate::start(json!({"servers": servers})).await;
        let children = gate.children();
        let watched =
            until("it is silent", async || is(&gate, "a", "unresponsive").await.then_some(()));
        let (answer, ()) = tokio::join!(gate.call("a__slow"), watched);
        assert_eq!(answer.code(), 0, "{}", answer.text());
        until("it is heard again", async || is(&gate, "a", "connected").await.then_some(())).await;
        assert_eq!((gate.children(), restarts(&gate, "a").await), (children, 0));
    }
}

/// Some servers do not implement the mandatory ping: a list request is the fallback.
#[tokio::test]
async fn a_server_without_ping_is_left_alone() {
    let good = legacy("2025-06-18", &["t"]);
    let server = Upstream::lines(move |heard: &HeardMessage| match heard.method() {
        "ping" => Say::Nothing,
        _ => good(heard),
    })
    .await;
    let gate =
        Gate::start(json!({"servers": {"a": server.with(json!({"health": health()}))}})).await;
    until("it is asked for a list", async || (server.count("tools/list") >= 3).then_some(())).await;
    assert_eq!((server.count("ping"), restarts(&gate, "a").await), (1, 0));
    assert!(!gate.log().contains("did not answer"), "{}", gate.log());
}

/// With health checks enabled, the hang and the recovery of an HTTP server are detected without
/// calls.
#[tokio::test]
async fn a_hung_http_server_is_known_before_it_is_called() {
    for new in [true, false] {
        let hangs = Arc::new(AtomicBool::new(false));
        let (flag, good, old) = (Arc::clone(&hangs), modern(&["t"]), legacy("2025-06-18", &["t"]));
        let server = Upstream::http(move |heard| {
            if flag.load(Ordering::SeqCst) {
                Say::Nothing
            } else if new {
                good(heard)
            } else {
                old(heard)
            }
        })
        .await;
        let more = json!({"health": health(), "start_timeout": 2});
        let gate = Gate::start(json!({"servers": {"a": server.with(more)}})).await;
        hangs.store(true, Ordering::SeqCst);
        until("the state says so", async || (!is(&gate, "a", "connected").await).then_some(()))
            .await;
        assert_eq!(server.count("tools/call"), 0);
        let began = Instant::now();
        assert_eq!(gate.call("a__t").await.code(), -32603);
        assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
        assert_eq!(server.count("tools/call"), 0);
        hangs.store(false, Ordering::SeqCst);
        until("it is back", async || is(&gate, "a", "connected").await.then_some(())).await;
        assert_eq!(gate.call("a__t").await.code(), 0);
    }
}

/// Retry delays grow, but a call triggers an attempt immediately, and many calls share an attempt.
#[tokio::test]
async fn a_server_that_was_down_is_tried_when_it_is_called() {
    let mut server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    server.stop().await;
    assert_eq!(gate.call("a__t").await.code(), -32603);
    until("some attempts", async || (restarts(&gate, "a").await >= 5).then_some(())).await;
    // The next attempt is 6.4 s away, and another immediate attempt is not due yet.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let (before, began) = (server.count("server/discover"), Instant::now());
    server.restart().await;
    let gate = Arc::new(gate);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let gate = Arc::clone(&gate);
        calls.spawn(async move { gate.call("a__t").await });
    }
    while let Some(answer) = calls.join_next().await {
        let answer = answer.unwrap();
        assert_eq!(answer.code(), 0, "{}", answer.text());
    }
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(server.count("server/discover"), before + 1);
}
