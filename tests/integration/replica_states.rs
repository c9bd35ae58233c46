//! The states of docs/kubernetes.md at other gateways, and those that require affinity.
//! tests/README.md lists the tests of each row. Also TLS between gateways, and the end of sessions
//! at gateways that cannot open them.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use crate::any_replica::{Replicas, modern_call, open_session};
use crate::approvals::decision;
use crate::compatibility::Server;
use crate::connections::free_port;
use crate::console::{form, get, hidden_field, sign_in};
use crate::parked::asking;
use crate::principals::By;
use crate::rig::client::{Answer, Request, Stream};
use crate::rig::gate::command;
use crate::rig::upstream::modern;
use crate::rig::{Gate, Upstream, Value, fixture, json, until};
use crate::tls::{ask_at, authority, status, write_server};

const WATCHED: &str = "m+test://watched-resource";

fn none() -> Value {
    json!({})
}

/// Starts two gateways with the same scripted server.
async fn pair(server: &Upstream, policies: &str, more: Value) -> Replicas {
    let mut config = json!({"servers": {"a": server.config()}});
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    Replicas::start(2, policies, &config).await
}

async fn post(at: SocketAddr, key: &str, session: &str, body: Value) -> Answer {
    let request = Request::bare("POST", "/mcp", body.to_string()).by(key);
    request.with("Mcp-Session-Id", session).send(at).await
}

async fn listen(at: SocketAddr, key: &str, session: &str, last: Option<&str>) -> Stream {
    let mut request = Request::bare("GET", "/mcp", "").by(key).with("Mcp-Session-Id", session);
    request = request.with("Accept", "text/event-stream");
    if let Some(last) = last {
        request = request.with("Last-Event-ID", last);
    }
    request.open(at).await
}

/// Returns whether a stream is silent for a while, except for changes of lists, which a session
/// also receives when it continues elsewhere.
async fn is_silent(stream: &mut Stream) -> bool {
    let other = async {
        loop {
            let heard = stream.next().await.unwrap();
            if !heard["method"].as_str().unwrap_or_default().ends_with("list_changed") {
                return heard;
            }
        }
    };
    tokio::time::timeout(Duration::from_millis(500), other).await.is_err()
}

async fn delete(at: SocketAddr, key: &str, session: &str) -> u16 {
    let request = Request::bare("DELETE", "/mcp", "").by(key).with("Mcp-Session-Id", session);
    request.send(at).await.status
}

