//! Questions of servers to legacy clients: URL elicitations and their ids, invalid answers, and the
//! capabilities declared on behalf of a client (B7, B10).

use std::sync::Mutex;
use std::time::Duration;

use crate::parked;
use crate::rig::client::{Answer, Request};
use crate::rig::upstream::{legacy, modern};
use crate::rig::{Gate, HeardMessage, Say, Session, Stream, Upstream, Value, json, until};

const URL: &str = "https://example.com/consent";

fn lines(messages: &[Value]) -> Say {
    let all: Vec<String> = messages.iter().map(Value::to_string).collect();
    Say::Text("", all.join("\n").into_bytes())
}

/// Returns a legacy server that asks during a call, and then announces the completion.
fn asking() -> impl Fn(&HeardMessage) -> Say + Send + Sync {
    let plain = legacy("2025-11-25", &["ask", "log"]);
    let call = Mutex::new(Value::Null);
    move |heard| match (heard.method(), heard.body["params"]["name"].as_str()) {
        ("tools/call", Some("ask")) => {
            *call.lock().unwrap() = heard.body["id"].clone();
            let params =
                json!({"mode": "url", "message": "Agree?", "url": URL, "elicitationId": "own-7"});
            lines(&[
                json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params}),
            ])
        }
        ("tools/call", _) => {
            let note = json!({"jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "debug", "data": "a detail"}});
            lines(&[note, heard.result(json!({"content": []}))])
        }
        ("", _) if heard.body["id"] == "q" => {
            let done = json!({"jsonrpc": "2.0", "method": "notifications/elicitation/complete",
                "params": {"elicitationId": "own-7"}});
            let said = heard.body.get("result").or_else(|| heard.body.get("error"));
            let text = said.unwrap().to_string();
            let result = json!({"content": [{"type": "text", "text": text}]});
            lines(&[done, json!({"jsonrpc": "2.0", "id": *call.lock().unwrap(), "result": result})])
        }
        _ => plain(heard),
    }
}

async fn begin(gate: &Gate, session: &Session<'_>, tool: &str) -> (Stream, Value) {
    let params = json!({"name": tool, "arguments": {}});
    let call = Request::legacy("/mcp", &session.id, 3, "tools/call", &params);
    let mut stream = call.open(gate.address).await;
    let question = stream.next().await.unwrap();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    (stream, question)
}

async fn reply(gate: &Gate, session: &Session<'_>, id: &Value, result: Value) -> Answer {
    let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
    session.post(answer.to_string()).send(gate.address).await
}

fn able() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": true}})
}

