//! Questions of modern servers within a call (rows F-11 to F-18): relayed to modern clients, asked
//! by the gateway of legacy clients, and a request state that is bound to one request of one
//! caller.

use crate::rig::client::Request;
use crate::rig::upstream::{modern_with, tool};
use crate::rig::{Answer, Gate, HeardMessage, Say, Upstream, Value, json, until};

const STATE: &str = "Zustand \u{1f511} \"quoted\" \\ \n end";

fn form() -> Value {
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": "Sure?",
        "requestedSchema": {"type": "object", "properties": {"ok": {"type": "boolean"}}}}})
}

/// Returns a server that asks once, or repeatedly for `forever`.
fn asking() -> impl Fn(&HeardMessage) -> Say + Send + Sync {
    let names = ["ask", "other", "forever", "stateless", "waiting", "nothing", "empty", "model"];
    let listed = modern_with(names.map(tool).into());
    move |heard| {
        let params = &heard.body["params"];
        let answered = params.get("inputResponses").is_some();
        let required = |more: Value| {
            let mut result = json!({"resultType": "input_required"});
            for (key, value) in more.as_object().unwrap() {
                result[key] = value.clone();
            }
            Say::Json(heard.result(result))
        };
        match (heard.method(), params["name"].as_str().unwrap_or_default()) {
            ("tools/call", "ask" | "other") if !answered => {
                required(json!({"inputRequests": {"sure": form()}, "requestState": STATE}))
            }
            ("tools/call", "forever") => {
                required(json!({"inputRequests": {"sure": form()}, "requestState": STATE}))
            }
            ("tools/call", "stateless") if !answered => {
                required(json!({"inputRequests": {"sure": form()}}))
            }
            ("tools/call", "waiting") if params.get("requestState").is_none() => {
                required(json!({"requestState": STATE}))
            }
            ("tools/call", "nothing") => required(json!({})),
            ("tools/call", "empty") => required(json!({"inputRequests": {}})),
            ("tools/call", "model") => {
                let ask = json!({"messages": [], "maxTokens": 5});
                required(
                    json!({"inputRequests": {"m": {"method": "sampling/createMessage", "params": ask}}}),
                )
            }
            _ => listed(heard),
        }
    }
}

struct Rig {
    server: Upstream,
    gate: Gate,
}

impl Rig {
    async fn new() -> Self {
        let server = Upstream::http(asking()).await;
        let gate = Gate::start(
            json!({"servers": {"a": server.config()}, "limits": {"question_rounds": 3}}),
        )
        .await;
        Self { server, gate }
    }

    /// Returns a call of a client with these capabilities and `more` members.
    fn call(path: &str, tool: &str, capabilities: Value, more: Value) -> Request {
        let meta = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
        let mut params = json!({"name": tool, "arguments": {"n": 1}, "_meta": meta});
        for (key, value) in more.as_object().unwrap() {
            params[key] = value.clone();
        }
        Request::modern(path, "tools/call", params)
    }

    async fn able(&self, tool: &str, more: Value) -> Answer {
        Self::call("/mcp", tool, json!({"elicitation": {"form": {}}}), more)
            .send(self.gate.address)
            .await
    }

    fn calls(&self) -> Vec<HeardMessage> {
        self.server.heard_of("tools/call")
    }
}

fn yes() -> Value {
    json!({"sure": {"action": "accept", "content": {"ok": true}}})
}

