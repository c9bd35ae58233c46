//! Detection of a server's era (rows ): `server/discover` and `initialize` are the only
//! probes, and only conclusive responses determine the era.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::rig::client::Request;
use crate::rig::upstream::{legacy, modern};
use crate::rig::{Gate, HeardMessage, Say, Upstream, Value, json, until};

/// Returns a legacy server with this response to the probe.
fn old(
    probe: impl Fn(&HeardMessage) -> Say + Send + Sync + 'static,
) -> impl Fn(&HeardMessage) -> Say + Send + Sync + 'static {
    let server = legacy("2025-06-18", &["t"]);
    move |heard| if heard.method() == "server/discover" { probe(heard) } else { server(heard) }
}

fn methods(server: &Upstream) -> Vec<String> {
    server.heard().iter().filter(|h| h.verb != "GET").map(|h| h.method().to_owned()).collect()
}

/// over stdio, any error without a modern code leads to `initialize`.
#[tokio::test]
async fn any_unrecognized_error_means_legacy() {
    for codes in [
        &[-32601, -32602, -32600, -32603][..],
        &[-32700, -32000, -32001, -32002],
        &[0, 1, 404, -1, i64::MAX],
    ] {
        let mut servers = json!({});
        let mut all = Vec::new();
        for (n, &code) in codes.iter().enumerate() {
            let server =
                Upstream::lines(old(move |heard| Say::Json(heard.error(code, "what?")))).await;
            servers[format!("s{n}")] = server.config();
            all.push(server);
        }
        let gate = Gate::start(json!({"servers": servers})).await;
        for (n, server) in all.iter().enumerate() {
            let answer = gate.call(&format!("s{n}__t")).await;
            assert_eq!(answer.code(), 0, "{}: {}", codes[n], answer.text());
            assert_eq!(
                methods(server)[..3],
                ["server/discover", "initialize", "notifications/initialized"],
                "{}",
                codes[n]
            );
        }
    }
}

/// also over HTTP, with any status of the error; and for a discovery that lists only
/// legacy versions.
#[tokio::test]
async fn what_is_no_modern_answer_means_legacy_over_http() {
    let cases: Vec<(&str, Upstream)> =
        vec![
            ("400", Upstream::http(old(|h| Say::Status(400, Vec::new(), h.error(-32000, "no session")))).await),
            ("404", Upstream::http(old(|_| Say::Status(404, Vec::new(), Value::Null))).await),
            ("405", Upstream::http(old(|_| Say::Status(405, Vec::new(), Value::Null))).await),
            ("406", Upstream::http(old(|_| Say::Status(406, Vec::new(), Value::Null))).await),
            ("200 with an error", Upstream::http(old(|h| Say::Json(h.error(-32601, "?")))).await),
            ("text", Upstream::http(old(|_| Say::Text("text/plain", b"Bad Request".to_vec()))).await),
            ("a strange result", Upstream::http(old(|h| Say::Json(h.result(json!({}))))).await),
            (
                "legacy versions",
                Upstream::http(old(|h| {
                    Say::Json(h.result(
                        json!({"resultType": "complete", "supportedVersions": ["2025-06-18"], "capabilities": {}}),
                    ))
                }))
                .await,
            ),
            (
                "-32022 with legacy versions",
                Upstream::http(old(|h| {
                    let mut error = h.error(-32022, "no");
                    error["error"]["data"] = json!({"supported": ["2025-06-18"], "requested": "2026-07-28"});
                    Say::Status(400, Vec::new(), error)
                }))
                .await,
            ),
        ];
    let servers: Value = cases
        .iter()
        .enumerate()
        .map(|(n, (_, s))| (format!("s{n}"), s.config()))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let gate = Gate::start(json!({"servers": servers})).await;
    for (n, (case, server)) in cases.iter().enumerate() {
        let answer = gate.call(&format!("s{n}__t")).await;
        assert_eq!(answer.code(), 0, "{case}: {}", answer.text());
        // L-04: the version header on all requests after initialize.
        let call = &server.heard_of("tools/call")[0];
        assert_eq!(call.header("mcp-protocol-version"), Some("2025-06-18"), "{case}");
        assert_eq!(call.header("mcp-session-id"), Some("abc"), "{case}");
    }
}