async fn ping(at: SocketAddr, key: &str, session: &str) -> u16 {
    Request::legacy("/mcp", session, 4, "ping", &none()).by(key).send(at).await.status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_policies_and_pins_that_change_hold_at_every_replica() {
    let server = Upstream::http(modern(&["t"])).await;
    let folder = tempfile::tempdir().unwrap();
    let pins = json!({"pins": {"file": folder.path().join("lockgate.pins.json")}});
    let replicas = pair(&server, "", pins).await;
    let pinned = modern_call(&replicas.ann, "a__t", &none(), &none());
    for at in [0, 1] {
        assert_eq!(pinned.send(replicas.at(at)).await.code(), -32602, "it is not approved");
    }
    let mut approve = command();
    approve.args(["pins", "approve", "--all", "--config", "lockgate.json"]);
    approve.current_dir(replicas.gates[0].folder.path());
    let approved = tokio::task::spawn_blocking(move || approve.output().unwrap()).await.unwrap();
    assert!(approved.status.success(), "{}", String::from_utf8_lossy(&approved.stderr));
    for at in [0, 1] {
        until("it is approved", async || {
            (pinned.send(replicas.at(at)).await.code() == 0).then_some(())
        })
        .await;
    }
    let keys = replicas.folder.path().join("keys.yaml");
    let mut make = command();
    make.args(["keys", "create", "late", "--json", "--file"]).arg(&keys);
    let made: Value = serde_json::from_slice(&make.output().unwrap().stdout).unwrap();
    let late = made["key"].as_str().unwrap();
    let call = modern_call(late, "a__t", &none(), &none());
    for at in [0, 1] {
        until("the key is good", async || {
            (call.send(replicas.at(at)).await.status == 200).then_some(())
        })
        .await;
    }
    let deny = "policies:\n  - { name: none, effect: deny, what: { tools: ['*'] } }\n";
    std::fs::write(replicas.folder.path().join("policy.yaml"), deny).unwrap();
    for at in [0, 1] {
        until("the policy holds", async || {
            (call.send(replicas.at(at)).await.code() != 0).then_some(())
        })
        .await;
    }
}

/// Approvers see a call only at its own gateway; the caller's retry is forwarded there.
#[tokio::test]
async fn a_call_that_waits_for_other_approvers_is_seen_at_its_own_replica() {
    let server = Upstream::http(modern(&["wipe"])).await;
    let policies = "  - { name: sure, effect: ask, what: { words: [wipe] } }
  - { name: one, effect: ask, what: { words: [wipe] }, approval: { by: { roles: [approver] } } }
";
    let replicas = pair(&server, policies, none()).await;
    let (ann, bob) = (&replicas.ann, &replicas.bob);
    let list = async |at: usize| {
        let request = Request::bare("GET", "/approvals", "").by(bob);
        request.send(replicas.at(at)).await.json()["approvals"].as_array().unwrap().clone()
    };
    let asked = modern_call(ann, "a__wipe", &none(), &none()).send(replicas.at(0)).await.result();
    let more =
        json!({"requestState": asked["requestState"], "inputResponses": decision("approve")});
    let answered = modern_call(ann, "a__wipe", &none(), &more);
    let approving = async {
        let id = until("the call waits", async || list(0).await.pop()).await["id"].clone();
        assert!(list(1).await.is_empty(), "it is not seen elsewhere");
        let approve = format!("/approvals/{}/approve", id.as_str().unwrap());
        let approve = Request::bare("POST", &approve, "").by(bob);
        assert_eq!(approve.send(replicas.at(1)).await.status, 404);
        assert_eq!(server.count("tools/call"), 0);
        assert_eq!(approve.send(replicas.at(0)).await.status, 200);
    };
    let (done, ()) = tokio::join!(answered.send(replicas.at(1)), approving);
    assert_eq!(done.result()["resultType"], "complete", "{}", done.text());
    assert_eq!((server.count("tools/call"), replicas.sent_on(1)), (1, 1));
}

/// A session continues elsewhere without its subscriptions and log level.
#[tokio::test]
async fn subscriptions_and_the_log_level_of_a_session_stay_at_their_replica() {
    let server = Server::start("2026-07-28").await;
    let servers = json!({"f": fixture(&["--era", "legacy"]), "m": {"url": server.url}});
    let replicas = Replicas::start(2, "", &json!({"servers": servers})).await;
    let key = &replicas.ann;
    let session = open_session(replicas.at(0), key).await;
    let ask = async |at: usize, method: &str, params: Value| {
        Request::legacy("/mcp", &session, 7, method, &params).by(key).send(replicas.at(at)).await
    };
    let mut here = listen(replicas.at(0), key, &session, None).await;
    let mut elsewhere = listen(replicas.at(1), key, &session, None).await;
    let subscribed = ask(0, "resources/subscribe", json!({"uri": WATCHED})).await;
    assert_eq!(subscribed.code(), 0, "{}", subscribed.text());
    assert_eq!(ask(0, "logging/setLevel", json!({"level": "emergency"})).await.code(), 0);
    let touch = json!({"name": "m__test_trigger_resource_update", "arguments": {}});
    assert_eq!(ask(1, "tools/call", touch).await.code(), 0);
    let heard = here.next().await.unwrap();
    assert_eq!(heard["method"], "notifications/resources/updated", "{heard}");
    assert!(is_silent(&mut elsewhere).await, "there is no subscription there");
    let mut logged = Vec::new();
    for at in [0, 1] {
        let call = json!({"name": "f__test_tool_with_logging", "arguments": {}});
        let events = ask(at, "tools/call", call).await.text();
        logged.push(events.matches("notifications/message").count());
    }
    assert_eq!(logged[0], 0, "the level holds where it was set");
    assert!(logged[1] > 0, "and not elsewhere");
}

/// A call in a session is cancelled, and its stream resumed, only at its gateway.
#[tokio::test]
async fn a_running_call_is_cancelled_and_resumed_at_its_own_replica() {
    let server = Upstream::http(asking()).await;
    let replicas = pair(&server, "", none()).await;
    let key = &replicas.ann;
    let session = open_session(replicas.at(0), key).await;
    let call = json!({"name": "a__ask", "arguments": {}});
    let call = Request::legacy("/mcp", &session, 9, "tools/call", &call).by(key);
    let mut stream = call.open(replicas.at(0)).await;
    let block = loop {
        let block = stream.block().await.unwrap();
        if block.contains("elicitation/create") {
            break block;
        }
    };
    let id = block.lines().find_map(|line| line.strip_prefix("id:")).expect("an event id").trim();
    // The event before the question, so that the question is repeated.
    let (log, number) = id.split_once('-').unwrap();
    let before = format!("{log}-{}", number.parse::<u64>().unwrap() - 1);
    drop(stream);
    // Another call there has its own stream and question.
    let other = json!({"name": "a__ask", "arguments": {}});
    let other = Request::legacy("/mcp", &session, 10, "tools/call", &other).by(key);
    let mut other = other.open(replicas.at(1)).await;
    other.next().await.unwrap();
    let mut elsewhere = listen(replicas.at(1), key, &session, Some(&before)).await;
    assert!(is_silent(&mut elsewhere).await, "its stream is not there");
    let mut resumed = listen(replicas.at(0), key, &session, Some(&before)).await;
    assert_eq!(resumed.next().await.unwrap()["method"], "elicitation/create");
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 9}});
    assert_eq!(post(replicas.at(1), key, &session, cancel.clone()).await.status, 202);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.count("notifications/cancelled"), 0, "it does not reach the call");
    assert_eq!(post(replicas.at(0), key, &session, cancel).await.status, 202);
    until("it is cancelled", async || (server.count("notifications/cancelled") == 1).then_some(()))
        .await;
}

