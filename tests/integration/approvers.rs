//! Approvals by others than the caller: available approvers, calls of disconnected clients, the
//! details shown to approvers, and the audit records.

use std::process::Output;
use std::time::{Duration, Instant};

use crate::approvals::{
    ALLOW, ONE, OWN, Rig, TWO, decision, last, legacy_call, modern_call, refusal, session,
};
use crate::principals::By;
use crate::rig::client::Request;
use crate::rig::gate::{command, config};
use crate::rig::upstream::modern;
use crate::rig::{EVENT_TIMEOUT, Gate, Upstream, Value, json, until};
use crate::stdio::Pipe;

/// The refusal when no approver exists.
const NOBODY: &str = "refused by policy one: it requires approval by others, which is not \
                      available here";

/// Starts a server with the tools of the policies, and writes the policies to a folder.
async fn served(policies: &str) -> (Upstream, tempfile::TempDir, Value) {
    let server = Upstream::http(modern(&["drop", "wipe", "read"])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.yaml");
    std::fs::write(&file, format!("{ALLOW}{policies}")).unwrap();
    let config = json!({"servers": {"a": server.config()}, "policy": {"files": [file]}});
    (server, folder, config)
}

async fn run(mut command: std::process::Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

#[tokio::test]
async fn where_nobody_can_approve_a_call_is_refused_at_once() {
    let (server, folder, more) = served(ONE).await;
    let began = Instant::now();
    let mut pipe = Pipe::start(more.clone());
    let called = json!({"name": "a__wipe", "arguments": {}});
    let modern = pipe.modern(json!(1), "tools/call", called.clone()).await;
    let words = modern["result"]["content"][0]["text"].as_str().unwrap();
    assert!(words.contains(NOBODY), "{modern}");
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "t", "version": "1"}});
    pipe.legacy(json!(2), "initialize", hello).await;
    let legacy = pipe.legacy(json!(3), "tools/call", called).await;
    let words = legacy["result"]["content"][0]["text"].as_str().unwrap();
    assert!(words.contains(NOBODY), "{legacy}");
    let file = folder.path().join("lockgate.json");
    std::fs::write(&file, config(more.clone()).to_string()).unwrap();
    let mut call = command();
    call.args(["call", "a__wipe", "{}", "--config"]).arg(&file);
    let called = run(call).await;
    let words = String::from_utf8_lossy(&called.stdout).into_owned();
    assert!(!called.status.success() && words.contains(NOBODY), "{called:?}");
    // Callers without a credential cannot approve, and no credentials are configured.
    let gate = Gate::start(more).await;
    let words = refusal(&modern_call("a__wipe", json!({})).send(gate.address).await);
    assert!(words.contains(NOBODY), "{words}");
    assert!(began.elapsed() < EVENT_TIMEOUT * 3, "{:?}", began.elapsed());
    assert_eq!(server.count("tools/call"), 0);
}

/// The caller's own approval is not requested if the other approval is impossible.
#[tokio::test]
async fn a_caller_is_not_asked_where_others_cannot_be() {
    let both = format!("{OWN}{}", ONE.replace("wipe", "drop"));
    let (server, _folder, more) = served(&both).await;
    let gate = Gate::start(more).await;
    let answer = modern_call("a__drop", json!({})).send(gate.address).await;
    assert!(refusal(&answer).contains("which is not available here"), "{}", answer.text());
    assert_eq!(server.count("tools/call"), 0);
}

#[tokio::test]
async fn a_legacy_call_whose_client_has_left_cannot_be_approved() {
    let rig = Rig::new(ONE, json!({})).await;
    let ann = rig.person("ann").await;
    let bob = rig.approver("bob").await;
    let id = session(&rig, &ann, json!({})).await;
    let params = json!({"name": "a__wipe", "arguments": {}});
    let call = Request::legacy("/mcp", &id, 9, "tools/call", &params).by(&ann).bytes();
    // First by closing the connection, then by ending the session.
    for ends_session in [false, true] {
        let mut socket = tokio::net::TcpStream::connect(rig.gate.address).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut socket, &call).await.unwrap();
        let waiting = rig.waiting(&bob).await["id"].clone();
        if ends_session {
            let end = Request::bare("DELETE", "/mcp", "").with("Mcp-Session-Id", &id).by(&ann);
            end.send(rig.gate.address).await;
        } else {
            drop(socket);
        }
        until("the call is gone", async || rig.list(&bob).await.is_empty().then_some(())).await;
        assert_eq!(rig.answer(&bob, &waiting, "approve").await.status, 404);
    }
    assert_eq!(rig.calls(), 0);
}

/// A policy's question uses the approval timeout, not that of servers' questions.
#[tokio::test]
async fn a_legacy_caller_has_the_time_of_an_approval_for_its_answer() {
    let limits = json!({"limits": {"question_timeout": 1, "approval_timeout": 30}});
    let rig = Rig::new(OWN, limits).await;
    let ann = rig.person("ann").await;
    let id = session(&rig, &ann, json!({"elicitation": {}})).await;
    let mut stream = legacy_call(&rig, &ann, &id, "a__drop").await;
    let question = stream.next().await.unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let result = json!({"action": "accept", "content": {"decision": "approve"}});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
    let posted = Request::bare("POST", "/mcp", answer.to_string()).by(&ann);
    posted.with("Mcp-Session-Id", &id).send(rig.gate.address).await;
    let last = last(stream).await;
    assert!(last["result"].is_object() && last["result"]["isError"] != true, "{last}");
    assert_eq!(rig.calls(), 1);
}

