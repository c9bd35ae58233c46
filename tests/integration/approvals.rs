//! Calls with an `ask` policy, approved by their caller or by others, in both eras. Exactly the
//! approved call runs, once; without an approval no server receives it.

use std::time::Duration;

use crate::principals::{By, key};
use crate::rig::client::Request;
use crate::rig::gate::command;
use crate::rig::upstream::{modern, modern_with, tool};
use crate::rig::{Answer, Gate, HeardMessage, Say, Stream, Upstream, Value, json, until};

pub(crate) const ALLOW: &str = "policies:\n  - { name: all, effect: allow }\n";
/// Calls with the word `drop` are approved by their caller.
pub(crate) const OWN: &str = "  - { name: sure, effect: ask, what: { words: [drop] } }\n";
/// Calls with the word `wipe` need the approval of two approvers.
pub(crate) const TWO: &str = "  - { name: two, effect: ask, what: { words: [wipe] }, approval: { by: { roles: [approver] }, approvals: 2 } }\n";
/// Calls with the word `wipe` need the approval of a single approver.
pub(crate) const ONE: &str = "  - { name: one, effect: ask, what: { words: [wipe] }, approval: { by: { roles: [approver] } } }\n";

pub(crate) struct Rig {
    pub(crate) server: Upstream,
    pub(crate) gate: Gate,
    folder: tempfile::TempDir,
}

impl Rig {
    pub(crate) async fn new(policies: &str, more: Value) -> Self {
        Self::with(modern(&["drop", "wipe", "read"]), policies, more).await
    }

    pub(crate) async fn with(
        script: impl Fn(&HeardMessage) -> Say + Send + Sync + 'static,
        policies: &str,
        more: Value,
    ) -> Self {
        let server = Upstream::http(script).await;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.yaml"), format!("{ALLOW}{policies}")).unwrap();
        let gate = Gate::start(Self::config(&server, &folder, more)).await;
        Self { server, gate, folder }
    }

    pub(crate) fn config(server: &Upstream, folder: &tempfile::TempDir, more: Value) -> Value {
        let mut config = json!({"servers": {"a": server.config()}, "auth": {"keys_file": "keys.yaml"},
            "policy": {"files": [folder.path().join("p.yaml")]}});
        for (name, value) in more.as_object().unwrap() {
            config[name] = value.clone();
        }
        config
    }

    /// Points the gateway's server entry to another upstream.
    pub(crate) fn reconfigure(&self, server: &Upstream) {
        self.gate.configure(Self::config(server, &self.folder, json!({})));
    }

    /// Sends a modern call from a client that accepts elicitation.
    pub(crate) async fn call(&self, key: &str, tool: &str, more: Value) -> Answer {
        modern_call(tool, more).by(key).send(self.gate.address).await
    }

    pub(crate) fn calls(&self) -> usize {
        self.server.count("tools/call")
    }

    /// Returns the calls that await approval.
    pub(crate) async fn list(&self, key: &str) -> Vec<Value> {
        let answer = Request::bare("GET", "/approvals", "").by(key).send(self.gate.address).await;
        answer.json()["approvals"].as_array().unwrap().clone()
    }

    /// Waits for the only call that awaits approval.
    pub(crate) async fn waiting(&self, key: &str) -> Value {
        until("a call waits", async || self.list(key).await.pop()).await
    }

    pub(crate) async fn answer(&self, key: &str, id: &Value, decision: &str) -> Answer {
        let path = format!("/approvals/{}/{decision}", id.as_str().unwrap());
        Request::bare("POST", &path, "").by(key).send(self.gate.address).await
    }

    pub(crate) async fn person(&self, name: &str) -> String {
        key(&self.gate, name, &[]).await
    }

    pub(crate) async fn approver(&self, name: &str) -> String {
        key(&self.gate, name, &["--role", "approver"]).await
    }
}

pub(crate) fn modern_call(tool: &str, more: Value) -> Request {
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}});
    let mut params = json!({"name": tool, "arguments": {"n": 1}, "_meta": meta});
    for (key, value) in more.as_object().unwrap() {
        params[key] = value.clone();
    }
    Request::modern("/mcp", "tools/call", params)
}

pub(crate) fn decision(word: &str) -> Value {
    json!({"approval": {"action": "accept", "content": {"decision": word}}})
}