/// F-05, F-11, F-14: questions with a sealed state; the retry returns the server's state byte for
/// byte, under a new id.
#[tokio::test]
async fn a_state_comes_back_as_it_was_given() {
    let rig = Rig::new().await;
    let asked = rig.able("a__ask", json!({})).await.result();
    assert_eq!(asked["resultType"], "input_required");
    assert!(
        asked.get("ttlMs").is_none()
            && asked.get("cacheScope").is_none()
            && asked.get("content").is_none(),
        "{asked}"
    );
    assert_eq!(asked["inputRequests"]["sure"]["params"]["message"], "[a] Sure?", "F-33");
    let state = asked["requestState"].as_str().unwrap();
    assert!(!state.contains("Zustand"), "{state}");
    let done =
        rig.able("a__ask", json!({"inputResponses": yes(), "requestState": state})).await.result();
    assert_eq!(
        (done["resultType"].as_str(), &done["content"][0]["text"]),
        (Some("complete"), &json!("ask"))
    );
    let calls = rig.calls();
    assert_eq!(calls[0].body["params"].get("requestState"), None);
    assert_eq!(calls[1].body["params"]["requestState"], STATE);
    assert_eq!(calls[1].body["params"]["inputResponses"], yes());
    assert_eq!(calls[0].body["params"]["arguments"], calls[1].body["params"]["arguments"]);
    assert_ne!(calls[0].body["id"], calls[1].body["id"]);
    // Without a server state none is sent, although the client returns a gateway state; a state
    // without questions only needs to be returned.
    let asked = rig.able("a__stateless", json!({})).await.result();
    let answered = json!({"inputResponses": yes(), "requestState": asked["requestState"]});
    assert_eq!(rig.able("a__stateless", answered).await.result()["resultType"], "complete");
    let sent = rig.calls().last().unwrap().body["params"].clone();
    assert_eq!((sent.get("requestState"), &sent["inputResponses"]), (None, &yes()));
    let later = rig.able("a__waiting", json!({})).await.result();
    assert!(later.get("inputRequests").is_none() && later["requestState"].is_string(), "{later}");
    let done =
        rig.able("a__waiting", json!({"requestState": later["requestState"]})).await.result();
    assert_eq!(done["resultType"], "complete");
    // F-08: a retry is never answered from a cache.
    let before = rig.calls().len();
    for _ in 0..2 {
        rig.able("a__ask", json!({"inputResponses": yes(), "requestState": state})).await.result();
    }
    assert_eq!(rig.calls().len(), before + 2);
}

/// F-13, F-15: a state of another request, or a modified state, is rejected before the server.
#[tokio::test]
async fn a_state_is_good_for_its_own_request_alone() {
    let rig = Rig::new().await;
    let state =
        rig.able("a__ask", json!({})).await.result()["requestState"].as_str().unwrap().to_owned();
    let before = rig.calls().len();
    let mut cases: Vec<(String, Answer)> = Vec::new();
    for at in [0, state.len() / 3, state.len() / 2, state.len() - 2] {
        let mut flipped = state.clone().into_bytes();
        flipped[at] = if flipped[at] == b'A' { b'B' } else { b'A' };
        let flipped = String::from_utf8(flipped).unwrap();
        cases.push((
            format!("byte {at}"),
            rig.able("a__ask", json!({"requestState": flipped})).await,
        ));
    }
    for odd in [
        json!(""),
        json!(STATE),
        json!(7),
        json!(null),
        json!("gw1.x.y"),
        json!("x".repeat(100_000)),
    ] {
        let title: String = odd.to_string().chars().take(20).collect();
        cases.push((title, rig.able("a__ask", json!({"requestState": odd})).await));
    }
    cases.push(("another tool".into(), rig.able("a__other", json!({"requestState": state})).await));
    let other = json!({"requestState": state, "arguments": {"n": 2}});
    cases.push(("other arguments".into(), rig.able("a__ask", other).await));
    let form = json!({"elicitation": {"form": {}}});
    let elsewhere = Rig::call("/servers/a/mcp", "ask", form, json!({"requestState": state}));
    cases.push(("another endpoint".into(), elsewhere.send(rig.gate.address).await));
    for (case, answer) in cases {
        assert_eq!((answer.status, answer.code()), (200, -32602), "{case}: {}", answer.text());
    }
    assert_eq!(rig.calls().len(), before, "no server heard of any of them");
    // The order of keys is irrelevant.
    let same = json!({"requestState": state, "inputResponses": yes(), "arguments": {"n": 1}});
    assert_eq!(rig.able("a__ask", same).await.result()["resultType"], "complete");
}

