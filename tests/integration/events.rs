//! Event streams over REST and tRPC: events go only to callers with access, filtered by their
//! request.

use std::time::Duration;

use tokio::time::timeout;

use crate::principals::{By, key};
use crate::rig::client::{Request, Stream};
use crate::rig::upstream::modern;
use crate::rig::{Gate, Upstream, Value, json};

/// Limit on the delay of an event.
const EVENT_TIMEOUT: Duration = Duration::from_secs(30);

async fn start() -> Gate {
    Gate::start(json!({
        "auth": {"keys_file": "keys.yaml"},
        "egress": {"organisations": "local"},
    }))
    .await
}

async fn member(gate: &Gate, name: &str, organisation: &str, role: Option<&str>) -> String {
    let mut words = vec!["--organisation", organisation];
    words.extend(role.into_iter().flat_map(|role| ["--role", role]));
    key(gate, name, &words).await
}

async fn create(gate: &Gate, by: &str, name: &str, server: &Upstream) -> String {
    let url = format!("http://{}/mcp", server.address);
    let body = json!({"name": name, "serverUrl": url, "authMethod": "none"}).to_string();
    let made = Request::bare("POST", "/api/mcp-integrations/custom", body).by(by);
    let made = made.send(gate.address).await;
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()["id"].as_str().unwrap().to_owned()
}

async fn delete(gate: &Gate, by: &str, id: &str) {
    let path = format!("/api/mcp-integrations/{id}");
    let gone = Request::bare("DELETE", &path, "").by(by).send(gate.address).await;
    assert_eq!(gone.status, 204, "{}", gone.text());
}

async fn call(gate: &Gate, by: &str, tool: &str) {
    let params = json!({"name": tool, "arguments": {}});
    let called = Request::modern("/mcp", "tools/call", params).by(by).send(gate.address).await;
    assert!(called.json()["result"]["content"].is_array(), "{}", called.text());
}

/// Returns the name and data of the next REST event, skipping server states.
pub(crate) async fn next(stream: &mut Stream) -> (String, Value) {
    loop {
        let block =
            timeout(EVENT_TIMEOUT, stream.block()).await.expect("an event in time").unwrap();
        let line = |field: &str| {
            let mut lines = block.lines();
            lines.find_map(|line| line.strip_prefix(field).map(|rest| rest.trim().to_owned()))
        };
        let (Some(name), Some(data)) = (line("event:"), line("data:")) else { continue };
        if name != "server" {
            assert!(line("id:").is_some(), "{block}");
            return (name, serde_json::from_str(&data).unwrap());
        }
    }
}

/// Returns the next value of a tRPC subscription, skipping its start.
async fn next_told(stream: &mut Stream) -> Value {
    loop {
        let block =
            timeout(EVENT_TIMEOUT, stream.block()).await.expect("an event in time").unwrap();
        if block.contains("event:") {
            continue;
        }
        let data = block.lines().find_map(|line| line.strip_prefix("data: "));
        if let Some(data) = data {
            return serde_json::from_str(data).unwrap();
        }
    }
}

fn follow(by: &str) -> Request {
    Request::bare("GET", "/api/events", "").by(by)
}

fn subscribe(by: &str, types: &str) -> Request {
    let input = format!("%7B%22types%22:%5B%22{types}%22%5D%7D");
    Request::bare("GET", &format!("/trpc/mcp.events?input={input}"), "").by(by)
}

