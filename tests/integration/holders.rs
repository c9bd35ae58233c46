//! Three gateways with one secret, without affinity: an answer is routed to the gateway that holds
//! its call, a session ends at all of them, and a tool runs once, even if a gateway is killed.

use std::net::SocketAddr;
use std::sync::Mutex;

use crate::connections::free_port;
use crate::principals::By;
use crate::rig::client::{Answer, Request, Stream};
use crate::rig::upstream::legacy;
use crate::rig::{Gate, HeardMessage, Say, Upstream, Value, json, signal};

const SECRET: &str = "5b0f8c1e9ad34672f1ac0e5b79436281";
const KEY: &str = "0123456789abcdef0123456789abcdef";
const POLICY: &str = "policies:
  - { name: all, effect: allow }
  - { name: sure, effect: ask, what: { words: [wipe] } }
";

/// Returns a legacy server with a tool that asks for a word and returns it, with progress on
/// request.
fn asking() -> impl Fn(&HeardMessage) -> Say + Send + Sync {
    let plain = legacy("2025-11-25", &["ask", "wipe"]);
    let call = Mutex::new(Value::Null);
    move |heard| match (heard.method(), heard.body["params"]["name"].as_str()) {
        ("tools/call", Some("ask")) => {
            *call.lock().unwrap() = heard.body.clone();
            let schema = json!({"type": "object", "required": ["word"],
                "properties": {"word": {"type": "string"}}});
            let ask = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
                "params": {"message": "Which?", "requestedSchema": schema}});
            Say::Text("", ask.to_string().into_bytes())
        }
        ("", _) if heard.body["id"] == "q" => {
            let said = heard.body["result"].to_string();
            let result = json!({"content": [{"type": "text", "text": said}]});
            let call = call.lock().unwrap().clone();
            let done = json!({"jsonrpc": "2.0", "id": call["id"], "result": result}).to_string();
            let token = &call["params"]["_meta"]["progressToken"];
            if token.is_null() {
                return Say::Text("", done.into_bytes());
            }
            let params = json!({"progressToken": token, "progress": 1});
            let note =
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            Say::Text("", format!("{note}\n{done}").into_bytes())
        }
        _ => plain(heard),
    }
}

/// Gateways that reach each other at these addresses.
struct Fleet {
    server: Upstream,
    gates: Vec<Gate>,
    _folder: tempfile::TempDir,
}

impl Fleet {
    async fn new() -> Self {
        let ports = [free_port(), free_port(), free_port()];
        Self::with(ports.map(|port| (port, port)), &ports).await
    }

    /// Starts gateways, each with its listening port and its advertised port.
    async fn with<const N: usize>(ports: [(u16, u16); N], peers: &[u16]) -> Self {
        let server = Upstream::lines(asking()).await;
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy.yaml");
        std::fs::write(&policy, POLICY).unwrap();
        let peers: Vec<String> = peers.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let mut gates = Vec::new();
        for (port, own) in ports {
            let listen = SocketAddr::from(([127, 0, 0, 1], port)).to_string();
            let config = json!({"servers": {"a": server.config()}, "secret": SECRET,
                "auth": {"key": KEY}, "policy": {"files": [policy]}, "listen": listen,
                "replicas": {"address": format!("127.0.0.1:{own}"), "peers": peers}});
            gates.push(Gate::start(config).await);
        }
        Self { server, gates, _folder: folder }
    }

    async fn call(&self, at: usize, tool: &str, more: Value) -> Answer {
        modern(tool, more).send(self.gates[at].address).await
    }

    async fn answer(&self, at: usize, tool: &str, asked: &Value, answer: Value) -> Answer {
        self.call(at, tool, next_round(asked, answer)).await
    }

    fn calls(&self) -> usize {
        self.server.count("tools/call")
    }

    /// Returns how often a gateway has forwarded an answer.
    fn sent_on(&self, at: usize) -> usize {
        self.gates[at].log().matches("answer forwarded to the gateway").count()
    }

    async fn kill(&mut self, at: usize) {
        signal(self.gates[at].pid(), rustix::process::Signal::KILL);
        self.gates[at].ended().await;
    }
}

fn next_round(asked: &Value, answer: Value) -> Value {
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    json!({"requestState": asked["requestState"], "inputResponses": {key: answer}})
}

fn modern(tool: &str, more: Value) -> Request {
    let capabilities = json!({"elicitation": {"form": {}}});
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
    let mut params = json!({"name": tool, "arguments": {}, "_meta": meta});
    for (key, value) in more.as_object().unwrap() {
        params[key] = value.clone();
    }
    Request::modern("/mcp", "tools/call", params).by(KEY)
}

/// Opens a session with elicitation.
async fn open_session(gate: &Gate) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let begun = Request::bare("POST", "/mcp", body.to_string()).by(KEY).send(gate.address).await;
    begun.header("mcp-session-id").expect("a session").to_owned()
}

