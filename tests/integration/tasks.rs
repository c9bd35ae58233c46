//! Tasks (3.8): those of 2025-11-25 are relayed to clients with tasks, and awaited by the gateway
//! for others; tasks of modern servers for legacy clients.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::principals::{By, gate, key, session};
use crate::rig::client::Request;
use crate::rig::upstream::{modern, tool};
use crate::rig::{Answer, Gate, HeardMessage, Say, Upstream, Value, json, until};
use crate::streams::with_tasks;

const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Returns a legacy server with tasks: `must` requires a task, `may` runs as a task on request,
/// `plain` never. A task completes at the second query; `slow` never completes.
pub(crate) fn server() -> impl Fn(&HeardMessage) -> Say + Send + Sync {
    let looks = Mutex::new(HashMap::<String, usize>::new());
    let made = Mutex::new(0);
    let task = |id: &str, status: &str| {
        json!({"taskId": id, "status": status, "createdAt": "2026-11-22T10:00:00Z",
            "lastUpdatedAt": "2026-11-22T10:00:01Z", "ttl": 60_000, "pollInterval": 50})
    };
    let with = |name: &str, support: &str| {
        let mut tool = tool(name);
        tool["execution"] = json!({"taskSupport": support});
        tool
    };
    move |heard| {
        let params = &heard.body["params"];
        let id = params["taskId"].as_str().unwrap_or_default();
        match heard.method() {
            "initialize" => Say::Json(heard.result(json!({
                "protocolVersion": "2025-11-25", "serverInfo": {"name": "tasks", "version": "1"},
                "capabilities": {"tools": {}, "tasks": {
                    "list": {}, "cancel": {}, "requests": {"tools": {"call": {}}},
                }},
            }))),
            "tools/list" => Say::Json(heard.result(json!({"tools": [
                with("must", "required"), with("slow", "required"), with("may", "optional"),
                with("bare", "required"), tool("plain"),
            ]}))),
            "tools/call" if params["task"].is_object() => {
                let mut made = made.lock().unwrap();
                *made += 1;
                let id = format!("own-{made}-{}", params["name"].as_str().unwrap());
                Say::Json(heard.result(json!({"task": task(&id, "working")})))
            }
            "tools/call" if matches!(params["name"].as_str(), Some("must" | "slow" | "bare")) => {
                Say::Json(heard.error(-32601, "a task is required"))
            }
            "tools/call" => {
                // The server's own status of a task is not relayed.
                let note = json!({"jsonrpc": "2.0", "method": "notifications/tasks/status",
                    "params": task("own-1-may", "odd")});
                let other = json!({"jsonrpc": "2.0", "method": "notifications/tasks/status",
                    "params": task("own-2-slow", "odd")});
                let done = heard.result(json!({"content": []}));
                let all = [note, other, done].map(|message| format!("data: {message}\n\n"));
                Say::Sse(all.concat())
            }
            "tasks/get" if !id.starts_with("own-") => {
                Say::Json(heard.error(-32602, "no such task"))
            }
            "tasks/get" => {
                let mut looks = looks.lock().unwrap();
                let count = looks.entry(id.to_owned()).or_default();
                *count += 1;
                let is_done = *count > 1 && !id.ends_with("slow");
                Say::Json(heard.result(task(id, if is_done { "completed" } else { "working" })))
            }
            "tasks/result" if id.ends_with("bare") => {
                Say::Json(heard.result(json!({"structuredContent": {"n": 1}})))
            }
            "tasks/result" => Say::Json(heard.result(json!({
                "content": [{"type": "text", "text": "all done"}], "_meta": {RELATED: {"taskId": id}},
            }))),
            "tasks/cancel" => Say::Json(heard.result(task(id, "cancelled"))),
            "" => Say::Json(Value::Null),
            method if method.starts_with("notifications/") => Say::Json(Value::Null),
            _ => Say::Status(404, Vec::new(), heard.error(-32601, "no such method")),
        }
    }
}

fn text(answer: &Answer) -> Value {
    assert!(!answer.text().contains("own-"), "{}", answer.text());
    answer.result()["content"][0]["text"].clone()
}