#[tokio::test]
async fn tools_that_come_and_go_and_calls_are_told_to_those_who_may_know() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = start().await;
    let at = gate.address;
    let admin = member(&gate, "admin", "acme", Some("admin")).await;
    let user = member(&gate, "user", "acme", None).await;
    let colleague = member(&gate, "colleague", "acme", None).await;
    let stranger = member(&gate, "stranger", "other", Some("admin")).await;
    let mut to_admin = follow(&admin).open(at).await;
    let mut to_user = follow(&user).open(at).await;
    let mut to_colleague = follow(&colleague).open(at).await;
    let mut to_stranger = follow(&stranger).open(at).await;

    let id = create(&gate, &admin, "Own", &server).await;
    let tool = json!({"name": "own__t", "server": "own"});
    for stream in [&mut to_admin, &mut to_user, &mut to_colleague] {
        assert_eq!(next(stream).await, ("registered".to_owned(), tool.clone()));
    }
    call(&gate, &user, "own__t").await;
    for stream in [&mut to_admin, &mut to_user] {
        let (name, told) = next(stream).await;
        assert_eq!(name, "executed", "{told}");
        assert_eq!((&told["name"], &told["outcome"]), (&json!("own__t"), &json!("ok")), "{told}");
        assert_eq!((&told["server"], &told["issuer"]), (&json!("own"), &json!("key")), "{told}");
        assert!(told["subject"].is_string() && told["durationMs"].is_number(), "{told}");
    }
    delete(&gate, &admin, &id).await;
    for stream in [&mut to_admin, &mut to_user, &mut to_colleague] {
        // The colleague did not receive the other member's call.
        assert_eq!(next(stream).await, ("unregistered".to_owned(), tool.clone()));
    }
    // The first event for another organisation is its own, although the others came earlier.
    create(&gate, &stranger, "Mine", &server).await;
    let mine = json!({"name": "mine__t", "server": "mine"});
    assert_eq!(next(&mut to_stranger).await, ("registered".to_owned(), mine));
    call(&gate, &stranger, "mine__t").await;
    assert_eq!(next(&mut to_stranger).await.1["name"], "mine__t");
}

#[tokio::test]
async fn what_one_subscriber_leaves_out_another_hears() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = start().await;
    let at = gate.address;
    let admin = member(&gate, "admin", "acme", Some("admin")).await;
    let mut calls = subscribe(&admin, "executed").open(at).await;
    let mut tools = subscribe(&admin, "unregistered").open(at).await;
    let mut servers = subscribe(&admin, "server").open(at).await;
    let id = create(&gate, &admin, "Own", &server).await;
    for _ in 0..3 {
        call(&gate, &admin, "own__t").await;
    }
    delete(&gate, &admin, &id).await;
    for _ in 0..3 {
        let told = next_told(&mut calls).await;
        assert_eq!((&told["type"], &told["call"]["name"]), (&json!("executed"), &json!("own__t")));
    }
    let told = next_told(&mut tools).await;
    let tool = json!({"name": "own__t", "server": "own"});
    assert_eq!((&told["type"], &told["tool"]), (&json!("unregistered"), &tool));
    assert_eq!(next_told(&mut servers).await["server"]["name"], "own");
    let wrong = subscribe(&admin, "everything").send(at).await.text();
    assert!(wrong.contains("serialized-error") && wrong.contains("BAD_REQUEST"), "{wrong}");
}

/// Waits for a decision event.
async fn hear_decisions(stream: &mut Stream) {
    while next(stream).await.0 != "decided" {}
}

#[tokio::test]
async fn administrators_hear_that_something_was_decided_where_they_may_know() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = start().await;
    let at = gate.address;
    let admin = member(&gate, "admin", "acme", Some("admin")).await;
    let user = member(&gate, "user", "acme", None).await;
    let stranger = member(&gate, "stranger", "other", Some("admin")).await;
    let operator = key(&gate, "operator", &["--role", "operator"]).await;
    create(&gate, &admin, "Own", &server).await;
    let listen = |by: &str| Request::bare("GET", "/api/events?decisions=true", "").by(by);
    assert_eq!(listen(&user).send(at).await.status, 403);
    let mut to_admin = listen(&admin).open(at).await;
    let mut to_stranger = listen(&stranger).open(at).await;
    let mut to_operator = listen(&operator).open(at).await;
    let mut plain = follow(&admin).open(at).await;

    // Denied calls are reported like permitted calls.
    let params = json!({"name": "nowhere", "arguments": {}});
    let refused = Request::modern("/mcp", "tools/call", params).by(&user).send(at).await;
    assert!(refused.json()["error"].is_object(), "{}", refused.text());
    hear_decisions(&mut to_admin).await;
    hear_decisions(&mut to_operator).await;
    call(&gate, &user, "own__t").await;
    hear_decisions(&mut to_admin).await;
    hear_decisions(&mut to_operator).await;
    loop {
        let (name, told) = next(&mut plain).await;
        assert_ne!(name, "decided", "who did not ask hears of none: {told}");
        if name == "executed" {
            break;
        }
    }

    // The first event for another organisation is its own, although the others came earlier.
    create(&gate, &stranger, "Mine", &server).await;
    assert_eq!(next(&mut to_stranger).await.1["name"], "mine__t");
    call(&gate, &stranger, "mine__t").await;
    hear_decisions(&mut to_stranger).await;
}