/// F-11, F-12: a client never gets a question without the capability, or an empty `input_required`.
#[tokio::test]
async fn a_client_is_asked_only_what_it_declared() {
    let rig = Rig::new().await;
    for (tool, capabilities) in [
        ("a__ask", json!({})),
        ("a__ask", json!({"sampling": {}})),
        ("a__ask", json!({"elicitation": {"url": {}}})),
        ("a__model", json!({"elicitation": {}})),
        ("a__nothing", json!({"elicitation": {}})),
        ("a__empty", json!({"elicitation": {}})),
    ] {
        let answer =
            Rig::call("/mcp", tool, capabilities.clone(), json!({})).send(rig.gate.address).await;
        assert_eq!(
            (answer.status, answer.code()),
            (200, -32603),
            "{tool} {capabilities}: {}",
            answer.text()
        );
        assert!(!answer.text().contains("Sure?"), "{}", answer.text());
    }
    let declared = Rig::call("/mcp", "a__model", json!({"sampling": {}}), json!({}))
        .send(rig.gate.address)
        .await;
    assert_eq!(declared.result()["inputRequests"]["m"]["method"], "sampling/createMessage");
}

/// F-16: the server judges whether answers suffice: it gets the requested answers, and may ask
/// again.
#[tokio::test]
async fn answers_to_what_was_asked_reach_the_server() {
    let rig = Rig::new().await;
    let state = rig.able("a__forever", json!({})).await.result()["requestState"].clone();
    for (responses, taken) in [
        (json!({}), json!({})),
        (json!({"sure": {"action": "decline"}}), json!({"sure": {"action": "decline"}})),
        (json!({"extra": {"action": "accept"}}), json!({})),
        (json!({"sure": {"action": "accept", "x": 1, "content": {"ok": true}}, "extra": 7}), yes()),
        (
            json!({"sure": {"action": "accept", "content": {"ok": true, "more": {"deep": 1}}}}),
            yes(),
        ),
    ] {
        let again = rig
            .able("a__forever", json!({"requestState": state, "inputResponses": responses}))
            .await
            .result();
        assert_eq!(again["resultType"], "input_required");
        assert_eq!(
            rig.calls().last().unwrap().body["params"]["inputResponses"],
            taken,
            "{responses}"
        );
    }
}

/// Answers without the state of their round, or of the wrong form, are not forwarded.
#[tokio::test]
async fn answers_that_do_not_fit_reach_nobody() {
    let rig = Rig::new().await;
    let state = rig.able("a__ask", json!({})).await.result()["requestState"].clone();
    let before = rig.calls().len();
    let long = "x".repeat(1 << 20);
    for responses in [
        json!([1]),
        json!("accept"),
        json!({"sure": true}),
        json!({"sure": {}}),
        json!({"sure": {"action": "maybe"}}),
        json!({"sure": {"action": "accept", "content": {"ok": "yes"}}}),
        json!({"sure": {"action": "accept", "content": [true]}}),
        json!({"sure": {"role": "user", "model": "m", "content": {"type": "text", "text": "t"}}}),
        json!({"sure": {"roots": []}}),
        json!({"sure": {"action": "decline"}, "extra": long}),
    ] {
        let answer =
            rig.able("a__ask", json!({"requestState": state, "inputResponses": responses})).await;
        let short: String = responses.to_string().chars().take(80).collect();
        assert_eq!((answer.status, answer.code()), (200, -32602), "{short}: {}", answer.text());
    }
    assert_eq!(rig.calls().len(), before, "no server heard of any of them");
    // Without a state the answers are dropped, and the server asks as in a first call.
    for tool in ["a__ask", "a__stateless"] {
        let answer = rig.able(tool, json!({"inputResponses": yes()})).await.result();
        assert_eq!(answer["resultType"], "input_required", "{tool}: {answer}");
        assert_eq!(rig.calls().last().unwrap().body["params"].get("inputResponses"), None);
    }
}

