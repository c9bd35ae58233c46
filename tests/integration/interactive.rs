//! Tools that a legacy server offers only to clients with elicitation or sampling: listed and
//! callable for those clients, unknown to others, and discovered without unnecessary traffic.

use crate::rig::client::Request;
use crate::rig::upstream::tool;
use crate::rig::{Gate, HeardMessage, Say, Session, Upstream, Value, fixture, json, until};

/// Returns whether an `initialize` declares any capability.
fn declares(heard: &HeardMessage) -> bool {
    heard.body["params"]["capabilities"].as_object().is_some_and(|all| !all.is_empty())
}

/// Returns a legacy server that offers `ask` to sessions with capabilities, and reports the kind of
/// the session.
fn choosy(refuses_second: bool) -> impl Fn(&HeardMessage) -> Say + Send + Sync {
    move |heard| match heard.method() {
        "initialize" if refuses_second && declares(heard) => {
            Say::Status(400, Vec::new(), heard.error(-32600, "there is a session already"))
        }
        "initialize" => {
            let session = if declares(heard) { "full" } else { "plain" };
            let welcome = json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "choosy", "version": "1"},
            });
            Say::Status(200, vec![("mcp-session-id", session.into())], heard.result(welcome))
        }
        "tools/list" if heard.header("mcp-session-id") == Some("full") => {
            Say::Json(heard.result(json!({"tools": [tool("plain"), tool("ask")]})))
        }
        "tools/list" => Say::Json(heard.result(json!({"tools": [tool("plain")]}))),
        "tools/call" => {
            let text = heard.header("mcp-session-id").unwrap_or_default();
            Say::Json(heard.result(json!({"content": [{"type": "text", "text": text}]})))
        }
        method if method.starts_with("notifications/") || method.is_empty() => {
            Say::Json(Value::Null)
        }
        _ => Say::Status(404, Vec::new(), heard.error(-32601, "no such method")),
    }
}

async fn names(session: &Session<'_>) -> Vec<String> {
    let result = session.ask("tools/list", json!({})).await.result();
    result["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns the server's session that received a call.
async fn on(session: &Session<'_>, tool: &str) -> String {
    session.call(tool).await.result()["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn tools_that_ask_are_for_clients_that_can_be_asked() {
    let server = Upstream::http(choosy(false)).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let quiet = gate.session("/mcp", "2025-11-25").await;
    assert_eq!(names(&quiet).await, ["a__plain"]);
    let asked = |answer: &crate::rig::Answer| answer.json()["error"].clone();
    let unknown = asked(&quiet.call("a__ask").await);
    assert_eq!(unknown["code"], -32602);
    assert_eq!(server.count("initialize"), 1, "nobody needed to know more");
    // From the first request on, a list or a call.
    let able = gate.session_with("/mcp", "2025-11-25", json!({"elicitation": {}})).await;
    assert_eq!(on(&able, "a__ask").await, "full");
    assert_eq!(names(&able).await, ["a__plain", "a__ask"]);
    let other = gate.session_with("/servers/a/mcp", "2025-06-18", json!({"sampling": {}})).await;
    assert_eq!(names(&other).await, ["plain", "ask"]);
    // Other clients are unaffected, in either era.
    assert_eq!(names(&quiet).await, ["a__plain"]);
    assert_eq!(asked(&quiet.call("a__ask").await), unknown);
    assert_eq!(on(&quiet, "a__plain").await, "plain");
    assert_eq!(gate.tools("/mcp").await.0, ["a__plain"]);
    let capabilities =
        json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}});
    let modern = json!({"name": "a__ask", "arguments": {}, "_meta": capabilities});
    let called = gate.modern("/mcp", "tools/call", modern).await.result();
    assert_eq!(called["content"][0]["text"], "full", "in either era");
    // Cached lists cause no traffic to the server.
    let before = server.heard().len();
    for session in [&quiet, &able, &other] {
        for _ in 0..3 {
            names(session).await;
        }
    }
    assert_eq!(server.heard().len(), before);
}

/// A server that accepts a single session stays usable when a second session is tried.
#[tokio::test]
async fn a_server_with_a_single_session_is_left_in_peace() {
    let server = Upstream::http(choosy(true)).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let able = gate.session_with("/mcp", "2025-11-25", json!({"elicitation": {}})).await;
    assert_eq!(names(&able).await, ["a__plain"]);
    assert_eq!(able.call("a__ask").await.code(), -32602);
    let quiet = gate.session("/mcp", "2025-11-25").await;
    assert_eq!(on(&quiet, "a__plain").await, "plain");
}

/// `sessions: shared` forbids questions, so tools with questions are not offered.
#[tokio::test]
async fn a_shared_server_offers_nothing_that_asks() {
    let server = Upstream::http(choosy(false)).await;
    let gate =
        Gate::start(json!({"servers": {"a": server.with(json!({"sessions": "shared"}))}})).await;
    let able =
        gate.session_with("/mcp", "2025-11-25", json!({"elicitation": {}, "roots": {}})).await;
    assert_eq!(names(&able).await, ["a__plain"]);
    assert_eq!(able.call("a__ask").await.code(), -32602);
    assert_eq!(server.count("initialize"), 1);
}

/// The SDK's server over stdio, with a process per session: the question and its answer are
/// relayed.
#[tokio::test]
async fn a_tool_that_asks_is_listed_called_and_answered() {
    let mut server = fixture(&["--era", "legacy", "--shy"]);
    server["sessions"] = "client".into();
    let gate = Gate::start(json!({"servers": {"f": server}})).await;
    let quiet = gate.session("/mcp", "2025-11-25").await;
    assert!(!names(&quiet).await.contains(&"f__test_elicitation".to_owned()));
    let able = gate.session_with("/mcp", "2025-11-25", json!({"elicitation": {"form": {}}})).await;
    let listed = names(&able).await;
    assert!(listed.contains(&"f__test_elicitation".to_owned()), "{listed:?}");
    let call = json!({"name": "f__test_elicitation", "arguments": {"message": "Who?"}});
    let mut stream =
        Request::legacy("/mcp", &able.id, 5, "tools/call", &call).open(gate.address).await;
    let question = loop {
        let message = stream.next().await.expect("a question");
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    assert_eq!(question["params"]["message"], "[f] Who?");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {
        "action": "accept", "content": {"username": "Ann", "email": "ann@example.com"},
    }});
    assert_eq!(able.post(answer.to_string()).send(gate.address).await.status, 202);
    let last = stream.next().await.expect("an answer");
    assert!(last["result"].to_string().contains("Ann"), "{last}");
    let pids = gate.children();
    drop(gate);
    until("its processes are gone", async || {
        pids.iter().all(|&pid| !crate::rig::alive(pid)).then_some(())
    })
    .await;
}
