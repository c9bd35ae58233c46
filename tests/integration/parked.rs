//! Questions of legacy servers during a call of a modern client (F-21 to F-28): the call is parked
//! until the same client answers with another request, with a time limit.

use std::path::Path;
use std::time::Duration;

use crate::rig::client::Request;
use crate::rig::gate::create_key;
use crate::rig::upstream::{legacy, modern, tool};
use crate::rig::{Answer, Gate, HeardMessage, Say, Upstream, Value, fixture, json, until};

/// A client with form elicitation.
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

/// Waits until the trail has denials with exactly these reasons, in this order.
async fn until_recorded(trail: &Path, reasons: &[&str]) {
    until("the denials are recorded", async || {
        let text = std::fs::read_to_string(trail).unwrap_or_default();
        let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let denied = records.filter(|record| record["decision"] == "deny");
        let found: Vec<Value> = denied.map(|record| record["reason"].clone()).collect();
        (found == reasons).then_some(())
    })
    .await;
}

fn ann() -> Value {
    json!({"action": "accept", "content": {"username": "Ann", "email": "ann@example.com"}})
}

fn question(asked: &Value) -> &Value {
    let requests = asked["inputRequests"].as_object().expect("questions");
    requests.values().next().unwrap()
}

/// Returns a legacy HTTP server that records the answers to its questions. Its tool `ask` asks and
/// never completes; its tool `open` requires a page to be opened first.
pub fn asking() -> impl Fn(&HeardMessage) -> Say + Send + Sync {
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

/// Waits for the answer to the server's question.
async fn heard_answer(server: &Upstream) -> Value {
    until("the server has its answer", async || {
        server.heard().into_iter().find(|heard| heard.body["id"] == 900).map(|heard| heard.body)
    })
    .await
}

/// The complete flow over stdio with the SDK's server: a question, answered once, bound to one
/// caller and one request.
#[tokio::test]
async fn a_question_is_asked_and_answered_with_another_request() {
    let servers = json!({"f": fixture(&["--era", "legacy", "--shy"])});
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("audit.jsonl");
    let audit = json!({"file": trail});
    let auth = json!({"keys_file": "keys.yaml"});
    let gate = Gate::start(json!({"servers": servers, "auth": auth, "audit": audit})).await;
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
    // Another caller, other arguments or an invalid form are errors, and the question stays open.
    let foreign = bob.answer(tool, &asked, ann()).await;
    assert_eq!(foreign.code(), -32602, "{}", foreign.text());
    let other = json!({"requestState": asked["requestState"], "arguments": {"message": "No"}});
    let other = ann_client.call(tool, other).await;
    assert_eq!(other.json()["error"], foreign.json()["error"], "same for the client");
    until_recorded(&trail, &["other_caller", "forged"]).await;
    for reason in ["other_caller", "forged"] {
        assert!(gate.log().contains(&format!("reason=\"{reason}\"")), "{}", gate.log());
    }
    let wrong = json!({"action": "accept", "content": {"username": 7, "email": "a@b.c"}});
    assert_eq!(ann_client.answer(tool, &asked, wrong).await.code(), -32602);
    let cut = asked["requestState"].as_str().unwrap().replace('.', "_");
    assert_eq!(ann_client.call(tool, json!({"requestState": cut})).await.code(), -32602);
    // Without an answer the question is repeated.
    let again =
        ann_client.call(tool, json!({"requestState": asked["requestState"]})).await.result();
    assert_eq!(question(&again), form);
    let done = ann_client.answer(tool, &again, ann()).await.result();
    assert_eq!(done["resultType"], "complete", "{done}");
    assert!(done.to_string().contains("Ann"), "{done}");
    let twice = ann_client.answer(tool, &again, ann()).await;
    assert_eq!(twice.code(), -32602);
    assert!(twice.text().contains("was already answered"), "{}", twice.text());
    // The tool is listed only for clients with elicitation.
    assert_eq!(bob.call(tool, json!({})).await.result()["resultType"], "input_required");
    bob.capabilities = json!({});
    assert_eq!(bob.call(tool, json!({})).await.code(), -32602);
}

/// Two concurrent calls right after the start, at servers with questions that do not identify a
/// call: each call gets its own question and answer.
#[tokio::test]
async fn the_first_two_calls_have_their_own_questions() {
    for options in [&["--era", "legacy"][..], &["--era", "legacy", "--shy"]] {
        let gate = Gate::start(json!({"servers": {"f": fixture(options)}})).await;
        let client = Client::new(&gate);
        ask_two(&client, "f__test_elicitation").await;
        ask_two(&client, "f__test_elicitation").await;
        let sampled = client.call("f__test_sampling", json!({"arguments": {"prompt": "Hi"}})).await;
        assert_eq!(question(&sampled.result())["method"], "sampling/createMessage");
    }
    let (address, serving) = serve_sse().await;
    let servers = json!({"a": {"url": format!("http://{address}/sse"), "transport": "sse"}});
    let gate = Gate::start(json!({"servers": servers})).await;
    ask_two(&Client::new(&gate), "a__ask").await;
    serving.abort();
}

async fn ask_two(client: &Client<'_>, tool: &str) {
    let ask = |message| client.call(tool, json!({"arguments": {"message": message}}));
    let (first, second) = tokio::join!(ask("one"), ask("two"));
    for (asked, message, name) in [(second, "two", "Bob"), (first, "one", "Ann")] {
        let asked = asked.result();
        let words = question(&asked)["params"]["message"].as_str().unwrap().to_owned();
        assert!(words.ends_with(message), "{words}");
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
        let answer = json!({"action": "accept", "content": {"username": name, "email": "a@b.c"}});
        let more = json!({"arguments": {"message": message}, "requestState": asked["requestState"],
            "inputResponses": {key: answer}});
        let done = client.call(tool, more).await.result();
        assert!(done.to_string().contains(name), "{done}");
    }
}

/// Starts a legacy HTTP+SSE server with a tool `ask`, which asks on the session's stream and
/// returns the answer.
async fn serve_sse() -> (std::net::SocketAddr, tokio::task::JoinHandle<()>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let (mut streams, mut calls) = (Vec::new(), Vec::new());
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut bytes = Vec::new();
            let (head, body) = loop {
                socket.read_buf(&mut bytes).await.unwrap();
                let text = String::from_utf8(bytes.clone()).unwrap();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length = head.to_lowercase();
                let length = length.split("content-length: ").nth(1).unwrap_or("0");
                let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
                if body.len() >= length {
                    break (head.to_owned(), body.to_owned());
                }
            };
            if head.starts_with("GET") {
                let at = streams.len();
                let text = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: endpoint\n\
                    data: /post?{at}\n\n"
                );
                socket.write_all(text.as_bytes()).await.unwrap();
                streams.push(socket);
                calls.push(Value::Null);
                continue;
            }
            let done = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            socket.write_all(done.as_bytes()).await.unwrap();
            let at: usize = head[6..].split(['?', ' ']).nth(1).unwrap().parse().unwrap();
            let body: Value = serde_json::from_str(&body).unwrap();
            let heard = HeardMessage {
                verb: "POST".into(),
                headers: Vec::new(),
                text: String::new(),
                body,
            };
            let said = match heard.method() {
                "tools/call" => {
                    calls[at] = heard.body["id"].clone();
                    json!({"jsonrpc": "2.0", "id": 900, "method": "elicitation/create",
                        "params": {"message": heard.body["params"]["arguments"]["message"],
                            "requestedSchema": {"type": "object", "properties": {
                                "username": {"type": "string"}, "email": {"type": "string"}}}}})
                }
                "" => {
                    let text = heard.body.to_string();
                    json!({"jsonrpc": "2.0", "id": calls[at],
                        "result": {"content": [{"type": "text", "text": text}]}})
                }
                _ => match legacy("2024-11-05", &["ask"])(&heard) {
                    Say::Json(value) | Say::Status(_, _, value) => value,
                    _ => Value::Null,
                },
            };
            if !said.is_null() {
                let event = format!("event: message\ndata: {said}\n\n");
                streams[at].write_all(event.as_bytes()).await.unwrap();
            }
        }
    });
    (address, serving)
}