#[tokio::test]
async fn a_modern_caller_that_brings_no_answer_is_asked_again() {
    let rig = Rig::new(OWN, json!({})).await;
    let ann = rig.person("ann").await;
    let mut state = rig.call(&ann, "a__drop", json!({})).await.result()["requestState"].clone();
    let other = json!({"other": {"action": "accept", "content": {"decision": "approve"}}});
    for more in [json!({}), json!({"inputResponses": {}}), json!({"inputResponses": other})] {
        let mut more = more;
        more["requestState"] = state.clone();
        let again = rig.call(&ann, "a__drop", more.clone()).await.result();
        assert_eq!(again["resultType"], "input_required", "{again}");
        assert_eq!(again["inputRequests"]["approval"]["method"], "elicitation/create");
        // The old state is used up.
        assert_eq!(rig.call(&ann, "a__drop", more).await.code(), -32602);
        state = again["requestState"].clone();
    }
    let yes = json!({"requestState": state, "inputResponses": decision("approve")});
    let mut moved = yes.clone();
    moved["arguments"] = json!({"n": 2});
    assert_eq!(rig.call(&ann, "a__drop", moved).await.code(), -32602);
    assert_eq!(rig.call(&ann, "a__drop", yes).await.result()["resultType"], "complete");
    assert_eq!(rig.calls(), 1);
}

/// A number beyond 64 bits is shown and compared exactly.
#[tokio::test]
async fn what_approvers_see_of_numbers_is_what_the_server_gets() {
    let rig = Rig::new(OWN, json!({})).await;
    let ann = rig.person("ann").await;
    let send = async |number: &str, more: Value| {
        let mut request = modern_call("a__drop", more);
        let body = String::from_utf8(request.body).unwrap();
        request.body = body.replace(r#"{"n":1}"#, &format!(r#"{{"n":{number}}}"#)).into();
        request.by(&ann).send(rig.gate.address).await
    };
    let number = "184467440737095516170000000001";
    let asked = send(number, json!({})).await.result();
    let words = asked["inputRequests"]["approval"]["params"]["message"].as_str().unwrap();
    assert!(words.contains(&format!("Arguments: {{\"n\":{number}}}\n")), "{words}");
    let yes = json!({"requestState": asked["requestState"], "inputResponses": decision("approve")});
    // Equal as a float.
    let near = send("184467440737095516170000000002", yes.clone()).await;
    assert_eq!((near.code(), rig.calls()), (-32602, 0), "{}", near.text());
    assert_eq!(send(number, yes).await.result()["resultType"], "complete");
    let sent = rig.server.heard_of("tools/call").pop().unwrap().text;
    assert!(sent.contains(&format!(r#""arguments":{{"n":{number}}}"#)), "{sent}");
}

/// An approval is void if another server takes the name.
#[tokio::test]
async fn an_approval_is_for_the_server_that_was_there_when_it_was_asked_for() {
    let rig = Rig::new(OWN, json!({})).await;
    let ann = rig.person("ann").await;
    let asked = rig.call(&ann, "a__drop", json!({})).await.result();
    let other = Upstream::http(modern(&["drop", "wipe", "read"])).await;
    rig.reconfigure(&other);
    until("the other server answers", async || {
        rig.call(&ann, "a__read", json!({})).await;
        (other.count("tools/call") > 0).then_some(())
    })
    .await;
    let before = (rig.calls(), other.count("tools/call"));
    let yes = json!({"requestState": asked["requestState"], "inputResponses": decision("approve")});
    let answer = rig.call(&ann, "a__drop", yes).await;
    assert_eq!(answer.code(), -32602, "{}", answer.text());
    assert!(
        answer.text().contains("it is not the call that was shown for approval"),
        "{}",
        answer.text()
    );
    assert_eq!((rig.calls(), other.count("tools/call")), before);
}

/// The first of two approvals is recorded, independent of the call's outcome.
#[tokio::test]
async fn the_trail_has_the_first_of_two_approvals() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let rig = Rig::new(TWO, json!({"audit": {"file": file}})).await;
    let ann = rig.person("ann").await;
    let bob = rig.approver("bob").await;
    let eve = rig.approver("eve").await;
    let people = async {
        let id = rig.waiting(&bob).await["id"].clone();
        assert_eq!(rig.answer(&bob, &id, "approve").await.json()["state"], "waiting");
        assert_eq!(rig.answer(&eve, &id, "deny").await.json()["state"], "denied");
    };
    let (answer, ()) = tokio::join!(rig.call(&ann, "a__wipe", json!({})), people);
    refusal(&answer);
    let steps = until("all is recorded", async || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let steps: Vec<Value> = records.filter(|one| one["kind"] == "approval").collect();
        (steps.len() >= 3).then_some(steps)
    })
    .await;
    let states: Vec<_> = steps.iter().map(|step| step["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["asked", "counted", "denied"]);
    assert_eq!(steps[1]["who"], steps[0]["who"]);
    assert_eq!(steps[1]["name"], "a__wipe");
    assert_eq!(steps[1]["digest"], steps[2]["digest"]);
    let by = |at: usize| steps[at]["by"].as_str().unwrap().to_owned();
    assert!(by(1).starts_with("key|") && by(1) != by(2), "{steps:?}");
}
