//! Questions that legacy servers ask while a call of a modern client runs (F-21 to F-28): the call
//! waits while the client answers with another request, for this client alone, and not for ever.

use std::time::Duration;

use crate::rig::client::Request;
use crate::rig::gate::create_key;
use crate::rig::upstream::{legacy, modern, tool};
use crate::rig::{Answer, Gate, Heard, Say, Upstream, Value, fixture, json, until};

/// A client that can be asked for a form.
struct Client<'a> {
    gate: &'a Gate,
    key: Option<String>,
    capabilities: Value,
}

impl<'a> Client<'a> {
    fn new(gate: &'a Gate) -> Self {
        let capabilities = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}});
        Self { gate, key: None, capabilities }
    }

    async fn call(&self, tool: &str, more: Value) -> Answer {
        let meta = json!({"io.modelcontextprotocol/clientCapabilities": self.capabilities});
        let mut params = json!({"name": tool, "arguments": {"message": "Who?"}, "_meta": meta});
        for (key, value) in more.as_object().unwrap() {
            params[key] = value.clone();
        }
        let mut request = Request::modern("/mcp", "tools/call", params);
        if let Some(key) = &self.key {
            request = request.with("Authorization", key);
        }
        request.send(self.gate.address).await
    }

    async fn answer(&self, tool: &str, asked: &Value, answer: Value) -> Answer {
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
        let more = json!({"requestState": asked["requestState"], "inputResponses": {key: answer}});
        self.call(tool, more).await
    }
}

fn ann() -> Value {
    json!({"action": "accept", "content": {"username": "Ann", "email": "ann@example.com"}})
}

fn question(asked: &Value) -> &Value {
    let requests = asked["inputRequests"].as_object().expect("questions");
    requests.values().next().unwrap()
}

