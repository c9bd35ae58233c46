//! Streams: notifications of a listen, messages of a call before its response, and disconnected
//! clients (rows E-20, F-19 to F-26).

use std::time::Duration;

use crate::rig::client::Request;
use crate::rig::upstream::{legacy, modern};
use crate::rig::{Gate, HeardMessage, Say, Upstream, Value, fixture, json, until};

fn notes(messages: &[Value], method: &str) -> Vec<Value> {
    messages.iter().filter(|m| m["method"] == method).cloned().collect()
}

/// E-20: event streams are not buffered, and comments keep an idle stream alive.
#[tokio::test]
async fn an_idle_listen_is_kept_alive() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate =
        Gate::start(json!({"servers": {"a": server.config()}, "http": {"keep_alive": 1}})).await;
    let listen = Request::modern("/mcp", "subscriptions/listen", json!({"notifications": {}}));
    let mut stream = listen.open(gate.address).await;
    assert_eq!(stream.head.status, 200);
    assert_eq!(stream.head.header("x-accel-buffering"), Some("no"));
    assert_eq!(stream.head.header("content-type").map(|t| &t[..17]), Some("text/event-stream"));
    assert!(stream.block().await.unwrap().contains("acknowledged"));
    assert!(stream.block().await.unwrap().starts_with(':'));
    let session = gate.session("/mcp", "2025-06-18").await;
    assert!(session.listen().await.block().await.unwrap().starts_with(':'));
}

/// F-19: the acknowledgement comes first and lists the granted notifications; every message has the
/// listen's id in its JSON type; other notifications are not sent.
#[tokio::test]
async fn a_listen_tells_what_was_asked_and_nothing_else() {
    let gate = Gate::start(json!({"servers": {"f": fixture(&[])}})).await;
    let params = |filter: Value| crate::rig::client::with_meta(json!({"notifications": filter}));
    let open = async |id: &str, filter: Value| {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"subscriptions/listen","params":{}}}"#,
            params(filter)
        );
        let mut stream = Request::modern("/mcp", "subscriptions/listen", json!({}))
            .body(body)
            .open(gate.address)
            .await;
        let first = stream.next().await.unwrap();
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
        assert_eq!(
            first["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].to_string(),
            id
        );
        (stream, first["params"]["notifications"].clone())
    };
    let watched = json!(["f+test://watched-resource", "f+test://no-such", "zzz+test://x"]);
    let (mut tools, granted) = open(
        "\"x-1\"",
        json!({"toolsListChanged": true, "resourceSubscriptions": watched, "odd": true}),
    )
    .await;
    assert_eq!(granted["toolsListChanged"], true);
    assert!(
        granted.get("odd").is_none() && granted.get("promptsListChanged").is_none(),
        "{granted}"
    );
    assert!(!granted.to_string().contains("zzz"), "{granted}");
    let (mut prompts, _) = open("17", json!({"promptsListChanged": true})).await;
    assert_eq!(gate.call("f__test_trigger_tool_change").await.code(), 0);
    assert_eq!(gate.call("f__test_trigger_prompt_change").await.code(), 0);
    let told = tools.next().await.unwrap();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "x-1");
    let told = prompts.next().await.unwrap();
    assert_eq!(told["method"], "notifications/prompts/list_changed");
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 17);
    for stream in [&mut tools, &mut prompts] {
        assert!(
            tokio::time::timeout(Duration::from_millis(300), stream.next()).await.is_err(),
            "nothing else is told"
        );
    }
    // F-01: by now the list of every client contains the tool.
    assert!(gate.tools("/mcp").await.0.contains(&"f__test_extra_tool".to_owned()));
    let bad = gate.modern("/mcp", "subscriptions/listen", json!({})).await;
    assert_eq!(bad.code(), -32602, "{}", bad.text());
}