/// A URL elicitation has an id of the gateway, even if a modern server gave none; the server's
/// completion notification reaches the client under that id.
#[tokio::test]
async fn an_elicitation_elsewhere_has_an_id_and_its_completion_arrives() {
    let old = Upstream::lines(asking()).await;
    let plain = modern(&["ask"]);
    let new = Upstream::lines(move |heard| match heard.method() {
        "tools/call" if heard.body["params"]["inputResponses"].is_null() => {
            let params = json!({"mode": "url", "message": "Agree?", "url": URL});
            let asked = json!({"k": {"method": "elicitation/create", "params": params}});
            Say::Json(heard.result(
                json!({"resultType": "input_required", "inputRequests": asked, "requestState": "s"}),
            ))
        }
        "tools/call" => {
            heard.text_result(&heard.body["params"]["inputResponses"]["k"].to_string())
        }
        _ => plain(heard),
    })
    .await;
    let gate = Gate::start(json!({"servers": {"old": old.config(), "new": new.config()}})).await;
    let session = gate.session_with("/mcp", "2025-11-25", able()).await;
    let mut outside = session.listen().await;
    let mut ids = Vec::new();
    for tool in ["new__ask", "old__ask"] {
        let (mut stream, question) = begin(&gate, &session, tool).await;
        let id = question["params"]["elicitationId"].as_str().unwrap().to_owned();
        assert!(id.len() == 32 && question["params"]["url"] == URL, "{question}");
        ids.push(id);
        let taken = reply(&gate, &session, &question["id"], json!({"action": "accept"})).await;
        assert_eq!(taken.status, 202, "{}", taken.text());
        let done = stream.next().await.unwrap();
        let text = done["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("accept"), "{done}");
    }
    assert_ne!(ids[0], ids[1]);
    let told = loop {
        let told = outside.next().await.unwrap();
        if !told["method"].as_str().unwrap().ends_with("list_changed") {
            break told;
        }
    };
    assert_eq!(told["method"], "notifications/elicitation/complete", "{told}");
    assert_eq!(told["params"], json!({"elicitationId": ids[1]}));
}

/// No questions are possible on a shared connection: they may concern any client's call, and no
/// capability was declared.
#[tokio::test]
async fn a_shared_connection_asks_nobody() {
    for server in [Upstream::lines(asking()).await, Upstream::http(parked::asking()).await] {
        let config = server.with(json!({"sessions": "shared"}));
        let gate = Gate::start(json!({"servers": {"a": config}})).await;
        let session = gate.session_with("/mcp", "2025-11-25", able()).await;
        let params = json!({"name": "a__ask", "arguments": {}});
        let call = Request::legacy("/mcp", &session.id, 3, "tools/call", &params);
        let address = gate.address;
        let called = tokio::spawn(async move { call.send(address).await });
        let answer = until("the server has an answer", async || {
            let is_answer =
                |heard: &HeardMessage| heard.body["id"] == "q" || heard.body["id"] == 900;
            server.heard().into_iter().find(is_answer)
        })
        .await;
        assert_eq!(answer.body["error"]["code"], -32601, "{}", answer.text);
        called.abort();
    }
}

/// Unsolicited, repeated and invalid answers are errors for their sender only.
#[tokio::test]
async fn answers_that_are_none_are_errors_to_their_client_alone() {
    let server = Upstream::lines(asking()).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let one = gate.session_with("/mcp", "2025-11-25", able()).await;
    let two = gate.session_with("/mcp", "2025-11-25", able()).await;
    let refused = |answer: &Answer| {
        assert_eq!((answer.status, answer.code()), (400, -32600), "{}", answer.text());
    };
    refused(&reply(&gate, &one, &json!(1), json!({"action": "accept"})).await);
    let (mut stream, question) = begin(&gate, &one, "a__ask").await;
    let id = &question["id"];
    refused(&reply(&gate, &two, id, json!({"action": "accept"})).await);
    refused(&reply(&gate, &one, &json!("q"), json!({"action": "accept"})).await);
    let accepted = reply(&gate, &one, id, json!({"action": "accept"})).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    refused(&reply(&gate, &one, id, json!({"action": "accept"})).await);
    assert!(stream.next().await.unwrap().to_string().contains("accept"));
    let (mut stream, question) = begin(&gate, &one, "a__ask").await;
    let odd = reply(&gate, &one, &question["id"], json!({"action": "perhaps"})).await;
    refused(&odd);
    assert!(odd.text().contains("`action` must be"), "{}", odd.text());
    let ended = stream.next().await.unwrap().to_string();
    assert!(!ended.contains("perhaps"), "{ended}");
}

/// A legacy client's change of roots is forwarded to its own connection.
#[tokio::test]
async fn changed_roots_are_told_to_the_clients_own_connection() {
    let server = Upstream::lines(asking()).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let one = gate.session_with("/mcp", "2025-11-25", able()).await;
    let mute = gate.session_with("/mcp", "2025-11-25", json!({"roots": {}})).await;
    assert_eq!(one.call("a__log").await.code(), 0);
    assert_eq!(mute.call("a__log").await.code(), 0);
    let declared = |heard: &HeardMessage| heard.body["params"]["capabilities"]["roots"].clone();
    let roots: Vec<Value> = server.heard_of("initialize").iter().map(declared).collect();
    assert_eq!(roots.iter().filter(|roots| **roots == json!({"listChanged": true})).count(), 1);
    let note = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    for session in [&mute, &one] {
        let noted = session.post(note.to_string()).send(gate.address).await;
        assert_eq!(noted.status, 202);
    }
    until("the server hears of it", async || {
        (server.count("notifications/roots/list_changed") == 1).then_some(())
    })
    .await;
    assert_eq!(one.call("a__log").await.code(), 0);
    assert_eq!(server.count("notifications/roots/list_changed"), 1, "nobody else's is told");
}

/// Without a log level, a legacy client gets the messages of its calls as it would directly; with a
/// level, only messages of at least that severity.
#[tokio::test]
async fn without_a_level_the_server_decides_what_is_logged() {
    let server = Upstream::lines(asking()).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let session = gate.session("/mcp", "2025-06-18").await;
    let logged = |answer: Answer| answer.text().contains("a detail");
    assert!(logged(session.call("a__log").await));
    assert_eq!(session.ask("logging/setLevel", json!({"level": "info"})).await.code(), 0);
    assert!(!logged(session.call("a__log").await));
    assert!(!logged(gate.call("a__log").await), "a modern client that asked for nothing");
}

/// A modern server gets no responses to forbidden requests, and no capability that the client's
/// revision lacks.
#[tokio::test]
async fn a_modern_server_gets_no_responses_and_no_empty_promises() {
    let plain = modern(&["t"]);
    let server = Upstream::http(move |heard| match heard.method() {
        "tools/call" => {
            let asked = json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"});
            let done = heard.result(json!({"resultType": "complete", "content": []}));
            Say::Sse(format!("data: {asked}\n\ndata: {done}\n\n"))
        }
        _ => plain(heard),
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let declared = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}});
    for (revision, told) in [
        ("2025-03-26", json!({"sampling": {}})),
        ("2025-06-18", json!({"elicitation": {}, "sampling": {}})),
        ("2025-11-25", declared.clone()),
    ] {
        let session = gate.session_with("/mcp", revision, declared.clone()).await;
        assert_eq!(session.call("a__t").await.code(), 0);
        let call = server.heard_of("tools/call").pop().unwrap();
        let meta = &call.body["params"]["_meta"];
        let mut got = meta["io.modelcontextprotocol/clientCapabilities"].clone();
        if let Some(all) = got.as_object_mut() {
            all.remove("extensions");
        }
        assert_eq!(got, told, "{revision}");
    }
    assert_eq!(gate.call("a__t").await.code(), 0);
    let answers = server.heard().into_iter().filter(|heard| heard.body["id"] == "q");
    assert_eq!(answers.count(), 0);
}