/// errors specific to modern servers never lead to `initialize`.
#[tokio::test]
async fn modern_errors_never_lead_to_initialize() {
    let refuse = |code: i64| {
        old(move |heard| {
            let mut error = heard.error(code, "no");
            error["error"]["data"] =
                json!({"supported": ["2026-07-28"], "requested": "2026-07-28"});
            Say::Status(400, Vec::new(), error)
        })
    };
    let (a, b, c) = (
        Upstream::http(refuse(-32022)).await,
        Upstream::http(refuse(-32021)).await,
        Upstream::lines(refuse(-32020)).await,
    );
    let servers = json!({"a": a.config(), "b": b.config(), "c": c.config()});
    let gate = Gate::start(json!({"servers": servers})).await;
    until("several attempts", async || {
        (a.heard().len() > 2 && b.heard().len() > 1 && c.heard().len() > 1).then_some(())
    })
    .await;
    for server in [&a, &b, &c] {
        assert!(methods(server).iter().all(|m| m == "server/discover"), "{:?}", methods(server));
    }
    drop(gate);
}

/// a child that exits on the probe is restarted with `initialize` directly, also after a
/// crash.
#[tokio::test]
async fn a_child_that_ends_at_the_probe_is_initialized_at_the_next_start() {
    let server = Upstream::lines(old(|_| Say::Close)).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    assert_eq!(gate.call("a__t").await.code(), 0);
    assert_eq!(
        methods(&server)[..3],
        ["server/discover", "initialize", "notifications/initialized"]
    );
    for pid in gate.children() {
        crate::rig::signal(pid, rustix::process::Signal::KILL);
    }
    until("it is back", async || {
        (server.count("initialize") == 2 && gate.call("a__t").await.code() == 0).then_some(())
    })
    .await;
}

/// denials and outages are inconclusive, so they never mark a server as legacy.
#[tokio::test]
async fn an_outage_is_no_evidence_of_an_era() {
    let mut servers = json!({});
    let mut all = Vec::new();
    for status in [401, 403, 408, 429, 500, 502, 503, 504] {
        let probes = AtomicUsize::new(0);
        let good = modern(&["t"]);
        let server = Upstream::http(move |heard| {
            let first =
                heard.method() == "server/discover" && probes.fetch_add(1, Ordering::SeqCst) < 2;
            if first { Say::Status(status, Vec::new(), Value::Null) } else { good(heard) }
        })
        .await;
        servers[format!("s{status}")] = server.config();
        all.push((status, server));
    }
    let gate = Gate::start(json!({"servers": servers})).await;
    for (status, server) in &all {
        until("it is connected", async || {
            (gate.call(&format!("s{status}__t")).await.code() == 0).then_some(())
        })
        .await;
        assert_eq!(server.count("initialize"), 0, "{status}");
    }
}

/// only the two probes precede the detection of the era, and no call is sent twice.
#[tokio::test]
async fn a_probe_has_no_effects() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    assert_eq!(methods(&server)[0], "server/discover");
    for n in 1..=5 {
        assert_eq!(gate.call("a__t").await.code(), 0);
        assert_eq!(server.count("tools/call"), n);
    }
    assert_eq!(server.count("initialize"), 0);
    assert_eq!(server.count("server/discover"), 1, "R-10: asked once");
}

/// the detected era applies to all connections of a server until its restart.
#[tokio::test]
async fn an_era_is_found_out_once_and_again_after_a_restart() {
    let turned = std::sync::Arc::new(AtomicUsize::new(0));
    let now = std::sync::Arc::clone(&turned);
    let server = Upstream::lines(move |heard| match (now.load(Ordering::SeqCst), heard.method()) {
        (0, "server/discover") => Say::Json(heard.error(-32601, "no such method")),
        (0, _) => legacy("2025-06-18", &["t"])(heard),
        (_, "initialize") => {
            let mut error = heard.error(-32022, "unsupported protocol version");
            error["error"]["data"] =
                json!({"supported": ["2026-07-28"], "requested": "2025-11-25"});
            Say::Json(error)
        }
        _ => modern(&["t"])(heard),
    })
    .await;
    let own = server.with(json!({"sessions": "client"}));
    let gate = Gate::start(json!({"servers": {"a": own}})).await;
    for n in 2..=3 {
        let session = gate.session("/mcp", "2025-11-25").await;
        assert_eq!(session.call("a__t").await.code(), 0);
        assert_eq!(
            (server.count("initialize"), server.count("server/discover")),
            (n, 1),
            "asked once for all processes"
        );
    }
    turned.store(1, Ordering::SeqCst);
    for pid in gate.children() {
        crate::rig::signal(pid, rustix::process::Signal::KILL);
    }
    until("it is asked again", async || (server.count("server/discover") == 2).then_some(())).await;
    until("it is back", async || (gate.call("a__t").await.code() == 0).then_some(())).await;
    assert_eq!(
        server.heard_of("tools/call").last().unwrap().body["params"]["_meta"]
            .as_object()
            .map(|m| m.len() > 1),
        Some(true)
    );
}