/// A question on the stream of an HTTP session does not identify its call, so concurrent calls use
/// separate sessions.
#[tokio::test]
async fn a_question_on_the_stream_of_a_session_reaches_its_call() {
    let sessions = std::sync::atomic::AtomicUsize::new(0);
    let plain = legacy("2025-11-25", &["t"]);
    let server = Upstream::verbs(move |heard| match (heard.verb.as_str(), heard.method()) {
        ("POST", "initialize") => {
            let id = sessions.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let welcome = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "old", "version": "1"}});
            Say::Status(200, vec![("mcp-session-id", id.to_string())], heard.result(welcome))
        }
        // The first session is shared by clients without elicitation.
        ("GET", _) if heard.header("mcp-session-id") != Some("0") => {
            let id: u64 = heard.header("mcp-session-id").unwrap().parse().unwrap();
            let ask = json!({"jsonrpc": "2.0", "id": 900 + id, "method": "elicitation/create",
                "params": {"message": "Sure?", "requestedSchema": {"type": "object",
                    "properties": {"ok": {"type": "boolean"}}}}});
            Say::Stream(format!("data: {ask}\n\n"))
        }
        ("GET", _) => Say::Stream(": open\n\n".into()),
        ("POST", "tools/call") => {
            Say::Late(Duration::from_secs(1), heard.result(json!({"content": []})))
        }
        _ => plain(heard),
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let client = Client::new(&gate);
    let (first, second) =
        tokio::join!(client.call("a__t", json!({})), client.call("a__t", json!({})));
    let yes = || json!({"action": "accept", "content": {"ok": true}});
    let (first, second) = (first.result(), second.result());
    let (first, second) =
        tokio::join!(client.answer("a__t", &first, yes()), client.answer("a__t", &second, yes()));
    for done in [first.result(), second.result()] {
        assert_eq!(done["resultType"], "complete", "{done}");
    }
    let answers = server.heard().into_iter().filter(|heard| heard.body["id"].as_u64() > Some(900));
    let mut answers: Vec<_> = answers.map(|heard| heard.body["result"]["action"].clone()).collect();
    // The session of the lists has no calls.
    answers.retain(|action| !action.is_null());
    assert_eq!(answers, ["accept", "accept"]);
}