/// A legacy server over HTTP whose tool `ask` asks at once and never answers, whose tool `open`
/// wants a page opened first, and which hears what becomes of its questions.
pub fn asking() -> impl Fn(&Heard) -> Say + Send + Sync {
    let listed = legacy("2025-11-25", &["ask", "open"]);
    move |heard| match (heard.method(), heard.body["params"]["name"].as_str()) {
        ("tools/call", Some("ask")) => {
            let ask = json!({"jsonrpc": "2.0", "id": 900, "method": "elicitation/create",
                "params": {"message": "Sure?", "requestedSchema": {"type": "object",
                    "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}}});
            Say::Stream(format!("data: {ask}\n\n"))
        }
        ("tools/call", Some("open")) => {
            let first = json!({"mode": "url", "elicitationId": "e1", "message": "Please sign in",
                "url": "https://example.com/in"});
            let mut error = heard.error(-32042, "sign in first");
            error["error"]["data"] = json!({"elicitations": [first]});
            Say::Json(error)
        }
        _ => listed(heard),
    }
}

/// What the server heard in answer to its question.
async fn heard_answer(server: &Upstream) -> Value {
    until("the server has its answer", async || {
        server.heard().into_iter().find(|heard| heard.body["id"] == 900).map(|heard| heard.body)
    })
    .await
}

/// The whole way, over stdio with the SDK's server: asked, answered once, for one caller and one
/// request alone.
#[tokio::test]
async fn a_question_is_asked_and_answered_with_another_request() {
    let servers = json!({"f": fixture(&["--era", "legacy", "--shy"])});
    let gate = Gate::start(json!({"servers": servers, "auth": {"keys_file": "keys.yaml"}})).await;
    let mut ann_client = Client::new(&gate);
    ann_client.key = Some(format!("Bearer {}", create_key(&gate, "ann").await));
    let mut bob = Client::new(&gate);
    bob.key = Some(format!("Bearer {}", create_key(&gate, "bob").await));
    let tool = "f__test_elicitation";
    let asked = ann_client.call(tool, json!({})).await.result();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let form = question(&asked);
    assert_eq!(
        (&form["method"], &form["params"]["message"]),
        (&json!("elicitation/create"), &json!("[f] Who?"))
    );
    // Another caller, other arguments, a wrong form: an error, and the server waits.
    let foreign = bob.answer(tool, &asked, ann()).await;
    assert_eq!(foreign.code(), -32602, "{}", foreign.text());
    let other = json!({"requestState": asked["requestState"], "arguments": {"message": "No"}});
    assert_eq!(ann_client.call(tool, other).await.code(), -32602);
    let wrong = json!({"action": "accept", "content": {"username": 7, "email": "a@b.c"}});
    assert_eq!(ann_client.answer(tool, &asked, wrong).await.code(), -32602);
    let cut = asked["requestState"].as_str().unwrap().replace('.', "_");
    assert_eq!(ann_client.call(tool, json!({"requestState": cut})).await.code(), -32602);
    // Without an answer it is asked again.
    let again =
        ann_client.call(tool, json!({"requestState": asked["requestState"]})).await.result();
    assert_eq!(question(&again), form);
    let done = ann_client.answer(tool, &again, ann()).await.result();
    assert_eq!(done["resultType"], "complete", "{done}");
    assert!(done.to_string().contains("Ann"), "{done}");
    let twice = ann_client.answer(tool, &again, ann()).await;
    assert_eq!(twice.code(), -32602);
    assert!(twice.text().contains("was answered already"), "{}", twice.text());
    // Its tools are listed for those who can be asked, and for nobody else.
    assert_eq!(bob.call(tool, json!({})).await.result()["resultType"], "input_required");
    bob.capabilities = json!({});
    assert_eq!(bob.call(tool, json!({})).await.code(), -32602);
}

/// Several calls of one client at a server that cannot say whose question it is: each gets its own.
#[tokio::test]
async fn two_calls_at_once_have_their_own_questions() {
    let gate = Gate::start(json!({"servers": {"f": fixture(&["--era", "legacy"])}})).await;
    let client = Client::new(&gate);
    let tool = "f__test_elicitation";
    // From the first question on the gateway knows that it is such a server.
    let asked = client.call(tool, json!({})).await.result();
    let (second, third) = tokio::join!(client.call(tool, json!({})), client.call(tool, json!({})));
    let (second, third) = (second.result(), third.result());
    for (asked, name) in [(&third, "Cid"), (&asked, "Ann"), (&second, "Bob")] {
        let answer = json!({"action": "accept", "content": {"username": name, "email": "a@b.c"}});
        let done = client.answer(tool, asked, answer).await.result();
        assert!(done.to_string().contains(name), "{done}");
    }
    let sampled = client.call("f__test_sampling", json!({"arguments": {"prompt": "Hi"}})).await;
    assert_eq!(question(&sampled.result())["method"], "sampling/createMessage");
}

/// A server that offers something to clients alone that it can ask is going to ask: its first calls
/// have their own questions already.
#[tokio::test]
async fn the_first_calls_have_their_own_questions_where_the_server_says_that_it_asks() {
    let gate = Gate::start(json!({"servers": {"f": fixture(&["--era", "legacy", "--shy"])}})).await;
    let client = Client::new(&gate);
    let tool = "f__test_elicitation";
    let (first, second) = tokio::join!(client.call(tool, json!({})), client.call(tool, json!({})));
    for (asked, name) in [(first.result(), "Ann"), (second.result(), "Bob")] {
        let answer = json!({"action": "accept", "content": {"username": name, "email": "a@b.c"}});
        let done = client.answer(tool, &asked, answer).await.result();
        assert!(done.to_string().contains(name), "{done}");
    }
}

/// Nobody comes back: the server hears that the user cancelled, and the client why it is too late.
#[tokio::test]
async fn what_nobody_answers_is_cancelled() {
    let server = Upstream::http(asking()).await;
    let gate =
        Gate::start(json!({"servers": {"a": server.config()}, "limits": {"question_timeout": 1}}))
            .await;
    let client = Client::new(&gate);
    let asked = client.call("a__ask", json!({})).await.result();
    assert_eq!(heard_answer(&server).await["result"], json!({"action": "cancel"}));
    until("the call is cancelled", async || {
        (server.count("notifications/cancelled") == 1).then_some(())
    })
    .await;
    let yes = json!({"action": "accept", "content": {"ok": true}});
    let late = client.answer("a__ask", &asked, yes).await;
    assert_eq!(late.code(), -32602);
    assert!(late.text().contains("limits.question_timeout"), "{}", late.text());
}

/// `limits.parked_calls` and the share of one caller, at their edges.
#[tokio::test]
async fn calls_that_wait_are_bounded() {
    for limit in ["parked_calls", "parked_calls_per_principal"] {
        let server = Upstream::http(asking()).await;
        let gate =
            Gate::start(json!({"servers": {"a": server.config()}, "limits": {limit: 1}})).await;
        let client = Client::new(&gate);
        let first = client.call("a__ask", json!({})).await.result();
        assert_eq!(first["resultType"], "input_required");
        let second = client.call("a__ask", json!({})).await;
        assert_eq!((second.status, second.code()), (503, -31053), "{}", second.text());
        assert_eq!(second.json()["error"]["data"]["reason"], limit);
        assert_eq!(heard_answer(&server).await["result"], json!({"action": "cancel"}));
        let metrics = Request::bare("GET", "/metrics", "").send(gate.address).await.text();
        assert!(metrics.contains("lockgate_parked_calls 1"), "{metrics}");
    }
}

/// A server that dies while it waits, and a gateway that was started anew: told in words.
#[tokio::test]
async fn a_lost_call_says_so() {
    let mut server = Upstream::http(asking()).await;
    let secret = "0123456789abcdef0123456789abcdef";
    let config = json!({"servers": {"a": server.config()}, "secret": secret});
    let gate = Gate::start(config.clone()).await;
    let client = Client::new(&gate);
    let asked = client.call("a__ask", json!({})).await.result();
    let other = client.call("a__ask", json!({})).await.result();
    server.stop().await;
    let yes = json!({"action": "accept", "content": {"ok": true}});
    let lost = client.answer("a__ask", &asked, yes.clone()).await;
    assert!(lost.code() != 0, "{}", lost.text());
    server.restart().await;
    drop(gate);
    let gate = Gate::start(config).await;
    let client = Client::new(&gate);
    let unknown = client.answer("a__ask", &other, yes).await;
    assert_eq!(unknown.code(), -32602);
    assert!(unknown.text().contains("the gateway was restarted"), "{}", unknown.text());
}

/// -32042 of a legacy server: a modern client is asked to open the page, and the call is made anew
/// when it comes back.
#[tokio::test]
async fn a_page_to_open_first_is_a_question() {
    let server = Upstream::http(asking()).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let mut client = Client::new(&gate);
    let asked = client.call("a__open", json!({})).await.result();
    let wanted = &question(&asked)["params"];
    assert_eq!(
        (&wanted["mode"], &wanted["url"], wanted.get("elicitationId")),
        (&json!("url"), &json!("https://example.com/in"), None),
        "{asked}"
    );
    let before = server.count("tools/call");
    let again = client.answer("a__open", &asked, json!({"action": "accept"})).await.result();
    assert_eq!(again["resultType"], "input_required", "the server says it once more");
    let calls = server.heard_of("tools/call");
    assert_eq!(calls.len(), before + 1);
    let sent = &calls.last().unwrap().body["params"];
    assert!(sent.get("inputResponses").is_none() && sent.get("requestState").is_none(), "{sent}");
    client.capabilities = json!({"elicitation": {"form": {}}});
    assert!(client.call("a__open", json!({})).await.code() != 0, "it cannot open pages");
}

/// A place at the server is free while a user thinks.
#[tokio::test]
async fn a_question_takes_no_place() {
    let server = Upstream::http(asking()).await;
    let config = server.with(json!({"concurrency": 1, "queue": 1}));
    let gate = Gate::start(json!({"servers": {"a": config}})).await;
    let client = Client::new(&gate);
    for _ in 0..3 {
        let asked = tokio::time::timeout(Duration::from_secs(10), client.call("a__ask", json!({})));
        assert_eq!(asked.await.unwrap().result()["resultType"], "input_required");
    }
}

/// What a client answers goes to the server when the call has a place there again. Where there is
/// none, the server hears that the user cancelled, and the client that there was no place.
#[tokio::test]
async fn an_answered_call_takes_a_place_again() {
    let yes = json!({"action": "accept", "content": {"ok": true}});
    for queue in [1, 0] {
        let ask = asking();
        let server = Upstream::http(move |heard| match heard.body["params"]["name"].as_str() {
            Some("open") => Say::Stream(": at work\n\n".into()),
            _ => ask(heard),
        })
        .await;
        let config = server.with(json!({"concurrency": 1, "queue": queue}));
        let gate = Gate::start(json!({"servers": {"a": config}})).await;
        let client = Client::new(&gate);
        let asked = client.call("a__ask", json!({})).await.result();
        let call = json!({"name": "a__open", "arguments": {}});
        let address = gate.address;
        let other =
            tokio::spawn(
                async move { Request::modern("/mcp", "tools/call", call).send(address).await },
            );
        until("the other call runs", async || (server.count("tools/call") == 2).then_some(()))
            .await;
        let mut answering = std::pin::pin!(client.answer("a__ask", &asked, yes.clone()));
        if queue == 0 {
            let refused = answering.await;
            assert_eq!(refused.json()["error"]["data"]["reason"], "overloaded");
            assert_eq!(heard_answer(&server).await["result"], json!({"action": "cancel"}));
            other.abort();
            continue;
        }
        let early = tokio::time::timeout(Duration::from_millis(400), &mut answering).await;
        assert!(early.is_err(), "{}", early.unwrap().text());
        assert!(server.heard().iter().all(|heard| heard.body["id"] != 900), "it has no place");
        other.abort();
        tokio::select! {
            over = answering => panic!("{}", over.text()),
            heard = heard_answer(&server) => assert_eq!(heard["result"], yes),
        }
    }
}

/// A server that takes its question back goes on, and so its call takes a place again.
#[tokio::test]
async fn a_call_whose_question_is_taken_back_takes_a_place_again() {
    let question = json!({"jsonrpc": "2.0", "id": 900, "method": "elicitation/create",
        "params": {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}});
    let back = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 900}});
    let ask = asking();
    let server = Upstream::http(move |heard| match heard.body["params"]["name"].as_str() {
        Some("ask") => Say::Stream(format!("data: {question}\n\ndata: {back}\n\n")),
        _ => ask(heard),
    })
    .await;
    let config = server.with(json!({"concurrency": 1, "queue": 1}));
    let gate = Gate::start(json!({"servers": {"a": config}})).await;
    let able = gate.session_with("/mcp", "2025-11-25", json!({"elicitation": {}})).await;
    let call = json!({"name": "a__ask", "arguments": {}});
    let asked = able.ask("tools/call", call);
    let mut asked = std::pin::pin!(asked);
    let _ = tokio::time::timeout(Duration::from_millis(600), &mut asked).await;
    let other = gate.call("a__open");
    let early = tokio::time::timeout(Duration::from_millis(600), other).await;
    assert!(early.is_err(), "{}", early.unwrap().text());
    assert_eq!(server.count("tools/call"), 1, "the other call waits for its place");
}

/// A server of both eras: legacy clients that can be asked get what it offers in theirs, and modern
/// ones what it offers in theirs.
#[tokio::test]
async fn a_server_of_both_eras_is_spoken_to_in_the_clients_own() {
    let new = modern(&["both", "new"]);
    let old = |heard: &Heard| match heard.method() {
        "tools/list" => Say::Json(heard.result(json!({"tools": [tool("both"), tool("old")]}))),
        "tools/call" => Say::Json(heard.result(
            json!({"content": [{"type": "text", "text": heard.header("mcp-session-id")}]}),
        )),
        _ => legacy("2025-11-25", &[])(heard),
    };
    let server = Upstream::http(move |heard: &Heard| {
        let is_modern = heard.header("mcp-protocol-version") == Some("2026-07-28");
        if is_modern { new(heard) } else { old(heard) }
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    assert_eq!(gate.tools("/mcp").await.0, ["a__both", "a__new"]);
    assert_eq!(server.count("initialize"), 0, "nobody needed it");
    let able = gate.session_with("/mcp", "2025-11-25", json!({"elicitation": {}})).await;
    let listed = able.ask("tools/list", json!({})).await.result()["tools"].to_string();
    assert!(listed.contains("a__old") && listed.contains("a__new"), "{listed}");
    let text = |answer: Answer| answer.result()["content"][0]["text"].clone();
    assert_eq!(text(able.call("a__both").await), "abc", "in the legacy era");
    assert_eq!(text(able.call("a__old").await), "abc");
    assert_eq!(text(able.call("a__new").await), "new", "which the legacy era does not have");
    let quiet = gate.session("/mcp", "2025-11-25").await;
    assert_eq!(text(quiet.call("a__both").await), "both");
    assert_eq!(quiet.call("a__old").await.code(), -32602);
    let client = Client::new(&gate);
    assert_eq!(text(client.call("a__both", json!({})).await), "both");
    assert_eq!(client.call("a__old", json!({})).await.code(), -32602);
}