/// Titled choices exist since 2025-11-25; a client of 2025-06-18 gets an adapted form.
#[tokio::test]
async fn a_form_is_written_as_its_clients_revision_knows_it() {
    let modern = crate::rig::fixture(&["--era", "modern"]);
    let gate = Gate::start(json!({"servers": {"f": modern}})).await;
    for (version, is_adapted) in [("2025-06-18", true), ("2025-11-25", false)] {
        let session = gate.session_with("/mcp", version, json!({"elicitation": {}})).await;
        let (mut stream, question) =
            begin(&gate, &session, "f__test_elicitation_sep1330_enums").await;
        let fields = &question["params"]["requestedSchema"]["properties"];
        let one = &fields["titledSingle"];
        if is_adapted {
            let names = json!(["First Option", "Second Option", "Third Option"]);
            assert_eq!((&one["enumNames"], one.get("oneOf")), (&names, None), "{fields}");
            assert!(fields.get("titledMulti").is_none(), "{fields}");
        } else {
            assert!(one["oneOf"].is_array() && fields["titledMulti"].is_object(), "{fields}");
        }
        let chosen = json!({"action": "accept", "content": {"titledSingle": "value2"}});
        assert_eq!(reply(&gate, &session, &question["id"], chosen).await.status, 202);
        let last = stream.next().await.unwrap();
        let words = last["result"]["content"][0]["text"].as_str().unwrap();
        assert!(words.contains(r#"content={"titledSingle":"value2"}"#), "{last}");
    }
}

/// A question that ends without an answer is cancelled at the legacy client before the result of
/// its call: cancelled by the server, timed out, or lost with the server. A late answer is accepted
/// and dropped.
#[tokio::test]
async fn a_question_that_ends_is_cancelled_at_its_client() {
    let form = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}});
    let question = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
        "params": {"message": "Sure?", "requestedSchema": form}});
    let back = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": "q"}});
    let ends = ["late", "back", "lost"];
    for (over_http, end) in [true, false].into_iter().flat_map(|way| ends.map(|end| (way, end))) {
        let plain = legacy("2025-11-25", &["ask", "go-on"]);
        let (question, back) = (question.clone(), back.clone());
        let script = move |heard: &HeardMessage| match heard.body["params"]["name"].as_str() {
            Some("ask") if over_http => Say::Stream(format!("data: {question}\n\n")),
            Some("ask") => Say::Json(question.clone()),
            Some(_) => {
                let done = heard.result(json!({"content": []}));
                if over_http {
                    Say::Sse(format!("data: {back}\n\ndata: {done}\n\n"))
                } else {
                    lines(&[back.clone(), done])
                }
            }
            None => plain(heard),
        };
        let mut server =
            if over_http { Upstream::http(script).await } else { Upstream::lines(script).await };
        let seconds = if end == "late" { 1 } else { 60 };
        let gate = Gate::start(json!({"servers": {"a": server.config()},
            "limits": {"question_timeout": seconds}}))
        .await;
        let session = gate.session_with("/mcp", "2025-11-25", able()).await;
        let (mut stream, asked) = begin(&gate, &session, "a__ask").await;
        match end {
            "lost" => server.stop().await,
            "back" => assert_eq!(session.call("a__go-on").await.code(), 0),
            _ => {}
        }
        let told = stream.next().await.expect("a notification");
        assert_eq!(told["method"], "notifications/cancelled", "{over_http} {end}: {told}");
        assert_eq!(told["params"]["requestId"], asked["id"], "{over_http} {end}");
        let accepted = json!({"action": "accept", "content": {"ok": true}});
        let late = reply(&gate, &session, &asked["id"], accepted).await;
        assert_eq!(late.status, 202, "{over_http} {end}: {}", late.text());
        if end == "lost" {
            let failed = stream.next().await.expect("the answer of the call");
            assert_eq!(failed["error"]["code"], -32603, "{failed}");
        }
        assert!(server.heard().iter().all(|heard| !heard.text.contains("accept")));
    }
}