/// Returns the states of a server reported by a stream, up to `last`.
async fn states_until(stream: &mut Stream, slug: &str, last: &str) -> Vec<String> {
    let mut states = Vec::new();
    while states.last().is_none_or(|state| state != last) {
        let block =
            timeout(EVENT_TIMEOUT, stream.block()).await.expect("an event in time").unwrap();
        let line = |field: &str| block.lines().find_map(|line| line.strip_prefix(field));
        let (Some("server"), Some(data)) = (line("event: "), line("data: ")) else { continue };
        let told: Value = serde_json::from_str(data).unwrap();
        if told["name"] == slug {
            states.push(told["state"].as_str().unwrap().to_owned());
        }
    }
    states
}

#[tokio::test]
async fn a_server_is_told_to_be_connected_once_and_disabled_however_it_is_switched_off() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({
        "auth": {"keys_file": "keys.yaml"},
        "egress": {"organisations": "local"},
        "servers": {"a": server.config()},
    }))
    .await;
    let at = gate.address;
    let admin = member(&gate, "admin", "acme", Some("admin")).await;
    let stranger = member(&gate, "stranger", "other", Some("admin")).await;
    let operator = key(&gate, "operator", &["--role", "operator"]).await;
    let mut to_operator = follow(&operator).open(at).await;
    let mut to_admin = follow(&admin).open(at).await;
    let mut to_stranger = follow(&stranger).open(at).await;
    let post = async |by: &str, path: &str| {
        let answer = Request::bare("POST", path, "").by(by).send(at).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    };

    post(&operator, "/api/servers/a/disconnect").await;
    // The first connection may still be reported before.
    states_until(&mut to_operator, "a", "disabled").await;
    post(&operator, "/api/servers/a/connect").await;
    let mut back = states_until(&mut to_operator, "a", "connected").await;
    post(&operator, "/api/servers/a/disconnect").await;
    back.extend(states_until(&mut to_operator, "a", "disabled").await);
    assert_eq!(back.iter().filter(|state| *state == "connected").count(), 1, "{back:?}");

    let id = create(&gate, &admin, "Own", &server).await;
    states_until(&mut to_admin, "own", "connected").await;
    post(&admin, &format!("/api/mcp-integrations/{id}/disable")).await;
    assert_eq!(states_until(&mut to_admin, "own", "disabled").await, ["disabled"]);
    post(&admin, &format!("/api/mcp-integrations/{id}/enable")).await;
    states_until(&mut to_admin, "own", "connected").await;
    delete(&gate, &admin, &id).await;
    assert_eq!(states_until(&mut to_admin, "own", "disabled").await, ["disabled"]);

    // Another organisation receives only events of its own servers.
    create(&gate, &stranger, "Other", &server).await;
    loop {
        let block = timeout(EVENT_TIMEOUT, to_stranger.block()).await.expect("an event").unwrap();
        assert!(!block.contains("\"name\":\"own\""), "{block}");
        if block.contains("\"name\":\"other\"") && block.contains("\"state\":\"connected\"") {
            break;
        }
    }
}