/// `servers.NAME.client_connections` at its limit: one caller may use half of the connections. A
/// further call waits for a connection, and is rejected with a reason after a timeout.
#[tokio::test]
async fn calls_beyond_the_connections_of_a_server_wait_or_are_refused() {
    let mut server = fixture(&["--era", "legacy"]);
    (server["client_connections"], server["stall_timeout"]) = (4.into(), 2.into());
    let gate = Gate::start(json!({"servers": {"f": server}})).await;
    let client = Client::new(&gate);
    let tool = "f__test_elicitation";
    let asked = client.call(tool, json!({})).await.result();
    assert_eq!(client.call(tool, json!({})).await.result()["resultType"], "input_required");
    let refused = client.call(tool, json!({})).await;
    assert_eq!((refused.status, refused.code()), (503, -31053), "{}", refused.text());
    assert_eq!(refused.json()["error"]["data"]["reason"], "client_connections");
    let (waited, done) =
        tokio::join!(client.call(tool, json!({})), client.answer(tool, &asked, ann()));
    assert!(done.result().to_string().contains("Ann"));
    assert_eq!(waited.result()["resultType"], "input_required", "it had the released one");
}

/// Legacy clients: idle connections are evicted, and a client without a connection is rejected.
/// Such a client never falls back to a connection without its capabilities.
#[tokio::test]
async fn clients_beyond_the_connections_of_a_server_wait_or_are_refused() {
    let mut server = fixture(&["--era", "legacy"]);
    (server["client_connections"], server["stall_timeout"]) = (2.into(), 1.into());
    let gate = Gate::start(json!({"servers": {"f": server}})).await;
    let able = || gate.session_with("/mcp", "2025-11-25", json!({"elicitation": {"form": {}}}));
    let sessions = [able().await, able().await, able().await];
    let ask = |session: &str| {
        let call = json!({"name": "f__test_elicitation", "arguments": {"message": "Who?"}});
        Request::legacy("/mcp", session, 5, "tools/call", &call)
    };
    let began = std::time::Instant::now();
    for session in &sessions {
        assert_eq!(session.call("f__test_simple_text").await.code(), 0, "idle ones make room");
    }
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    let mut open = Vec::new();
    for session in &sessions[..2] {
        let mut stream = ask(&session.id).open(gate.address).await;
        let asked = stream.next().await.unwrap();
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        open.push((session, stream, asked));
    }
    let refused = ask(&sessions[2].id).send(gate.address).await;
    assert_eq!((refused.status, refused.code()), (503, -31053), "{}", refused.text());
    assert_eq!(refused.json()["error"]["data"]["reason"], "client_connections");
    let (session, mut stream, asked) = open.pop().unwrap();
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": ann()});
    assert_eq!(session.post(answer.to_string()).send(gate.address).await.status, 202);
    assert!(stream.next().await.unwrap()["result"].to_string().contains("Ann"));
    let asked = ask(&sessions[2].id).open(gate.address).await.next().await.unwrap();
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
}