/// A question within a batch of 2025-03-26 is sent on the stream of the batch response, while other
/// calls of the batch run.
#[tokio::test]
async fn a_question_within_a_batch_is_delivered() {
    let plain = legacy("2025-03-26", &["ask", "slow"]);
    let server = Upstream::http(move |heard| match heard.body["params"]["name"].as_str() {
        Some("ask") => {
            let ask = json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"});
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "error", "data": "a detail"}});
            Say::Stream(format!("data: {progress}\n\ndata: {ask}\n\n"))
        }
        Some(_) => Say::Late(Duration::from_secs(2), heard.result(json!({"content": []}))),
        None => plain(heard),
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let session = gate.session_with("/mcp", "2025-03-26", json!({"roots": {}})).await;
    let message = |id: i64, tool: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": tool, "arguments": {}}})
    };
    let ping = json!({"jsonrpc": "2.0", "id": 3, "method": "ping"});
    let batch = json!([message(1, "a__ask"), message(2, "a__slow"), ping]);
    let began = std::time::Instant::now();
    let mut stream = session.post(batch.to_string()).open(gate.address).await;
    let mut ended = Vec::new();
    let question = loop {
        let message = stream.next().await.expect("a question");
        match message["method"].as_str() {
            Some("roots/list") => break message,
            Some("notifications/message") => {}
            _ => ended.push(message["id"].clone()),
        }
    };
    assert!(began.elapsed() < Duration::from_millis(1900), "it does not wait for the others");
    assert_eq!(ended, [json!(3)]);
    let taken = reply(&gate, &session, &question["id"], json!({"roots": []})).await;
    assert_eq!(taken.status, 202, "{}", taken.text());
    until("the server has its answer", async || {
        server.heard().into_iter().find(|heard| heard.body["id"] == "q")
    })
    .await;
    let slow = stream.next().await.expect("the other answer");
    assert_eq!((&slow["id"], slow["result"].is_object()), (&json!(2), true), "{slow}");
}