/// Forms of a legacy client: unknown members are dropped; an invalid form is asked for once more
/// with the reason; a second invalid form fails the call, rather than counting as a cancellation.
#[tokio::test]
async fn a_form_that_does_not_fit_is_sent_once_more() {
    let rig = Rig::new().await;
    let session = rig.gate.session_with("/mcp", "2025-11-25", json!({"elicitation": {}})).await;
    let begin = async || {
        let call = json!({"name": "a__ask", "arguments": {}});
        Request::legacy("/mcp", &session.id, 9, "tools/call", &call).open(rig.gate.address).await
    };
    let reply = async |question: &Value, result: &Value| {
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
        session.post(answer.to_string()).send(rig.gate.address).await
    };
    let answers = || rig.calls().last().unwrap().body["params"]["inputResponses"].clone();
    let more = json!({"action": "accept", "content": {"ok": true, "more": [{}]}});
    let mut stream = begin().await;
    let question = stream.next().await.expect("a question");
    assert_eq!(reply(&question, &more).await.status, 202);
    assert!(stream.next().await.expect("an answer")["result"]["content"].is_array());
    assert_eq!(answers(), yes());
    for wrong in [
        json!({"action": "accept", "content": {"ok": "yes"}}),
        json!({"action": 7}),
        json!({"roots": []}),
        json!({"action": "accept", "content": {"ok": "x".repeat(2 << 20)}}),
    ] {
        for is_right in [true, false] {
            let mut stream = begin().await;
            let first = stream.next().await.expect("a question");
            assert_eq!(reply(&first, &wrong).await.status, 202);
            let second = stream.next().await.expect("the question again");
            assert_ne!(first["id"], second["id"]);
            let message = second["params"]["message"].as_str().unwrap();
            assert!(message.starts_with("[a] Sure?\n\nPlease answer again: "), "{message}");
            assert_eq!(first["params"]["requestedSchema"], second["params"]["requestedSchema"]);
            if is_right {
                assert_eq!(reply(&second, &yes()["sure"]).await.status, 202);
                assert!(stream.next().await.expect("an answer")["result"]["content"].is_array());
                assert_eq!(answers(), yes());
                continue;
            }
            assert_eq!(reply(&second, &wrong).await.status, 400);
            let failed = stream.next().await.expect("an error");
            assert_eq!(failed["error"]["code"], -32603, "{failed}");
            assert!(failed["error"]["message"].as_str().unwrap().contains("does not fit"));
            assert_eq!(answers(), Value::Null, "the server is told nothing");
        }
    }
}

/// F-17, E-02: the gateway asks a legacy client in rounds, with unique ids and up to a limit.
#[tokio::test]
async fn a_legacy_client_is_asked_in_rounds_up_to_a_bound() {
    let rig = Rig::new().await;
    let session = rig.gate.session_with("/mcp", "2025-11-25", json!({"elicitation": {}})).await;
    let mut ids = Vec::new();
    for (tool, rounds) in [("a__ask", 1), ("a__stateless", 1), ("a__forever", 3)] {
        let call = json!({"name": tool, "arguments": {}});
        let mut stream = Request::legacy("/mcp", &session.id, 9, "tools/call", &call)
            .open(rig.gate.address)
            .await;
        for _ in 0..rounds {
            let question = stream.next().await.expect("a question");
            assert_eq!(question["method"], "elicitation/create", "{tool}: {question}");
            assert_eq!(question["params"]["message"], "[a] Sure?");
            ids.push(question["id"].to_string());
            let result = json!({"action": "accept", "content": {"ok": true}});
            let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
            assert_eq!(session.post(answer.to_string()).send(rig.gate.address).await.status, 202);
        }
        let last = stream.next().await.expect("an answer");
        if tool == "a__forever" {
            assert_eq!(last["error"]["code"], -32603, "{last}");
            assert_eq!(
                rig.calls().iter().filter(|call| call.body["params"]["name"] == "forever").count(),
                4
            );
        } else {
            assert!(
                last["result"]["content"].is_array() && last["result"].get("resultType").is_none(),
                "{last}"
            );
        }
    }
    assert_eq!(ids.len(), 5);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5, "E-02");
    assert!(
        rig.calls()
            .iter()
            .all(|call| call.body["params"].get("requestState").is_none_or(|state| state == STATE))
    );
}

/// F-18: the policy applies to a retry too.
#[tokio::test]
async fn a_retry_is_judged_again() {
    let rig = Rig::new().await;
    let state = rig.able("a__ask", json!({})).await.result()["requestState"].clone();
    let servers = json!({"a": rig.server.config()});
    rig.gate.configure(json!({"servers": servers, "policy": {"tools": {"deny": ["a__ask"]}}}));
    until("the tool is hidden", async || {
        (!rig.gate.tools("/mcp").await.0.contains(&"a__ask".to_owned())).then_some(())
    })
    .await;
    let before = rig.calls().len();
    let hidden = rig.able("a__ask", json!({"inputResponses": yes(), "requestState": state})).await;
    assert_eq!((hidden.code(), rig.calls().len()), (-32602, before), "{}", hidden.text());
    assert!(hidden.text().contains("unknown tool"), "{}", hidden.text());
}