/// An unanswered question is an error for the server, never an answer on the user's behalf; a late
/// answer gets the reason.
#[tokio::test]
async fn an_unanswered_question_is_an_error() {
    let server = Upstream::http(asking()).await;
    let gate =
        Gate::start(json!({"servers": {"a": server.config()}, "limits": {"question_timeout": 1}}))
            .await;
    let client = Client::new(&gate);
    let asked = client.call("a__ask", json!({})).await.result();
    assert_eq!(heard_answer(&server).await["error"]["code"], -32603);
    until("the call is cancelled", async || {
        (server.count("notifications/cancelled") == 1).then_some(())
    })
    .await;
    let yes = json!({"action": "accept", "content": {"ok": true}});
    let late = client.answer("a__ask", &asked, yes).await;
    assert_eq!(late.code(), -32602);
    assert!(late.text().contains("limits.question_timeout"), "{}", late.text());
}

/// `limits.parked_calls` and the limit per caller.
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
        assert_eq!(heard_answer(&server).await["error"]["code"], -32603);
        let metrics = Request::bare("GET", "/metrics", "").send(gate.address).await.text();
        assert!(metrics.contains("lockgate_parked_calls 1"), "{metrics}");
    }
}

/// A server that dies while it waits, and a restarted gateway: each has its own error message.
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

/// -32042 of a legacy server: a modern client is asked to open the page, and the call is repeated
/// when it returns.
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

/// A parked call holds no permit of its server.
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

/// An answer is sent to the server once the call has a permit again. Without a permit, the server
/// gets an error, and the client gets the reason.
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
            assert_eq!(heard_answer(&server).await["error"]["code"], -32603);
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

/// If a server cancels its question, its call needs a permit again.
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

/// A server of both eras: legacy clients with elicitation use its legacy era, and modern clients
/// its modern era.
#[tokio::test]
async fn a_server_of_both_eras_is_spoken_to_in_the_clients_own() {
    let new = modern(&["both", "new"]);
    let old = |heard: &HeardMessage| match heard.method() {
        "tools/list" => Say::Json(heard.result(json!({"tools": [tool("both"), tool("old")]}))),
        "tools/call" => Say::Json(heard.result(
            json!({"content": [{"type": "text", "text": heard.header("mcp-session-id")}]}),
        )),
        _ => legacy("2025-11-25", &[])(heard),
    };
    let server = Upstream::http(move |heard: &HeardMessage| {
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