/// F-25, F-26: progress is sent only with a token, under the client's token, in ascending order;
/// logs only on request.
#[tokio::test]
async fn progress_and_logs_reach_those_who_asked() {
    for era in ["modern", "legacy"] {
        let gate = Gate::start(json!({"servers": {"f": fixture(&["--era", era])}})).await;
        let call = async |tool: &str, meta: Value| {
            let params = json!({"name": tool, "arguments": {}, "_meta": meta});
            let answer = gate.modern("/mcp", "tools/call", params).await;
            assert_eq!(answer.status, 200, "{era} {tool}: {}", answer.text());
            let streams =
                answer.header("content-type").is_some_and(|t| t.starts_with("text/event-stream"));
            if streams { answer.events() } else { vec![answer.json()] }
        };
        for token in [json!("tok"), json!(7)] {
            let all = call("f__test_tool_with_progress", json!({"progressToken": token})).await;
            let progress = notes(&all, "notifications/progress");
            assert_eq!(progress.len(), 3, "{era}: {all:?}");
            assert!(
                progress.iter().all(|p| p["params"]["progressToken"] == token),
                "{era}: {all:?}"
            );
            let values: Vec<f64> =
                progress.iter().map(|p| p["params"]["progress"].as_f64().unwrap()).collect();
            assert!(values.windows(2).all(|w| w[0] < w[1]), "{values:?}");
            assert!(all.last().unwrap()["result"].is_object());
            // E-22
            assert!(
                all.iter().all(|m| m.get("method").is_none() || m.get("id").is_none()),
                "{all:?}"
            );
        }
        assert_eq!(call("f__test_tool_with_progress", json!({})).await.len(), 1, "{era}");
        assert_eq!(
            notes(&call("f__test_tool_with_logging", json!({})).await, "notifications/message")
                .len(),
            0,
            "{era}"
        );
        let logged =
            call("f__test_tool_with_logging", json!({"io.modelcontextprotocol/logLevel": "info"}))
                .await;
        assert_eq!(notes(&logged, "notifications/message").len(), 3, "{era}: {logged:?}");
        let quiet =
            call("f__test_tool_with_logging", json!({"io.modelcontextprotocol/logLevel": "error"}))
                .await;
        assert_eq!(notes(&quiet, "notifications/message").len(), 0, "{era}: {quiet:?}");
    }
}

/// Sends 25,000 steps of progress, each with a log message, before the response.
fn eager(heard: &HeardMessage) -> Say {
    if heard.method() != "tools/call" {
        return modern(&["t"])(heard);
    }
    let token = &heard.body["params"]["_meta"]["progressToken"];
    let step = |step: u32| {
        let params = json!({"progressToken": token, "progress": step, "total": 25_000});
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).to_string()
    };
    let log = |level: &str| {
        let params = json!({"level": level, "data": "x"});
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}).to_string()
    };
    let mut lines: Vec<String> = (1..=25_000).flat_map(|at| [step(at), log("info")]).collect();
    lines.push(log("error"));
    lines.push(heard.result(json!({"resultType": "complete", "content": []})).to_string());
    Say::Text("", lines.join("\n").into_bytes())
}

/// Endless progress and log messages are throttled, progress ascends, and its last step precedes
/// the response; in both eras.
#[tokio::test]
async fn progress_without_end_is_told_in_steps() {
    let server = Upstream::lines(eager).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let meta = json!({"progressToken": "p", "io.modelcontextprotocol/logLevel": "info"});
    let params = json!({"name": "a__t", "arguments": {}, "_meta": meta});
    let session = gate.session("/mcp", "2025-11-25").await;
    session.ask("logging/setLevel", json!({"level": "info"})).await.result();
    let legacy = Request::legacy("/mcp", &session.id, 9, "tools/call", &params);
    for call in [Request::modern("/mcp", "tools/call", params.clone()), legacy] {
        let all = call.send(gate.address).await.events();
        assert!(all.last().unwrap()["result"]["content"].is_array(), "{all:?}");
        let steps: Vec<u64> = notes(&all, "notifications/progress")
            .iter()
            .map(|note| {
                assert_eq!(note["params"]["progressToken"], "p");
                note["params"]["progress"].as_u64().unwrap()
            })
            .collect();
        assert!((2..=300).contains(&steps.len()), "{} steps", steps.len());
        assert!(steps.windows(2).all(|pair| pair[0] < pair[1]), "{steps:?}");
        assert_eq!(steps.last(), Some(&25_000), "{steps:?}");
        let logs = notes(&all, "notifications/message");
        assert!((20..=1000).contains(&logs.len()), "{} log messages", logs.len());
    }
}