/// A stream ends with its gateway; the client opens a new one elsewhere.
#[tokio::test]
async fn an_open_stream_ends_with_its_replica_and_is_opened_at_another() {
    let server = Server::start("2026-07-28").await;
    let servers = json!({"m": {"url": server.url}});
    let mut replicas = Replicas::start(2, "", &json!({"servers": servers})).await;
    let key = replicas.ann.clone();
    let wanted = json!({"notifications": {"resourceSubscriptions": [WATCHED]}});
    let open = Request::modern("/mcp", "subscriptions/listen", wanted).by(&key);
    let mut streams = [open.open(replicas.at(0)).await, open.open(replicas.at(1)).await];
    for stream in &mut streams {
        let begun = stream.next().await.unwrap();
        assert_eq!(begun["method"], "notifications/subscriptions/acknowledged", "{begun}");
    }
    replicas.kill(0).await;
    let [mut first, mut second] = streams;
    assert!(first.next().await.is_none());
    let mut anew = open.open(replicas.at(1)).await;
    anew.next().await.unwrap();
    let touch = modern_call(&key, "m__test_trigger_resource_update", &none(), &none());
    touch.send(replicas.at(1)).await.result();
    for stream in [&mut second, &mut anew] {
        let heard = stream.next().await.unwrap();
        assert_eq!(heard["params"]["uri"], WATCHED, "{heard}");
    }
}

/// Each gateway has its own process of a `command` server, which has its own tasks.
#[tokio::test]
async fn a_task_of_a_command_server_belongs_to_one_replica() {
    let servers = json!({"t": fixture(&["--era", "modern"])});
    let replicas = Replicas::start(2, "", &json!({"servers": servers})).await;
    let key = &replicas.ann;
    let arguments = json!({"seconds": 60, "label": "it"});
    let call = modern_call(key, "t__slow_compute", &arguments, &none());
    let task = call.send(replicas.at(0)).await.result();
    assert_eq!(task["resultType"], "task", "{task}");
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
    let get = json!({"taskId": task["taskId"], "_meta": meta});
    let get = Request::modern("/mcp", "tasks/get", get).by(key);
    assert_eq!(get.send(replicas.at(0)).await.result()["status"], "working");
    let elsewhere = get.send(replicas.at(1)).await;
    assert_eq!(elsewhere.code(), -32602, "{}", elsewhere.text());
}