/// Tasks of 2025-11-25 are not supported for servers, and not declared to legacy servers. A request
/// for a task is rejected or ignored, and a call is cancelled as a call.
#[tokio::test]
async fn no_task_is_begun_that_a_tool_does_not_run_as() {
    let good = legacy("2025-11-25", &["t"]);
    let server = Upstream::lines(move |heard| match heard.method() {
        "server/discover" => Say::Json(heard.error(-32601, "no such method")),
        "initialize" => Say::Json(heard.result(json!({
            "protocolVersion": "2025-11-25", "serverInfo": {"name": "old", "version": "1"},
            "capabilities": {"tools": {}, "tasks": {"cancel": {}, "list": {}, "requests": {"tools": {"call": {}}}}},
        }))),
        "tools/call" => Say::Nothing,
        _ => good(heard),
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let claimed =
        server.heard_of("initialize").pop().unwrap().body["params"]["capabilities"].clone();
    assert!(claimed.get("tasks").is_none(), "{claimed}");
    let tasks = json!({"tasks": {"cancel": {}, "list": {}, "requests": {"tools": {"call": {}}}}});
    let older = gate.session_with("/mcp", "2025-06-18", tasks.clone()).await;
    assert!(older.welcome["capabilities"].get("tasks").is_none(), "{}", older.welcome);
    let session = gate.session_with("/mcp", "2025-11-25", tasks.clone()).await;
    assert_eq!(session.welcome["capabilities"]["tasks"], tasks["tasks"]);
    let wish = json!({"name": "a__t", "arguments": {}, "task": {"ttl": 60_000}});
    assert_eq!(session.ask("tools/call", wish.clone()).await.code(), -32601);
    assert_eq!(server.count("tools/call"), 0);
    // Older revisions do not define `task`, so it is dropped.
    let call = Request::legacy("/mcp", &older.id, 41, "tools/call", &wish);
    let answer = async { call.send(gate.address).await };
    let cancel = async {
        until("the call arrived", async || (server.count("tools/call") == 1).then_some(())).await;
        let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 41}});
        assert_eq!(older.post(note.to_string()).send(gate.address).await.status, 202);
    };
    let (answer, ()) = tokio::join!(answer, cancel);
    assert!(!answer.text().contains("taskId"), "{}", answer.text());
    let heard = server.heard_of("tools/call").remove(0);
    assert!(heard.body["params"].get("task").is_none(), "{}", heard.text);
    until("the call is cancelled", async || {
        (server.count("notifications/cancelled") == 1).then_some(())
    })
    .await;
    let cancelled = server.heard_of("notifications/cancelled").remove(0);
    assert_eq!(cancelled.body["params"]["requestId"], heard.body["id"], "{}", cancelled.text);
    assert_eq!(session.ask("tasks/list", json!({})).await.result(), json!({"tasks": []}));
    for method in ["tasks/get", "tasks/cancel", "tasks/result", "tasks/list"] {
        let (own, old) = (
            session.ask(method, json!({"taskId": "x"})).await,
            older.ask(method, json!({"taskId": "x"})).await,
        );
        assert_eq!(old.code(), -32601, "{method}");
        assert!(matches!(own.code(), 0 | -32602), "{method}: {}", own.text());
        assert_eq!(server.count(method), 0, "{method}");
    }
}

/// F-24: a slow handshake is abandoned without a cancellation notification.
#[tokio::test]
async fn an_initialize_is_never_cancelled() {
    let server = Upstream::lines(|heard| match heard.method() {
        "server/discover" => Say::Json(heard.error(-32601, "no such method")),
        _ => Say::Nothing,
    })
    .await;
    let slow = server.with(json!({"start_timeout": 1}));
    let gate =
        Gate::launch(json!({"servers": {"a": slow}, "limits": {"discovery_deadline": 1}})).await;
    until("it was tried twice", async || (server.count("initialize") >= 2).then_some(())).await;
    assert_eq!(server.count("notifications/cancelled"), 0);
    drop(gate);
}