#[track_caller]
pub(crate) fn refusal(answer: &Answer) -> String {
    let result = answer.result();
    assert_eq!(result["isError"], true, "{result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

pub(crate) async fn session(rig: &Rig, key: &str, capabilities: Value) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
        "clientInfo": {"name": "t", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let opened = Request::bare("POST", "/mcp", body.to_string()).by(key);
    let opened = opened.send(rig.gate.address).await;
    opened.header("mcp-session-id").unwrap().to_owned()
}

pub(crate) async fn legacy_call(rig: &Rig, key: &str, session: &str, tool: &str) -> Stream {
    let call = json!({"name": tool, "arguments": {"n": 1}});
    Request::legacy("/mcp", session, 9, "tools/call", &call).by(key).open(rig.gate.address).await
}

/// Returns the response that ends a call of a session.
pub(crate) async fn last(mut stream: Stream) -> Value {
    match stream.head.header("content-type") {
        Some("application/json") => stream.whole().await.json(),
        _ => stream.next().await.unwrap(),
    }
}

#[tokio::test]
async fn a_modern_caller_approves_a_call_which_is_made_once() {
    let rig = Rig::new(OWN, json!({})).await;
    let ann = rig.person("ann").await;
    assert_eq!(rig.call(&ann, "a__read", json!({})).await.result()["resultType"], "complete");
    let asked = rig.call(&ann, "a__drop", json!({})).await.result();
    assert_eq!((asked["resultType"].as_str(), rig.calls()), (Some("input_required"), 1));
    let question = &asked["inputRequests"]["approval"];
    assert_eq!(question["method"], "elicitation/create");
    let words = question["params"]["message"].as_str().unwrap();
    for part in ["Caller: key|", "Tool: a__drop (server a)", r#"{"n":1}"#, "Policy: sure"] {
        assert!(words.contains(part), "{words}");
    }
    let state = &asked["requestState"];
    let yes = json!({"requestState": state, "inputResponses": decision("approve")});
    let done = rig.call(&ann, "a__drop", yes.clone()).await.result();
    assert_eq!((done["resultType"].as_str(), rig.calls()), (Some("complete"), 2));
    let sent = rig.server.heard_of("tools/call").pop().unwrap().body["params"].clone();
    assert!(sent.get("requestState").is_none() && sent.get("inputResponses").is_none(), "{sent}");
    // A repeated use is an error, and no server receives the call.
    let again = rig.call(&ann, "a__drop", yes).await;
    assert_eq!((again.code(), rig.calls()), (-32602, 2), "{}", again.text());
    assert!(again.text().contains("it was already used"), "{}", again.text());
}

#[tokio::test]
async fn no_answer_but_a_clear_yes_makes_the_call() {
    let rig = Rig::new(OWN, json!({})).await;
    let ann = rig.person("ann").await;
    for responses in [
        decision("deny"),
        json!({"approval": {"action": "decline"}}),
        json!({"approval": {"action": "cancel"}}),
    ] {
        let asked = rig.call(&ann, "a__drop", json!({})).await.result();
        let more = json!({"requestState": asked["requestState"], "inputResponses": responses});
        let words = refusal(&rig.call(&ann, "a__drop", more.clone()).await);
        assert!(words.contains("refused by policy sure: it was denied by its caller"), "{words}");
        // A denial cannot be replaced with an approval.
        let mut later = more;
        later["inputResponses"] = decision("approve");
        assert_eq!(rig.call(&ann, "a__drop", later).await.code(), -32602);
    }
    // An invalid decision is an error, and the question stays open.
    let asked = rig.call(&ann, "a__drop", json!({})).await.result();
    let state = &asked["requestState"];
    let odd = json!({"approval": {"action": "accept", "content": {"decision": "perhaps"}}});
    let odd =
        rig.call(&ann, "a__drop", json!({"requestState": state, "inputResponses": odd})).await;
    assert_eq!((odd.code(), rig.calls()), (-32602, 0), "{}", odd.text());
    let yes = json!({"requestState": state, "inputResponses": decision("approve")});
    assert_eq!(rig.call(&ann, "a__drop", yes).await.result()["resultType"], "complete");
    // A client without elicitation gets an explanation.
    let unable = Request::modern("/mcp", "tools/call", json!({"name": "a__drop", "arguments": {}}));
    let words = refusal(&unable.by(&ann).send(rig.gate.address).await);
    assert!(words.contains("did not declare the elicitation capability"), "{words}");
    assert_eq!(rig.calls(), 1);
}

#[tokio::test]
async fn an_approval_is_good_for_its_own_call_of_its_own_caller_alone() {
    let rig = Rig::new(OWN, json!({})).await;
    let ann = rig.person("ann").await;
    let bob = rig.person("bob").await;
    let asked = rig.call(&ann, "a__drop", json!({})).await.result();
    let state = asked["requestState"].as_str().unwrap().to_owned();
    let yes = |state: &str| json!({"requestState": state, "inputResponses": decision("approve")});
    let mut cases = Vec::new();
    for at in [0, 5, 14, state.len() / 2, state.len() - 2] {
        let mut flipped = state.clone().into_bytes();
        flipped[at] = if flipped[at] == b'A' { b'B' } else { b'A' };
        let flipped = String::from_utf8(flipped).unwrap();
        cases.push((format!("byte {at}"), rig.call(&ann, "a__drop", yes(&flipped)).await));
    }
    cases.push(("of another caller".into(), rig.call(&bob, "a__drop", yes(&state)).await));
    cases.push(("another tool".into(), rig.call(&ann, "a__read", yes(&state)).await));
    for arguments in [json!({"n": 2}), json!({"n": 1, "m": 1}), json!({"n": "1"}), json!({})] {
        let mut more = yes(&state);
        more["arguments"] = arguments.clone();
        cases.push((arguments.to_string(), rig.call(&ann, "a__drop", more).await));
    }
    for (case, answer) in cases {
        assert_eq!(answer.code(), -32602, "{case}: {}", answer.text());
    }
    assert_eq!(rig.calls(), 0, "no server heard of any of them");
    let done = rig.call(&ann, "a__drop", yes(&state)).await.result();
    assert_eq!((done["resultType"].as_str(), rig.calls()), (Some("complete"), 1));
}

#[tokio::test]
async fn a_question_expires_and_dies_with_the_policies_it_was_asked_under() {
    let rig = Rig::new(
        "  - { name: sure, effect: ask, what: { words: [drop] }, approval: { expires: 1 } }\n",
        json!({}),
    )
    .await;
    let ann = rig.person("ann").await;
    let yes = |asked: &Value| json!({"requestState": asked["requestState"], "inputResponses": decision("approve")});
    let asked = rig.call(&ann, "a__drop", json!({})).await.result();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let late = rig.call(&ann, "a__drop", yes(&asked)).await;
    assert_eq!(late.code(), -32602, "{}", late.text());
    assert!(late.text().contains("request state expired"), "{}", late.text());
    // An approval is invalid after the policies change.
    std::fs::write(rig.folder.path().join("p.yaml"), format!("{ALLOW}{OWN}")).unwrap();
    until("the policies are replaced", async || rig.gate.log().contains("~ sure").then_some(()))
        .await;
    let asked = rig.call(&ann, "a__drop", json!({})).await.result();
    std::fs::write(rig.folder.path().join("p.yaml"), ALLOW).unwrap();
    until("the policy is gone", async || rig.gate.log().contains("- sure").then_some(())).await;
    let words = refusal(&rig.call(&ann, "a__drop", yes(&asked)).await);
    assert!(words.contains("has changed: the policies"), "{words}");
    assert_eq!(rig.calls(), 0);
}

#[tokio::test]
async fn a_legacy_caller_is_asked_on_its_session() {
    let rig = Rig::new(OWN, json!({})).await;
    let ann = rig.person("ann").await;
    let id = session(&rig, &ann, json!({"elicitation": {}})).await;
    for (result, made) in [
        (json!({"action": "accept", "content": {"decision": "approve"}}), true),
        (json!({"action": "accept", "content": {"decision": "deny"}}), false),
        (json!({"action": "decline"}), false),
        (json!({"action": "accept", "content": {"decision": 1}}), false),
    ] {
        let before = rig.calls();
        let mut stream = legacy_call(&rig, &ann, &id, "a__drop").await;
        let question = stream.next().await.unwrap();
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let words = question["params"]["message"].as_str().unwrap();
        assert!(words.starts_with("Approve this call?\nCaller: key|"), "{words}");
        assert_eq!(rig.calls(), before, "nothing runs while the caller thinks");
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
        let posted = Request::bare("POST", "/mcp", answer.to_string()).by(&ann);
        posted.with("Mcp-Session-Id", &id).send(rig.gate.address).await;
        let last = stream.next().await.unwrap();
        assert_eq!(last["result"]["isError"] == true, !made, "{last}");
        assert_eq!(rig.calls(), before + usize::from(made), "{result}");
    }
    let unable = session(&rig, &ann, json!({})).await;
    let told = last(legacy_call(&rig, &ann, &unable, "a__drop").await).await;
    let words = told["result"]["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("did not declare the elicitation capability"), "{words}");
    assert_eq!(rig.calls(), 1);
}

#[tokio::test]
async fn two_other_people_approve_a_call_of_either_era() {
    let rig = Rig::new(TWO, json!({})).await;
    let ann = rig.approver("ann").await;
    let bob = rig.approver("bob").await;
    let eve = rig.approver("eve").await;
    let guest = rig.person("guest").await;
    let id = session(&rig, &ann, json!({})).await;
    for modern in [true, false] {
        let before = rig.calls();
        let call = async {
            if modern {
                rig.call(&ann, "a__wipe", json!({})).await.json()
            } else {
                last(legacy_call(&rig, &ann, &id, "a__wipe").await).await
            }
        };
        let people = async {
            let waiting = rig.waiting(&bob).await;
            assert_eq!(waiting["tool"], "a__wipe");
            assert_eq!(waiting["arguments"], r#"{"n":1}"#);
            assert_eq!(
                waiting["policies"],
                json!([{"policy": "two", "approvals": 0, "needed": 2}])
            );
            assert!(waiting["caller"].as_str().unwrap().starts_with("key|"), "{waiting}");
            let id = &waiting["id"];
            // The caller, a non-approver and a repeated approver do not count.
            assert!(rig.list(&ann).await.is_empty() && rig.list(&guest).await.is_empty());
            assert_eq!(rig.answer(&guest, id, "approve").await.status, 404);
            assert_eq!(rig.answer(&guest, id, "deny").await.status, 404);
            let own = rig.answer(&ann, id, "approve").await;
            assert_eq!((own.status, own.text().contains("another approver")), (409, true));
            let first = rig.answer(&bob, id, "approve").await;
            assert_eq!((first.status, &first.json()["state"]), (200, &json!("waiting")));
            assert_eq!(rig.answer(&bob, id, "approve").await.status, 409);
            assert_eq!(rig.calls(), before, "one of two is not enough");
            let second = rig.answer(&eve, id, "approve").await;
            assert_eq!((second.status, &second.json()["state"]), (200, &json!("approved")));
            assert_eq!(rig.answer(&eve, id, "approve").await.status, 404, "it is over");
        };
        let (answer, ()) = tokio::join!(call, people);
        assert!(answer["result"]["isError"] != true && answer["result"].is_object(), "{answer}");
        assert_eq!(rig.calls(), before + 1);
    }
    // Without a credential, no caller can be an approver.
    let nobody = Request::bare("GET", "/approvals", "").send(rig.gate.address).await;
    assert_eq!(nobody.status, 401);
}

#[tokio::test]
async fn the_command_line_lists_approves_and_denies() {
    let rig = Rig::new(ONE, json!({})).await;
    let ann = rig.person("ann").await;
    let bob = rig.approver("bob").await;
    let url = format!("http://{}", rig.gate.address);
    let ask = async |arguments: &[&str]| {
        let mut command = command();
        command
            .args(["approvals"])
            .args(arguments)
            .args(["--url", &url])
            .env("LOCKGATE_CLIENT_KEY", &bob);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, none, _) = ask(&["list"]).await;
    assert_eq!((code, none.trim()), (Some(0), "no calls are waiting for your approval"));
    for (decision, made) in [("approve", true), ("deny", false)] {
        let person = async {
            let id = rig.waiting(&bob).await["id"].as_str().unwrap().to_owned();
            let (_, listed, _) = ask(&["list"]).await;
            assert!(listed.starts_with(&id) && listed.contains("calls a__wipe"), "{listed}");
            let (_, listed, _) = ask(&["list", "--json"]).await;
            let listed: Value = serde_json::from_str(&listed).unwrap();
            assert_eq!(listed["approvals"][0]["id"], id.as_str());
            let (code, told, error) = ask(&[decision, &id]).await;
            assert_eq!(code, Some(0), "{error}");
            assert!(told.starts_with(&format!("{id} {decision}")[..id.len() + 4]), "{told}");
        };
        let (answer, ()) = tokio::join!(rig.call(&ann, "a__wipe", json!({})), person);
        if made {
            assert_eq!(answer.result()["resultType"], "complete")
        } else {
            assert!(refusal(&answer).contains("it was denied by bob"), "{answer:?}")
        }
    }
    assert_eq!(rig.calls(), 1);
    let (code, _, error) = ask(&["approve", "0123456789abcdef"]).await;
    assert_eq!((code == Some(0), error.contains("no call with this id")), (false, true), "{error}");
    let (code, _, error) = ask(&["approve", "../../mcp"]).await;
    assert_eq!((code == Some(0), error.contains("is not a call id")), (false, true), "{error}");
}

#[tokio::test]
async fn a_call_that_nobody_approves_is_told_so_and_one_whose_client_left_is_gone() {
    let rig = Rig::new(ONE, json!({"limits": {"approval_timeout": 1}})).await;
    let ann = rig.person("ann").await;
    let bob = rig.approver("bob").await;
    let words = refusal(&rig.call(&ann, "a__wipe", json!({})).await);
    assert!(words.contains("refused by policy one: it was not approved in time"), "{words}");
    assert!(rig.list(&bob).await.is_empty());
    let rig = Rig::new(ONE, json!({})).await;
    let ann = rig.person("ann").await;
    let bob = rig.approver("bob").await;
    let mut socket = tokio::net::TcpStream::connect(rig.gate.address).await.unwrap();
    let bytes = modern_call("a__wipe", json!({})).by(&ann).bytes();
    tokio::io::AsyncWriteExt::write_all(&mut socket, &bytes).await.unwrap();
    let id = rig.waiting(&bob).await["id"].clone();
    drop(socket);
    until("the call is gone", async || rig.list(&bob).await.is_empty().then_some(())).await;
    assert_eq!(rig.answer(&bob, &id, "approve").await.status, 404);
    assert_eq!(rig.calls(), 0);
}

#[tokio::test]
async fn a_policy_that_changes_while_a_call_waits_denies_it() {
    let rig = Rig::new(ONE, json!({})).await;
    let ann = rig.person("ann").await;
    let bob = rig.approver("bob").await;
    let person = async {
        let id = rig.waiting(&bob).await["id"].clone();
        std::fs::write(rig.folder.path().join("p.yaml"), format!("{ALLOW}{OWN}{ONE}")).unwrap();
        until("the policies are replaced", async || {
            rig.gate.log().contains("+ sure").then_some(())
        })
        .await;
        assert_eq!(rig.answer(&bob, &id, "approve").await.json()["state"], "approved");
    };
    let (answer, ()) = tokio::join!(rig.call(&ann, "a__wipe", json!({})), person);
    assert!(refusal(&answer).contains("has changed: the policies"), "{answer:?}");
    assert_eq!(rig.calls(), 0);
}

#[tokio::test]
async fn an_approval_does_not_outlive_the_gateway() {
    let secret = json!({"secret": "0123456789abcdef0123456789abcdef"});
    let rig = Rig::new(&format!("{OWN}{ONE}"), secret.clone()).await;
    let ann = rig.person("ann").await;
    let bob = rig.approver("bob").await;
    let asked = rig.call(&ann, "a__drop", json!({})).await.result();
    let mut waiting = modern_call("a__wipe", json!({})).by(&ann).bytes();
    let mut socket = tokio::net::TcpStream::connect(rig.gate.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut socket, &waiting).await.unwrap();
    let id = rig.waiting(&bob).await["id"].clone();
    crate::rig::signal(rig.gate.pid(), rustix::process::Signal::KILL);
    waiting.clear();
    tokio::io::AsyncReadExt::read_to_end(&mut socket, &mut waiting).await.unwrap_or_default();
    assert!(waiting.is_empty(), "a gateway that was killed answers nobody");
    // A gateway restarted with the same secret, keys and policies.
    let keys = rig.gate.folder.path().join("keys.yaml");
    let mut more = secret;
    more["auth"] = json!({"keys_file": keys});
    let gate = Gate::start(Rig::config(&rig.server, &rig.folder, more)).await;
    let yes = json!({"requestState": asked["requestState"], "inputResponses": decision("approve")});
    let old = modern_call("a__drop", yes).by(&ann).send(gate.address).await;
    assert_eq!(old.code(), -32602);
    assert!(old.text().contains("or the gateway was restarted"), "{}", old.text());
    let path = format!("/approvals/{}/approve", id.as_str().unwrap());
    let old = Request::bare("POST", &path, "").by(&bob).send(gate.address).await;
    assert_eq!((old.status, rig.calls()), (404, 0));
}

#[tokio::test]
async fn calls_that_wait_are_bounded() {
    let limits = json!({"limits": {"approvals": 3, "approvals_per_principal": 2}});
    let rig = Rig::new(&format!("{OWN}{ONE}"), limits).await;
    let ann = rig.person("ann").await;
    let bob = rig.person("bob").await;
    let eve = rig.approver("eve").await;
    let open = async |key: &str| {
        let bytes = modern_call("a__wipe", json!({})).by(key).bytes();
        let mut socket = tokio::net::TcpStream::connect(rig.gate.address).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut socket, &bytes).await.unwrap();
        socket
    };
    let mut held = vec![open(&ann).await, open(&ann).await];
    until("two wait", async || (rig.list(&eve).await.len() == 2).then_some(())).await;
    let full = rig.call(&ann, "a__wipe", json!({})).await;
    assert_eq!(full.status, 503, "{}", full.text());
    assert_eq!(full.json()["error"]["data"]["reason"], "approvals_per_principal");
    held.push(open(&bob).await);
    until("three wait", async || (rig.list(&eve).await.len() == 3).then_some(())).await;
    let full = rig.call(&bob, "a__wipe", json!({})).await;
    assert_eq!((full.status, &full.json()["error"]["data"]["reason"]), (503, &json!("approvals")));
    let metrics = Request::bare("GET", "/metrics", "").by(&ann).send(rig.gate.address).await.text();
    assert!(metrics.contains("lockgate_approvals_waiting 3"), "{metrics}");
    drop(held);
    // A caller's oldest question is evicted for a new question.
    let mut states = Vec::new();
    for _ in 0..3 {
        let asked = rig.call(&ann, "a__drop", json!({})).await.result();
        states.push(asked["requestState"].clone());
    }
    let mut codes = Vec::new();
    for state in &states {
        let yes = json!({"requestState": state, "inputResponses": decision("approve")});
        codes.push(rig.call(&ann, "a__drop", yes).await.code());
    }
    assert_eq!((codes, rig.calls()), (vec![-32602, 0, 0], 2));
    // Arguments that are too long to review are rejected.
    let long = json!({"arguments": {"text": "x".repeat(65 * 1024)}});
    let words = refusal(&rig.call(&ann, "a__drop", long).await);
    assert!(words.contains("it cannot be shown for approval: it is larger than 64 KiB"), "{words}");
}

/// The upstream asks its own question during an approved call.
#[tokio::test]
async fn an_approved_call_goes_on_through_its_servers_questions_once() {
    let listed = modern_with(vec![tool("drop")]);
    let script = move |heard: &HeardMessage| {
        let params = &heard.body["params"];
        if heard.method() != "tools/call" || params.get("inputResponses").is_some() {
            return listed(heard);
        }
        let form = json!({"method": "elicitation/create", "params": {"mode": "form", "message": "Sure?",
            "requestedSchema": {"type": "object", "properties": {"ok": {"type": "boolean"}}}}});
        Say::Json(
            heard.result(json!({"resultType": "input_required", "inputRequests": {"sure": form},
            "requestState": "own"})),
        )
    };
    let rig = Rig::with(script, OWN, json!({})).await;
    let ann = rig.person("ann").await;
    let asked = rig.call(&ann, "a__drop", json!({})).await.result();
    let yes = json!({"requestState": asked["requestState"], "inputResponses": decision("approve")});
    let paused = rig.call(&ann, "a__drop", yes).await.result();
    assert_eq!(paused["inputRequests"]["sure"]["params"]["message"], "[a] Sure?");
    let sure = json!({"sure": {"action": "accept", "content": {"ok": true}}});
    let next = json!({"requestState": paused["requestState"], "inputResponses": sure});
    let done = rig.call(&ann, "a__drop", next.clone()).await.result();
    assert_eq!((done["resultType"].as_str(), rig.calls()), (Some("complete"), 2));
    let again = rig.call(&ann, "a__drop", next).await;
    assert_eq!((again.code(), rig.calls()), (-32602, 2), "{}", again.text());
}

/// Secrets are masked and control characters are escaped.
#[tokio::test]
async fn what_is_shown_hides_secrets_and_nothing_else() {
    let rig = Rig::new(OWN, json!({})).await;
    let ann = rig.person("ann").await;
    let arguments = json!({"password": "hunter2-hunter2", "name": "a\u{202e}b", "n": 7});
    let asked = rig.call(&ann, "a__drop", json!({"arguments": arguments})).await.result();
    let words = asked["inputRequests"]["approval"]["params"]["message"].as_str().unwrap();
    assert!(!words.contains("hunter2") && !words.contains('\u{202e}'), "{words}");
    assert!(words.contains(r"\u{202e}") && words.contains(r#""n":7"#), "{words}");
}

#[tokio::test]
async fn the_audit_trail_has_every_step_of_an_approval() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let rig = Rig::new(&format!("{OWN}{ONE}"), json!({"audit": {"file": file}})).await;
    let ann = rig.person("ann").await;
    let bob = rig.approver("bob").await;
    let asked = rig.call(&ann, "a__drop", json!({})).await.result();
    let yes = json!({"requestState": asked["requestState"], "inputResponses": decision("approve")});
    rig.call(&ann, "a__drop", yes).await.result();
    let person = async {
        let id = rig.waiting(&bob).await["id"].clone();
        rig.answer(&bob, &id, "deny").await;
    };
    tokio::join!(rig.call(&ann, "a__wipe", json!({})), person);
    let records = async || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        records.filter(|one| one["name"].is_string()).collect::<Vec<_>>()
    };
    let all = until("all is recorded", async || {
        let all = records().await;
        (all.len() >= 6).then_some(all)
    })
    .await;
    let step = |record: &Value| {
        let word = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        let state = match word("kind").as_str() {
            "approval" => word("state"),
            _ => word("decision"),
        };
        (word("name"), state, word("rule"))
    };
    let steps: Vec<_> = all.iter().map(step).collect();
    let wanted = [
        ("a__drop", "asked", "sure"),
        ("a__drop", "approved", "sure"),
        ("a__drop", "allow", "all"),
        ("a__wipe", "asked", "one"),
        ("a__wipe", "denied", "one"),
        ("a__wipe", "deny", "one"),
    ];
    let wanted = wanted.map(|(name, state, rule)| (name.into(), state.into(), rule.into()));
    assert_eq!(steps, wanted);
    assert!(all.iter().all(|record| record["server"] == "a"), "found by ?server=: {all:?}");
    let people = |at: usize| all[at]["by"].as_str().unwrap_or_default().trim_start_matches("key|");
    assert_eq!((people(0), people(1)), ("", all[1]["who"].as_str().unwrap()));
    assert!(people(4) != all[4]["who"].as_str().unwrap() && !people(4).is_empty(), "{all:?}");
    assert_eq!(all[0]["digest"], all[1]["digest"]);
    let done = command().args(["audit", "verify", "--part"]).arg(&file).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

/// The course of one call in the next test.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Approve,
    Deny,
    /// The client disconnects before a decision.
    Leave,
    /// The state is returned with changed arguments, then without a decision.
    Change,
    /// Another caller returns the state.
    Steal,
    /// The approved call is sent three times concurrently.
    Replay,
}

/// Many concurrent calls in both eras, from two callers, with random courses: the server receives
/// exactly the approved calls, once each.
#[tokio::test]
async fn no_call_reaches_its_server_without_its_own_approval() {
    const CALLS: u64 = 72;
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let limits = json!({"limits": {"approvals_per_principal": 100}});
    let rig = Rig::new(&format!("{OWN}{ONE}"), limits).await;
    let callers = [rig.approver("ann").await, rig.approver("bob").await];
    let judge = rig.approver("judge").await;
    let mut sessions = Vec::new();
    for caller in &callers {
        sessions.push(session(&rig, caller, json!({"elicitation": {}})).await);
    }
    let fates = [Fate::Approve, Fate::Deny, Fate::Leave, Fate::Change, Fate::Steal, Fate::Replay];
    let mut plan = Vec::new();
    for n in 1..=CALLS {
        plan.push((n, random.usize(..2), random.bool(), random.choice(fates).unwrap()));
    }
    let own = async |n: u64, who: usize, fate: Fate, pause: u64| {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let arguments = json!({"n": n});
        let asked = rig.call(&callers[who], "a__drop", json!({"arguments": arguments})).await;
        let state = asked.result()["requestState"].clone();
        let bring = |word: &str| json!({"arguments": arguments, "requestState": state, "inputResponses": decision(word)});
        let send = async |key: &str, more: Value| rig.call(key, "a__drop", more).await;
        match fate {
            Fate::Approve => drop(send(&callers[who], bring("approve")).await.result()),
            Fate::Deny => drop(send(&callers[who], bring("deny")).await),
            Fate::Leave => {}
            Fate::Change => {
                let mut other = bring("approve");
                other["arguments"] = json!({"n": n + 1000});
                assert_eq!(send(&callers[who], other).await.code(), -32602);
                let none = json!({"arguments": arguments, "requestState": state});
                // Without a decision the question is repeated, and the call does not run.
                let again = send(&callers[who], none).await.result();
                assert_eq!(again["resultType"], "input_required");
            }
            Fate::Steal => {
                assert_eq!(send(&callers[1 - who], bring("approve")).await.code(), -32602);
            }
            Fate::Replay => {
                let key = &callers[who];
                let three = tokio::join!(
                    send(key, bring("approve")),
                    send(key, bring("approve")),
                    send(key, bring("approve"))
                );
                let codes = [three.0.code(), three.1.code(), three.2.code()];
                assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
            }
        }
    };
    let others = async |n: u64, who: usize, modern: bool, fate: Fate, pause: u64| {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let key = &callers[who];
        let stream = if modern {
            modern_call("a__wipe", json!({"arguments": {"n": n}})).by(key)
        } else {
            let call = json!({"name": "a__wipe", "arguments": {"n": n}});
            let id = i64::try_from(n).unwrap() + 100;
            Request::legacy("/mcp", &sessions[who], id, "tools/call", &call).by(key)
        };
        let mut held = tokio::net::TcpStream::connect(rig.gate.address).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut held, &stream.bytes()).await.unwrap();
        let id = until("the call waits", async || {
            let all = rig.list(&judge).await;
            let mine = format!(r#"{{"n":{n}}}"#);
            all.into_iter().find(|call| call["arguments"] == mine.as_str())
        })
        .await["id"]
            .clone();
        // The caller is an approver, but not of this call.
        assert_eq!(rig.answer(key, &id, "approve").await.status, 409);
        match fate {
            Fate::Approve | Fate::Replay => {
                let one = rig.answer(&judge, &id, "approve");
                let two = rig.answer(&callers[1 - who], &id, "approve");
                let (one, two) = tokio::join!(one, two);
                let counted = [one.status, two.status].iter().filter(|s| **s == 200).count();
                assert_eq!(counted, 1, "{one:?} {two:?}");
            }
            Fate::Deny | Fate::Change | Fate::Steal => {
                assert_eq!(rig.answer(&judge, &id, "deny").await.status, 200);
                assert_eq!(rig.answer(&callers[1 - who], &id, "approve").await.status, 404);
            }
            Fate::Leave => return,
        }
        let mut answer = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut held, &mut answer).await.unwrap();
        assert!(!answer.is_empty());
    };
    let all = plan.iter().map(|&(n, who, modern, fate)| {
        let pause = random.u64(..200);
        async move {
            match n % 2 {
                0 => own(n, who, fate, pause).await,
                _ => others(n, who, modern, fate, pause).await,
            }
        }
    });
    futures_util::future::join_all(all).await;
    let approved =
        plan.iter().filter(|(_, _, _, fate)| matches!(fate, Fate::Approve | Fate::Replay));
    let approved: Vec<u64> = approved.map(|(n, ..)| *n).collect();
    let heard = rig.server.heard_of("tools/call").into_iter();
    let heard = heard.map(|call| call.body["params"]["arguments"]["n"].as_u64().unwrap());
    let mut heard: Vec<u64> = heard.collect();
    heard.sort_unstable();
    assert_eq!(heard, approved, "seed {seed}");
}

/// An approval is void once its approver's key is revoked.
#[tokio::test]
async fn an_approval_goes_with_its_approvers_key() {
    let rig = Rig::new(TWO, json!({})).await;
    let ann = rig.person("ann").await;
    let bob = rig.approver("bob").await;
    let eve = rig.approver("eve").await;
    let call = rig.call(&ann, "a__wipe", json!({}));
    let people = async {
        let waiting = rig.waiting(&bob).await;
        assert_eq!(rig.answer(&bob, &waiting["id"], "approve").await.status, 200);
        let keys = rig.gate.folder.path().join("keys.yaml");
        let mut revoke = command();
        revoke.args(["keys", "revoke", &bob, "--file"]).arg(&keys);
        assert!(revoke.output().unwrap().status.success());
        until("the key is revoked", async || {
            let list = Request::bare("GET", "/approvals", "").by(&bob);
            (list.send(rig.gate.address).await.status == 401).then_some(())
        })
        .await;
        rig.answer(&eve, &waiting["id"], "approve").await;
    };
    let (answer, ()) = tokio::join!(call, people);
    assert!(refusal(&answer).contains("credential of an approver"), "{}", answer.text());
    assert_eq!(rig.calls(), 0);
}