#[tokio::test]
async fn a_message_of_http_sse_needs_the_replica_of_its_stream() {
    let server = Upstream::http(modern(&["t"])).await;
    let replicas = pair(&server, "", json!({"http": {"sse": true}})).await;
    let key = &replicas.ann;
    let open = Request::bare("GET", "/sse", "").with("Accept", "text/event-stream").by(key);
    let mut stream = open.open(replicas.at(0)).await;
    let first = stream.block().await.unwrap();
    let path = first.lines().find_map(|line| line.strip_prefix("data:")).unwrap().trim();
    let params = json!({"protocolVersion": "2024-11-05", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let message = Request::bare("POST", path, body.to_string()).by(key);
    assert_eq!(message.send(replicas.at(1)).await.status, 404);
    assert_eq!(message.send(replicas.at(0)).await.status, 202);
    assert_eq!(stream.next().await.unwrap()["result"]["protocolVersion"], "2024-11-05");
}

#[tokio::test]
async fn a_user_of_the_console_signs_in_at_each_replica() {
    let server = Upstream::http(modern(&["t"])).await;
    let replicas = pair(&server, "", none()).await;
    let cookie = sign_in(&replicas.gates[0], &replicas.ann).await;
    let open = async |at: usize, cookie: &str| {
        get("/console/servers").with("Cookie", cookie).send(replicas.at(at)).await.status
    };
    assert_eq!(open(0, &cookie).await, 200);
    assert_eq!(open(1, &cookie).await, 303);
    let other = sign_in(&replicas.gates[1], &replicas.ann).await;
    assert_eq!(open(1, &other).await, 200);
}

#[tokio::test]
async fn a_console_result_is_shown_where_the_call_was_made() {
    let server = Upstream::http(modern(&["t"])).await;
    let replicas = pair(&server, "", none()).await;
    let path = "/console/tools/a__t";
    let cookie = sign_in(&replicas.gates[0], &replicas.ann).await;
    let at = replicas.at(0);
    let page = get(path).with("Cookie", &cookie).send(at).await;
    let (token, number) = (hidden_field(&page, "token"), hidden_field(&page, "page"));
    let call = form(at, path, &[("token", &token), ("page", &number)]);
    let answer = call.with("Cookie", &cookie).send(at).await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    let result = answer.header("location").unwrap().to_owned();
    let mark = "id=\"outcome\"";
    let shown = get(&result).with("Cookie", &cookie).send(at).await;
    assert!(shown.status == 200 && shown.text().contains(mark), "{}", shown.text());
    let other = sign_in(&replicas.gates[1], &replicas.ann).await;
    let shown = get(&result).with("Cookie", &other).send(replicas.at(1)).await;
    assert!(shown.status == 200 && !shown.text().contains(mark), "{}", shown.text());
}

/// A gateway without room for a session can still end it.
#[tokio::test]
async fn a_session_ends_where_it_cannot_be_opened() {
    let server = Upstream::http(modern(&["t"])).await;
    let replicas = pair(&server, "", json!({"limits": {"sessions": 1}})).await;
    let (ann, bob) = (&replicas.ann, &replicas.bob);
    let taken = open_session(replicas.at(1), bob).await;
    let session = open_session(replicas.at(0), ann).await;
    assert_eq!(ping(replicas.at(1), ann, &session).await, 404, "there is no room");
    assert_eq!(delete(replicas.at(1), bob, &session).await, 404, "it is not theirs");
    assert_eq!(ping(replicas.at(0), ann, &session).await, 200);
    assert_eq!(delete(replicas.at(1), ann, &session).await, 204);
    assert_eq!(ping(replicas.at(0), ann, &session).await, 404);
    assert_eq!(delete(replicas.at(1), ann, &session).await, 404, "once");
    assert_eq!(delete(replicas.at(0), bob, &taken).await, 204);
}

const KEY: &str = "0123456789abcdef0123456789abcdef";
const OLD: &str = "5b0f8c1e9ad34672f1ac0e5b79436281";
const NEW: &str = "c4d1e09b7f26a8535d0e9c1b6a7f4328";

/// During a change of the secret, a gateway may be unable to read a session id. A gateway that can
/// read it ends the session.
#[tokio::test]
async fn a_session_of_another_secret_ends_where_its_id_cannot_be_read() {
    let server = Upstream::http(modern(&["t"])).await;
    let addresses = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let start = async |own: usize, secret: &str, old: &[&str]| {
        Gate::start(json!({"listen": addresses[own], "secret": secret, "old_secrets": old,
            "servers": {"a": server.config()}, "auth": {"key": KEY},
            "replicas": {"address": addresses[own], "peers": addresses}}))
        .await
    };
    let (earlier, later) = (start(0, OLD, &[NEW]).await, start(1, NEW, &[]).await);
    let session = open_session(earlier.address, KEY).await;
    assert_eq!(ping(later.address, KEY, &session).await, 404);
    assert_eq!(ping(earlier.address, KEY, &session).await, 200);
    assert_eq!(delete(later.address, KEY, &session).await, 204);
    assert_eq!(ping(earlier.address, KEY, &session).await, 404);
    assert_eq!(delete(later.address, KEY, &session).await, 404, "once");
}

/// Starts a gateway with TLS and peers.
async fn start_with_tls(folder: &Path, server: &Upstream, own: u16, peers: &[String]) -> Gate {
    let path = |name: &str| folder.join(name).display().to_string();
    let address = format!("127.0.0.1:{own}");
    Gate::launch(json!({"listen": address, "secret": OLD,
        "servers": {"a": server.config()}, "auth": {"key": KEY},
        "http": {"tls": {"cert": path("cert.pem"), "key": path("key.pem")}},
        "egress": {"ca_file": path("ca.pem")},
        "replicas": {"address": address, "peers": peers, "tls_name": "localhost"}}))
    .await
}

/// An answer is forwarded over TLS to the gateway of its call if its certificate is valid for the
/// name. A gateway with a certificate of another authority receives nothing.
#[tokio::test]
async fn gateways_reach_each_other_over_tls_by_one_name() {
    let server = Upstream::http(asking()).await;
    let (ours, others) = (authority("ours"), authority("others"));
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for (folder, by) in folders.iter().zip([&ours, &others]) {
        write_server(folder.path(), by);
        std::fs::write(folder.path().join("ca.pem"), ours.pem()).unwrap();
    }
    let ports = [free_port(), free_port(), free_port()];
    let peers = ports.map(|port| format!("127.0.0.1:{port}"));
    let [good, bad] = folders.each_ref().map(|folder| folder.path());
    let holder = start_with_tls(good, &server, ports[0], &peers).await;
    let other = start_with_tls(good, &server, ports[1], &peers).await;
    let false_one = start_with_tls(bad, &server, ports[2], &peers).await;
    let body = |text: &str| -> Value {
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        let start = body.find('{').unwrap();
        serde_json::from_str(&body[start..=body.rfind('}').unwrap()]).unwrap()
    };
    let call = modern_call(KEY, "a__ask", &none(), &none());
    for (gate, by, is_reached) in [(&holder, &ours, true), (&false_one, &others, false)] {
        let asked = until("it asks", async || {
            let said = ask_at(gate.address, by, None, &call).await;
            (status(&said) == 200).then(|| body(&said.unwrap())["result"].clone())
        })
        .await;
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
        // The gateway that holds the call rejects the invalid answer, which shows that it arrived.
        let responses = json!({key: {"action": "accept", "content": {"ok": 7}}});
        let more = json!({"requestState": asked["requestState"], "inputResponses": responses});
        let answer = modern_call(KEY, "a__ask", &none(), &more);
        let said = ask_at(other.address, &ours, None, &answer).await;
        let error = body(said.as_ref().unwrap())["error"].clone();
        let wanted = if is_reached { (200, Value::Null) } else { (503, json!("replica")) };
        assert_eq!((status(&said), error["data"]["reason"].clone()), wanted, "{error}");
        let is_judged = error["message"].as_str().unwrap().contains("does not fit the form");
        assert_eq!(is_judged, is_reached, "{error}");
    }
    let log = other.log();
    assert_eq!(log.matches("answer forwarded to the gateway").count(), 2, "{log}");
    assert!(log.contains("a gateway did not respond") && log.contains("TLS"), "{log}");
}

/// Returns the first cell of each row of the table with this header.
fn first_cells(page: &str, head: &str) -> Vec<String> {
    let (_, table) = page.split_once(head).expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split('|').nth(1).unwrap().trim().to_owned()).collect()
}

/// Every row of the table of states has tests in tests/README.md.
#[test]
fn every_state_of_the_table_has_a_test() {
    let read = |path: &str| std::fs::read_to_string(format!("../../{path}")).unwrap();
    let states = first_cells(&read("docs/kubernetes.md"), "| state | where it lives |");
    assert!(states.len() >= 15, "{states:?}");
    let readme = read("tests/README.md");
    let head = "| state of docs/kubernetes.md | tests |";
    assert_eq!(first_cells(&readme, head), states);
    let (_, table) = readme.split_once(head).unwrap();
    for row in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let tests: Vec<&str> =
            row.split('`').skip(1).step_by(2).filter(|one| one.contains("::")).collect();
        assert!(!tests.is_empty(), "{row}");
        for test in tests {
            let (file, name) = test.split_once("::").unwrap();
            let text = read(&format!("tests/integration/{file}.rs"));
            assert!(text.contains(&format!("fn {name}(")), "{test}");
        }
    }
}