/// Clients without tasks get the result of a tool that requires a task: the gateway waits, and
/// cancels the task of a client that disconnects.
#[tokio::test]
async fn a_required_task_is_followed_for_clients_that_do_not() {
    let server = Upstream::http(server()).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let session = gate.session("/mcp", version).await;
        assert_eq!(text(&session.call("a__must").await), "all done", "{version}");
    }
    assert_eq!(text(&gate.call("a__must").await), "all done");
    // Other tools run as before.
    assert_eq!(gate.call("a__may").await.code(), 0);
    let made = server.heard_of("tools/call");
    let asked = made.iter().filter(|heard| heard.body["params"]["task"].is_object()).count();
    assert_eq!((made.len(), asked), (5, 4));
    let leaving = json!({"name": "a__slow", "arguments": {}, "_meta": {"progressToken": 1}});
    let request = Request::modern("/mcp", "tools/call", leaving);
    let stream = tokio::spawn({
        let address = gate.address;
        async move { request.open(address).await }
    });
    until("the task runs", async || {
        let looks = server.heard_of("tasks/get");
        looks.iter().any(|heard| heard.text.contains("slow")).then_some(())
    })
    .await;
    stream.abort();
    let cancelled =
        until("the task is cancelled", async || server.heard_of("tasks/cancel").pop()).await;
    assert!(cancelled.text.contains("slow"), "{}", cancelled.text);
}