/// F-22, F-23, L-09: a disconnected modern client cancels its call in the server's way; a legacy
/// client's call continues until `notifications/cancelled`.
#[tokio::test]
async fn a_client_that_goes_away_cancels_in_its_eras_way() {
    let silent = |heard: &HeardMessage| heard.method() == "tools/call";
    let new = Upstream::lines(
        move |heard| if silent(heard) { Say::Nothing } else { modern(&["t"])(heard) },
    )
    .await;
    let old = Upstream::http(move |heard| {
        if silent(heard) { Say::Nothing } else { legacy("2025-06-18", &["t"])(heard) }
    })
    .await;
    let gate = Gate::start(json!({"servers": {"new": new.config(), "old": old.config()}})).await;
    for (server, tool) in [(&new, "new__t"), (&old, "old__t")] {
        let call = Request::modern("/mcp", "tools/call", json!({"name": tool, "arguments": {}}));
        let mut socket = tokio::net::TcpStream::connect(gate.address).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut socket, &call.bytes()).await.unwrap();
        until("the call arrived", async || (server.count("tools/call") == 1).then_some(())).await;
        drop(socket);
        until("the call is cancelled", async || {
            (server.count("notifications/cancelled") == 1).then_some(())
        })
        .await;
        let (call, cancel) = (
            server.heard_of("tools/call").remove(0),
            server.heard_of("notifications/cancelled").remove(0),
        );
        assert_eq!(cancel.body["params"]["requestId"], call.body["id"], "{tool}");
    }
    let session = gate.session("/mcp", "2025-11-25").await;
    let call = Request::legacy(
        "/mcp",
        &session.id,
        55,
        "tools/call",
        &json!({"name": "new__t", "arguments": {}}),
    );
    let mut socket = tokio::net::TcpStream::connect(gate.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut socket, &call.bytes()).await.unwrap();
    until("the call arrived", async || (new.count("tools/call") == 2).then_some(())).await;
    drop(socket);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(
        new.count("notifications/cancelled"),
        1,
        "a legacy client that goes away has not cancelled"
    );
    // Ids that are not running are ignored.
    for id in [json!(56), json!("55"), json!(55)] {
        let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        assert_eq!(session.post(note.to_string()).send(gate.address).await.status, 202);
    }
    until("the call is cancelled", async || {
        (new.count("notifications/cancelled") == 2).then_some(())
    })
    .await;
    let (call, cancel) =
        (new.heard_of("tools/call").remove(1), new.heard_of("notifications/cancelled").remove(1));
    assert_eq!(cancel.body["params"]["requestId"], call.body["id"]);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(new.count("notifications/cancelled"), 2, "once");
}

/// A legacy session is notified only of its subscribed resource, with a single subscription at the
/// server.
#[tokio::test]
async fn a_subscription_reaches_its_session() {
    let gate = Gate::start(json!({"servers": {"f": fixture(&[])}})).await;
    let (one, two) = (
        gate.session("/mcp", "2025-11-25").await,
        gate.session("/servers/f/mcp", "2025-11-25").await,
    );
    let (mut first, mut second) = (one.listen().await, two.listen().await);
    let uri = "f+test://watched-resource";
    let subscribed = one.ask("resources/subscribe", json!({"uri": uri})).await;
    assert_eq!(subscribed.code(), 0, "{}", subscribed.text());
    let trigger = json!({"name": "f__test_trigger_resource_update", "arguments": {}});
    assert_eq!(gate.modern("/mcp", "tools/call", trigger).await.code(), 0);
    let told = first.next().await.unwrap();
    assert_eq!(
        (told["method"].as_str(), told["params"]["uri"].as_str()),
        (Some("notifications/resources/updated"), Some(uri))
    );
    assert!(tokio::time::timeout(Duration::from_millis(200), second.next()).await.is_err());
}