/// Starts a call in a session; returns its stream and the question.
async fn begin(gate: &Gate, session: &str) -> (Stream, Value) {
    let params = json!({"name": "a__ask", "arguments": {}});
    let call = Request::legacy("/mcp", session, 3, "tools/call", &params).by(KEY);
    let mut stream = call.open(gate.address).await;
    let question = stream.next().await.unwrap();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    (stream, question)
}

fn reply(session: &str, question: &Value, result: &Value) -> Request {
    let body = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
    let request = Request::bare("POST", "/mcp", body.to_string()).by(KEY);
    request.with("Mcp-Session-Id", session)
}

fn accept(word: &str) -> Value {
    json!({"action": "accept", "content": {"word": word}})
}

#[tokio::test]
async fn an_answer_of_a_modern_client_reaches_the_gateway_of_its_call() {
    let fleet = Fleet::new().await;
    let decline = json!({"action": "decline"});
    for (calls, (from, to, said)) in
        [(0, 1, accept("red")), (1, 2, decline.clone()), (2, 2, accept("blue")), (2, 0, decline)]
            .into_iter()
            .enumerate()
    {
        let asked = fleet.call(from, "a__ask", json!({})).await.result();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let done = fleet.answer(to, "a__ask", &asked, said.clone()).await.result();
        let text = done["content"][0]["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), said);
        assert_eq!(fleet.calls(), calls + 1, "it runs once");
        // An answer is accepted once, at any gateway.
        let again = fleet.answer(to, "a__ask", &asked, said).await;
        assert_eq!(again.code(), -32602, "{}", again.text());
        assert!(again.text().contains("may have taken effect"), "{}", again.text());
    }
    assert_eq!([0, 1, 2].map(|at| fleet.sent_on(at)), [2, 2, 2]);
    assert_eq!(fleet.calls(), 4);
}

/// The holder's event stream is relayed unchanged.
#[tokio::test]
async fn an_answer_with_a_stream_comes_back_as_one() {
    let fleet = Fleet::new().await;
    let token = json!({"progressToken": "p",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}});
    let asked = fleet.call(0, "a__ask", json!({"_meta": token})).await.json()["result"].clone();
    let mut more = next_round(&asked, accept("red"));
    more["_meta"] = token;
    let done = fleet.call(1, "a__ask", more).await;
    assert_eq!(done.header("content-type"), Some("text/event-stream"), "{}", done.text());
    let [progress, result] = done.events().try_into().unwrap();
    assert_eq!(progress["params"], json!({"progressToken": "p", "progress": 1}));
    assert!(result["result"].to_string().contains("red"), "{result}");
    assert_eq!(fleet.sent_on(1), 1);
}

#[tokio::test]
async fn an_approval_reaches_the_gateway_that_asked_for_it() {
    let mut fleet = Fleet::new().await;
    let yes = json!({"action": "accept", "content": {"decision": "approve"}});
    let asked = fleet.call(0, "a__wipe", json!({})).await.result();
    let lost = fleet.call(0, "a__wipe", json!({})).await.result();
    assert_eq!(fleet.calls(), 0);
    let done = fleet.answer(1, "a__wipe", &asked, yes.clone()).await;
    assert!(done.result()["content"].is_array(), "{}", done.text());
    assert_eq!((fleet.calls(), fleet.sent_on(1)), (1, 1));
    fleet.kill(0).await;
    let gone = fleet.answer(1, "a__wipe", &lost, yes).await;
    let data = json!({"reason": "replica", "mayHaveRun": false});
    assert_eq!((gone.status, &gone.json()["error"]["data"]), (503, &data), "{}", gone.text());
    assert_eq!(fleet.calls(), 1);
}