/// A task result without `content`, which every revision requires, gets its structured content as
/// text.
#[tokio::test]
async fn the_result_of_a_task_has_content() {
    let server = Upstream::http(server()).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let content = json!([{"type": "text", "text": r#"{"n":1}"#}]);
    let old = gate.session("/mcp", "2025-11-25").await;
    for done in [gate.call("a__bare").await.result(), old.call("a__bare").await.result()] {
        assert_eq!((&done["content"], &done["structuredContent"]), (&content, &json!({"n": 1})));
    }
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let ask = async |method: &str, mut params: Value| {
        params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": tasks});
        Request::modern("/mcp", method, params).send(gate.address).await.result()
    };
    let made = ask("tools/call", json!({"name": "a__bare", "arguments": {}})).await;
    let named = json!({"taskId": made["taskId"]});
    ask("tasks/get", named.clone()).await;
    let done = ask("tasks/get", named).await;
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(done["result"]["content"], content, "{done}");
}

/// A modern client with tasks gets a legacy server's tasks in the form of the extension, for itself
/// only: created where a tool requires a task, with the result at the end.
#[tokio::test]
async fn a_required_task_is_one_of_the_extension_for_modern_clients() {
    let server = Upstream::http(server()).await;
    let gate = gate(&server, json!({})).await;
    let [one, two] = [key(&gate, "one", &[]).await, key(&gate, "two", &[]).await];
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let ask = async |key: &str, method: &str, mut params: Value| {
        params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": tasks});
        let answer = Request::modern("/mcp", method, params).by(key).send(gate.address).await;
        assert!(!answer.text().contains("own-"), "{}", answer.text());
        answer
    };
    let discovered = ask(&one, "server/discover", json!({})).await.result();
    assert_eq!(discovered["capabilities"]["extensions"], tasks["extensions"], "{discovered}");
    assert_eq!(discovered["capabilities"].get("tasks"), None);
    let call = |tool: &str| json!({"name": tool, "arguments": {}});
    let made = ask(&one, "tools/call", call("a__must")).await.result();
    assert_eq!((&made["resultType"], &made["status"]), (&json!("task"), &json!("working")));
    assert_eq!((&made["ttlMs"], &made["pollIntervalMs"]), (&json!(60_000), &json!(50)), "{made}");
    assert!(made.get("task").is_none() && made.get("ttl").is_none(), "{made}");
    let named = json!({"taskId": made["taskId"]});
    let seen = ask(&one, "tasks/get", named.clone()).await.result();
    assert_eq!((&seen["resultType"], &seen["status"]), (&json!("complete"), &json!("working")));
    let done = ask(&one, "tasks/get", named.clone()).await.result();
    assert_eq!((&done["taskId"], &done["status"]), (&made["taskId"], &json!("completed")));
    assert_eq!(done["result"]["content"][0]["text"], "all done", "{done}");
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        assert_eq!(ask(&two, method, named.clone()).await.code(), -32602, "{method}");
    }
    let slow = ask(&one, "tools/call", call("a__slow")).await.result();
    let named = json!({"taskId": slow["taskId"]});
    let listened = json!({"notifications": {"taskIds": [slow["taskId"]]},
        "_meta": {"io.modelcontextprotocol/clientCapabilities": tasks}});
    let listen = Request::modern("/mcp", "subscriptions/listen", listened).by(&one);
    let mut stream = listen.open(gate.address).await;
    let granted = stream.next().await.unwrap()["params"]["notifications"].clone();
    assert_eq!(granted, json!({"taskIds": [slow["taskId"]]}));
    assert_eq!(ask(&one, "tools/call", call("a__plain")).await.code(), 0);
    let told = stream.next().await.unwrap();
    assert_eq!(told["method"], "notifications/tasks", "{told}");
    assert_eq!(
        (&told["params"]["taskId"], &told["params"]["status"]),
        (&slow["taskId"], &json!("working"))
    );
    let ended = ask(&one, "tasks/cancel", named).await.result();
    assert_eq!(ended["resultType"], "complete");
    assert!(server.heard_of("tasks/cancel").pop().unwrap().text.contains("own-2-slow"));
    // A client without tasks gets the result.
    let plain = Request::modern("/mcp", "tools/call", call("a__must")).by(&one);
    assert_eq!(text(&plain.send(gate.address).await), "all done");
}

/// A 2025-11-25 client follows its own tasks, under ids of the gateway; those of another session
/// are not listed, and those of another principal do not exist.
#[tokio::test]
async fn tasks_of_a_legacy_client_are_its_own() {
    let server = Upstream::http(server()).await;
    let gate = gate(&server, json!({})).await;
    let [one, two] = [key(&gate, "one", &[]).await, key(&gate, "two", &[]).await];
    let mine = session(&gate, &one, "2025-11-25").await;
    let theirs = session(&gate, &two, "2025-11-25").await;
    let ask = async |key: &str, session: &str, method: &str, params: Value| {
        let request = Request::legacy("/mcp", session, 1, method, &params).by(key);
        request.send(gate.address).await
    };
    let listed = ask(&one, &mine, "tools/list", json!({})).await.result();
    let tools = listed["tools"].as_array().unwrap();
    let support = tools.iter().find(|tool| tool["name"] == "a__may").unwrap();
    assert_eq!(support["execution"]["taskSupport"], "optional", "{listed}");
    let call = |tool: &str| json!({"name": tool, "arguments": {}, "task": {"ttl": 1000}});
    let made = ask(&one, &mine, "tools/call", call("a__may")).await.result();
    let id = made["task"]["taskId"].as_str().unwrap().to_owned();
    assert!(!id.contains("own-") && made["task"]["status"] == "working", "{made}");
    let sent = server.heard_of("tools/call").pop().unwrap();
    assert_eq!(sent.body["params"]["task"], json!({"ttl": 1000}));
    let named = json!({"taskId": id});
    let seen = ask(&one, &mine, "tasks/get", named.clone()).await.result();
    assert_eq!((&seen["taskId"], &seen["status"]), (&json!(id), &json!("working")), "{seen}");
    let result = ask(&one, &mine, "tasks/result", named.clone()).await;
    assert_eq!(text(&result), "all done");
    assert_eq!(result.result()["_meta"][RELATED], named);
    let all = ask(&one, &mine, "tasks/list", json!({})).await;
    assert!(!all.text().contains("own-"), "{}", all.text());
    assert_eq!(all.result()["tasks"][0]["taskId"], json!(id));
    assert_eq!(ask(&two, &theirs, "tasks/list", json!({})).await.result(), json!({"tasks": []}));
    let unknown = json!({"taskId": "own-1-may"});
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let foreign = ask(&two, &theirs, method, named.clone()).await;
        let raw = ask(&one, &mine, method, unknown.clone()).await;
        assert_eq!((foreign.code(), raw.code()), (-32602, -32602), "{}", foreign.text());
        assert_eq!(foreign.json()["error"], raw.json()["error"]);
    }
    assert_eq!(server.count("tasks/cancel"), 0);
    // The server's notification of a task is relayed only to its owner.
    let listen = async |key: &str, session: &str| {
        let request = Request::bare("GET", "/mcp", "").with("Mcp-Session-Id", session).by(key);
        request.with("Accept", "text/event-stream").open(gate.address).await
    };
    let mut my_stream = listen(&one, &mine).await;
    let mut their_stream = listen(&two, &theirs).await;
    let plain = json!({"name": "a__plain", "arguments": {}});
    assert_eq!(ask(&two, &theirs, "tools/call", plain).await.code(), 0);
    let told = my_stream.next().await.unwrap();
    assert_eq!(told["method"], "notifications/tasks/status", "{told}");
    let task = &told["params"];
    assert_eq!((&task["taskId"], &task["status"]), (&json!(id), &json!("completed")), "{told}");
    let silence = tokio::time::timeout(Duration::from_millis(300), their_stream.next()).await;
    assert!(silence.is_err(), "it is not theirs");
    let ended = ask(&one, &mine, "tasks/cancel", named).await.result();
    assert_eq!((&ended["taskId"], &ended["status"]), (&json!(id), &json!("cancelled")));
    let refused = ask(&one, &mine, "tools/call", call("a__plain")).await;
    assert_eq!(refused.code(), -32601, "{}", refused.text());
}

/// A modern server returns a task to a legacy client: the gateway waits, relays the task's
/// questions to the client, and returns the result.
#[tokio::test]
async fn tasks_of_modern_servers_are_followed_for_legacy_clients() {
    let plain = modern(&["ask"]);
    let task = |status: &str, more: Value| {
        let mut task = json!({"resultType": "complete", "taskId": "own-1", "status": status,
            "createdAt": "2026-11-22T10:00:00Z", "lastUpdatedAt": "2026-11-22T10:00:01Z",
            "ttlMs": 60_000, "pollIntervalMs": 50});
        for (key, value) in more.as_object().unwrap() {
            task[key] = value.clone();
        }
        task
    };
    let answered = Mutex::new(Value::Null);
    let asking = Upstream::http(move |heard| match heard.method() {
        "tools/call" => Say::Json(heard.result(task("working", json!({"resultType": "task"})))),
        "tasks/get" if answered.lock().unwrap().is_null() => {
            let form = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}});
            let params = json!({"mode": "form", "message": "Sure?", "requestedSchema": form});
            let asked = json!({"k": {"method": "elicitation/create", "params": params}});
            Say::Json(heard.result(task("input_required", json!({"inputRequests": asked}))))
        }
        "tasks/get" => {
            let text = answered.lock().unwrap().to_string();
            let result = json!({"content": [{"type": "text", "text": text}], "isError": false});
            Say::Json(heard.result(task("completed", json!({"result": result}))))
        }
        "tasks/update" => {
            *answered.lock().unwrap() = heard.body["params"]["inputResponses"].clone();
            Say::Json(heard.result(json!({"resultType": "complete"})))
        }
        _ => plain(heard),
    })
    .await;
    let starting = Upstream::http(with_tasks).await;
    let servers = json!({"a": asking.config(), "b": starting.config()});
    let gate = Gate::start(json!({"servers": servers})).await;
    let plain = gate.session("/mcp", "2025-03-26").await;
    let done = plain.call("b__start").await;
    assert!(
        done.text().contains("b+test://x") && !done.text().contains("own-1"),
        "{}",
        done.text()
    );
    let call = starting.heard_of("tools/call").pop().unwrap();
    let declared = &call.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert!(declared["extensions"]["io.modelcontextprotocol/tasks"].is_object(), "{declared}");
    let able = gate.session_with("/mcp", "2025-06-18", json!({"elicitation": {}})).await;
    let params = json!({"name": "a__ask", "arguments": {}});
    let request = Request::legacy("/mcp", &able.id, 3, "tools/call", &params);
    let mut stream = request.open(gate.address).await;
    let question = stream.next().await.unwrap();
    assert_eq!(question["params"]["message"], "[a] Sure?", "{question}");
    let accepted = json!({"action": "accept", "content": {"ok": true}});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted});
    assert_eq!(able.post(answer.to_string()).send(gate.address).await.status, 202);
    let done = stream.next().await.unwrap();
    let said = done["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(said).unwrap(), json!({"k": accepted}), "{done}");
}