/// Answers as a server with tasks: `start` creates a task, `poke` announces its progress, and
/// `tasks/get` reports its completion.
pub fn with_tasks(heard: &HeardMessage) -> Say {
    let detail = |status: &str| {
        json!({"resultType": "complete", "taskId": "own-1", "status": status, "createdAt": "2026-11-21T10:00:00Z",
            "lastUpdatedAt": "2026-11-21T10:00:01Z", "ttlMs": 60_000})
    };
    match (heard.method(), heard.body["params"]["name"].as_str().unwrap_or_default()) {
        ("server/discover", _) => Say::Json(heard.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
            "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
        }))),
        ("tools/call", "start") => {
            let mut created = detail("working");
            created["resultType"] = "task".into();
            Say::Json(heard.result(created))
        }
        ("tools/call", "poke") => {
            // The server's own status of the task is not relayed.
            let note = json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": {"taskId": "own-1", "status": "odd"}});
            let done = heard.result(json!({"resultType": "complete", "content": []}));
            Say::Text("application/json", format!("{note}\n{done}").into_bytes())
        }
        ("tasks/get", _) => {
            let mut done = detail("completed");
            done["result"] =
                json!({"content": [{"type": "resource_link", "uri": "test://x", "name": "x"}], "isError": false});
            Say::Json(heard.result(done))
        }
        ("subscriptions/listen", _) => {
            let tagged = json!({"io.modelcontextprotocol/subscriptionId": heard.body["id"]});
            let granted = &heard.body["params"]["notifications"];
            Say::Json(json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": granted, "_meta": tagged}}))
        }
        _ => modern(&["start", "poke"])(heard),
    }
}

/// T-07: a listen for tasks grants the caller's own, relays their state as of `tasks/get` under the
/// caller's id, and releases them at its end.
#[tokio::test]
async fn a_listen_follows_tasks() {
    let server = Upstream::lines(with_tasks).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let declared = json!({"io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let start = json!({"name": "a__start", "arguments": {}, "_meta": declared});
    let created = gate.modern("/mcp", "tools/call", start.clone()).await.result();
    let token = created["taskId"].as_str().unwrap().to_owned();
    assert_ne!(token, "own-1");
    let elsewhere = gate.modern(
        "/servers/a/mcp",
        "tools/call",
        json!({"name": "start", "arguments": {}, "_meta": declared}),
    );
    let foreign = elsewhere.await.result()["taskId"].clone();
    let ids =
        json!({"notifications": {"taskIds": [token, "own-1", "", 7, foreign]}, "_meta": declared});
    let mut stream = Request::modern("/mcp", "subscriptions/listen", ids).open(gate.address).await;
    let granted = stream.next().await.unwrap();
    assert_eq!(granted["params"]["notifications"], json!({"taskIds": [token]}), "{granted}");
    let listens = || server.heard_of("subscriptions/listen");
    let last = listens().pop().unwrap().body["params"].clone();
    assert_eq!(last["notifications"]["taskIds"], json!(["own-1"]));
    let meta = &last["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"];
    assert!(meta["io.modelcontextprotocol/tasks"].is_object(), "{last}");
    assert_eq!(gate.call("a__poke").await.code(), 0);
    let told = stream.next().await.unwrap();
    assert_eq!(told["method"], "notifications/tasks", "{told}");
    let task = &told["params"];
    assert_eq!((&task["taskId"], &task["status"]), (&json!(token), &json!("completed")), "{told}");
    assert_eq!(task["result"]["content"][0]["uri"], "a+test://x", "{told}");
    assert_eq!(task["_meta"], json!({"io.modelcontextprotocol/subscriptionId": 1}), "{told}");
    assert!(task.get("resultType").is_none(), "{told}");
    assert_eq!(server.heard_of("tasks/get").pop().unwrap().body["params"]["taskId"], "own-1");
    // Another caller's listen, or a listen without tasks, is not notified.
    let mut other = Request::modern(
        "/mcp",
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true}}),
    )
    .open(gate.address)
    .await;
    other.next().await.unwrap();
    assert_eq!(gate.call("a__poke").await.code(), 0);
    assert_eq!(stream.next().await.unwrap()["method"], "notifications/tasks");
    assert!(tokio::time::timeout(Duration::from_millis(200), other.next()).await.is_err());
    drop(stream);
    until("the task is let go", async || {
        listens()
            .last()
            .is_some_and(|h| h.body["params"]["notifications"].get("taskIds").is_none())
            .then_some(())
    })
    .await;
}