#[tokio::test]
async fn an_answer_of_a_legacy_client_reaches_the_gateway_of_its_call() {
    let mut fleet = Fleet::new().await;
    let session = open_session(&fleet.gates[0]).await;
    for (at, to, said) in [(1, 2, accept("red")), (0, 1, json!({"action": "decline"}))] {
        let (mut stream, question) = begin(&fleet.gates[at], &session).await;
        let taken = reply(&session, &question, &said).send(fleet.gates[to].address).await;
        assert_eq!((taken.status, taken.text().as_str()), (202, ""));
        let done = stream.next().await.unwrap();
        let text = done["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), said);
        assert_eq!(fleet.sent_on(to), 1);
        let again = reply(&session, &question, &said).send(fleet.gates[to].address).await;
        assert_eq!(again.status, 400, "{}", again.text());
    }
    assert_eq!(fleet.calls(), 2);
    let (_stream, question) = begin(&fleet.gates[1], &session).await;
    fleet.kill(1).await;
    let gone = reply(&session, &question, &accept("red")).send(fleet.gates[2].address).await;
    let data = json!({"reason": "replica", "mayHaveRun": true});
    assert_eq!((gone.status, &gone.json()["error"]["data"]), (503, &data), "{}", gone.text());
    assert_eq!(fleet.calls(), 3);
}

#[tokio::test]
async fn a_session_that_is_deleted_ends_at_every_gateway() {
    let fleet = Fleet::new().await;
    let session = open_session(&fleet.gates[0]).await;
    let (mut stream, _) = begin(&fleet.gates[1], &session).await;
    let delete = Request::bare("DELETE", "/mcp", "").by(KEY).with("Mcp-Session-Id", &session);
    assert_eq!(delete.send(fleet.gates[2].address).await.status, 204);
    for gate in &fleet.gates {
        let ping = Request::legacy("/mcp", &session, 4, "ping", &json!({})).by(KEY);
        assert_eq!(ping.send(gate.address).await.status, 404);
    }
    let last = stream.next().await;
    assert!(last.is_none_or(|last| last.get("result").is_none()), "its call has ended");
}

/// The holder of a call is killed: the client is informed that the tool may have run, and no
/// gateway repeats the call.
#[tokio::test]
async fn a_killed_gateway_is_named_with_what_may_have_run() {
    let mut fleet = Fleet::new().await;
    let asked = fleet.call(0, "a__ask", json!({})).await.result();
    fleet.kill(0).await;
    for at in [1, 2] {
        let gone = fleet.answer(at, "a__ask", &asked, accept("red")).await;
        let data = json!({"reason": "replica", "mayHaveRun": true});
        assert_eq!((gone.status, &gone.json()["error"]["data"]), (503, &data), "{}", gone.text());
        assert!(gone.text().contains("check before a retry"), "{}", gone.text());
        assert!(!gone.text().contains("127.0.0.1"), "no address of ours: {}", gone.text());
    }
    assert_eq!(fleet.calls(), 1);
}

#[tokio::test]
async fn a_forged_proof_is_refused_and_other_callers_reach_nothing() {
    let fleet = Fleet::new().await;
    let asked = fleet.call(0, "a__ask", json!({})).await.result();
    let state = asked["requestState"].as_str().unwrap();
    let session = open_session(&fleet.gates[0]).await;
    let delete = Request::bare("DELETE", "/mcp", "").by(KEY).with("Mcp-Session-Id", &session);
    // Other tokens of the gateways are not valid proofs.
    for proof in ["lg1.00000000.AAAA", state.split('~').next_back().unwrap(), ""] {
        let forged = modern("a__ask", next_round(&asked, accept("red")));
        for gate in &fleet.gates {
            for request in [&forged, &delete] {
                let refused = request.clone().with("Lockgate-Peer", proof).send(gate.address).await;
                assert_eq!(refused.status, 403, "{}", refused.text());
            }
        }
    }
    // Forwarded requests must refer to a call of the authenticated caller.
    let list = Request::modern("/mcp", "tools/list", json!({})).by(KEY);
    let refused = list.with("Lockgate-Peer", "lg1").send(fleet.gates[1].address).await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    // A wrong credential and a spliced state are rejected.
    let other = modern("a__ask", next_round(&asked, accept("red"))).by("wrong");
    assert_eq!(other.send(fleet.gates[1].address).await.status, 401);
    let cut = state.split('~').next().unwrap();
    let mixed = json!({"requestState": format!("{cut}~{cut}"), "inputResponses": {}});
    assert_eq!(fleet.call(1, "a__ask", mixed).await.code(), -32602);
    assert_eq!([0, 1, 2].map(|at| fleet.sent_on(at)), [0, 0, 0]);
    let done = fleet.answer(1, "a__ask", &asked, accept("red")).await;
    assert!(done.result().to_string().contains("red"));
    assert_eq!(fleet.calls(), 1);
}

/// Each gateway advertises the other's address: the forwarded answer returns and is rejected.
#[tokio::test]
async fn a_message_is_never_sent_on_twice() {
    let [one, two] = [free_port(), free_port()];
    let fleet = Fleet::with([(one, two), (two, one)], &[one, two]).await;
    let asked = fleet.call(0, "a__ask", json!({})).await.result();
    let refused = fleet.answer(1, "a__ask", &asked, accept("red")).await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert_eq!([0, 1].map(|at| fleet.sent_on(at)), [0, 1]);
    assert_eq!(fleet.calls(), 1);
}

/// Sealed addresses that are no longer configured peers receive no answers.
#[tokio::test]
async fn an_address_that_is_no_gateways_gets_nothing() {
    let [one, two] = [free_port(), free_port()];
    let fleet = Fleet::with([(one, one), (two, two)], &[two]).await;
    let asked = fleet.call(0, "a__ask", json!({})).await.result();
    let gone = fleet.answer(1, "a__ask", &asked, accept("red")).await;
    assert_eq!(
        (gone.status, gone.json()["error"]["data"]["reason"].as_str()),
        (503, Some("replica"))
    );
    let done = fleet.answer(0, "a__ask", &asked, accept("red")).await;
    assert!(done.result().to_string().contains("red"), "it had not got the answer");
}
