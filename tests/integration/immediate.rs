//! A change confirmed by the API is effective immediately at the same gateway; and authorised
//! callers connect and disconnect integrations.

use crate::principals::{By, key};
use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Upstream, Value, json, until};

/// Repetitions of each change, without waiting.
const ROUNDS: usize = 50;

async fn ask(gate: &Gate, verb: &'static str, path: &str, body: Value) -> Answer {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    Request::bare(verb, &format!("/api{path}"), text).send(gate.address).await
}

async fn expect(gate: &Gate, verb: &'static str, path: &str, body: Value, status: u16) -> Value {
    let answer = ask(gate, verb, path, body).await;
    assert_eq!(answer.status, status, "{verb} {path}: {}", answer.text());
    if answer.text().is_empty() { Value::Null } else { answer.json() }
}

async fn call_at(gate: &Gate, path: &str, tool: &str) -> Answer {
    gate.modern(path, "tools/call", json!({"name": tool, "arguments": {}})).await
}

fn is_done(answer: &Answer) -> bool {
    answer.status == 200 && answer.json()["result"]["content"].is_array()
}

#[tokio::test]
async fn what_the_api_says_was_changed_is_served_at_once() {
    let server = Upstream::http(modern(&["t"])).await;
    let other = Upstream::http(modern(&["u"])).await;
    let gate = Gate::start(json!({})).await;
    let url = format!("http://{}/mcp", server.address);
    let other_url = format!("http://{}/mcp", other.address);
    let agent = expect(&gate, "POST", "/agents", json!({"name": "A"}), 201).await;
    let agent = agent["id"].as_str().unwrap().to_owned();
    let endpoint = format!("/agents/{agent}/mcp");
    for round in 0..ROUNDS {
        let slug = format!("s{round}");
        let (t, u) = (format!("{slug}__t"), format!("{slug}__u"));
        let body = json!({"name": slug, "slug": slug, "serverUrl": url, "authMethod": "none"});
        let made = expect(&gate, "POST", "/mcp-integrations/custom", body, 201).await;
        let id = made["id"].as_str().unwrap();
        let integration = format!("/mcp-integrations/{id}");
        let assigned = format!("/agents/{agent}{integration}");

        expect(&gate, "GET", &format!("/servers/{slug}"), Value::Null, 200).await;
        let path = format!("{integration}/validate");
        let tried = expect(&gate, "POST", &path, Value::Null, 200).await;
        assert_eq!(tried["valid"], true, "{tried}");
        match round % 2 {
            0 => {
                let (tools, result) = gate.tools("/mcp").await;
                assert!(tools.contains(&t), "{round}: {result}");
            }
            _ => {
                let called = gate.call(&t).await;
                assert!(is_done(&called), "{round}: {}", called.text());
            }
        }
        let own = call_at(&gate, &format!("/servers/{slug}/mcp"), "t").await;
        assert!(is_done(&own), "{round}: {}", own.text());

        expect(&gate, "POST", &assigned, Value::Null, 200).await;
        let called = call_at(&gate, &endpoint, &t).await;
        assert!(is_done(&called), "{round}: {}", called.text());
        expect(&gate, "DELETE", &assigned, Value::Null, 204).await;
        let refused = call_at(&gate, &endpoint, &t).await;
        assert!(!is_done(&refused), "{round}: {}", refused.text());

        expect(&gate, "PATCH", &integration, json!({"serverUrl": other_url}), 200).await;
        let moved = gate.call(&u).await;
        assert!(is_done(&moved), "{round}: {}", moved.text());
        expect(&gate, "POST", &format!("{integration}/disable"), Value::Null, 200).await;
        let refused = gate.call(&u).await;
        assert!(!is_done(&refused), "{round}: {}", refused.text());
        expect(&gate, "POST", &format!("{integration}/enable"), Value::Null, 200).await;
        let called = gate.call(&u).await;
        assert!(is_done(&called), "{round}: {}", called.text());
        expect(&gate, "DELETE", &integration, Value::Null, 204).await;
        let refused = gate.call(&u).await;
        assert!(!is_done(&refused), "{round}: {}", refused.text());
        expect(&gate, "GET", &format!("/servers/{slug}"), Value::Null, 404).await;
    }
}

async fn post(gate: &Gate, by: &str, path: &str) -> Answer {
    Request::bare("POST", path, "").by(by).send(gate.address).await
}

async fn state_of(gate: &Gate, by: &str, path: &str) -> Value {
    let shown = Request::bare("GET", path, "").by(by).send(gate.address).await;
    shown.json()["state"].clone()
}

#[tokio::test]
async fn integrations_are_connected_and_disconnected_by_their_administrators() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({
        "auth": {"keys_file": "keys.yaml"},
        "egress": {"organisations": "local"},
    }))
    .await;
    let admin = key(&gate, "admin", &["--role", "admin", "--organisation", "acme"]).await;
    let user = key(&gate, "user", &["--organisation", "acme"]).await;
    let stranger = key(&gate, "other", &["--role", "admin", "--organisation", "other"]).await;
    let url = format!("http://{}/mcp", server.address);
    let body = json!({"name": "Own", "serverUrl": url, "authMethod": "none"}).to_string();
    let made = Request::bare("POST", "/api/mcp-integrations/custom", body).by(&admin);
    let made = made.send(gate.address).await.json();
    let id = made["id"].as_str().unwrap();
    let call = Request::modern("/mcp", "tools/call", json!({"name": "own__t", "arguments": {}}));
    let call = call.by(&user);
    assert!(is_done(&call.send(gate.address).await));
    for way in ["disconnect", "connect", "toggle", "reconnect"] {
        let path = format!("/api/servers/own/{way}");
        let by_user = post(&gate, &user, &path).await;
        assert_eq!(by_user.status, 403, "{}", by_user.text());
        let by_stranger = post(&gate, &stranger, &path).await;
        assert_eq!(by_stranger.status, 404, "{}", by_stranger.text());
        assert_eq!(by_stranger.json()["code"], "SERVER_NOT_FOUND");
    }
    assert!(is_done(&call.send(gate.address).await), "nobody has switched anything");

    let tried = post(&gate, &admin, "/api/servers/own/disconnect?dryRun=true").await.json();
    assert_eq!((&tried["state"], &tried["dryRun"]), (&json!("disabled"), &json!(true)));
    assert!(is_done(&call.send(gate.address).await), "it was only tried");
    let away = post(&gate, &admin, "/api/servers/own/disconnect").await;
    assert_eq!((away.status, &away.json()["state"]), (200, &json!("disabled")));
    let refused = call.send(gate.address).await;
    assert!(!is_done(&refused), "{}", refused.text());
    let again = post(&gate, &admin, "/api/servers/own/reconnect").await;
    assert_eq!(again.json()["code"], "SERVER_DISCONNECTED", "{}", again.text());
    // Other changes in the organisation do not reconnect it.
    let body = json!({"name": "Second", "serverUrl": url, "authMethod": "none"}).to_string();
    let second = Request::bare("POST", "/api/mcp-integrations/custom", body).by(&admin);
    assert_eq!(second.send(gate.address).await.status, 201);
    assert_eq!(state_of(&gate, &admin, "/api/servers/own").await, "disabled");
    let stored = state_of(&gate, &admin, &format!("/api/mcp-integrations/{id}")).await;
    assert_eq!(stored, "disabled", "its own page says it too");

    let back = post(&gate, &admin, "/api/servers/own/connect").await;
    assert_eq!(back.status, 200, "{}", back.text());
    let called = call.send(gate.address).await;
    assert!(is_done(&called), "{}", called.text());
    assert_eq!(post(&gate, &admin, "/api/servers/own/toggle").await.json()["state"], "disabled");
    assert_ne!(post(&gate, &admin, "/api/servers/own/toggle").await.json()["state"], "disabled");
    assert!(is_done(&call.send(gate.address).await));
    let connections = server.count("server/discover");
    assert_eq!(post(&gate, &admin, "/api/servers/own/reconnect").await.status, 200);
    until("it is connected anew", async || {
        (server.count("server/discover") > connections).then_some(())
    })
    .await;
    assert!(is_done(&call.send(gate.address).await));
    // A change of the integration itself reconnects it.
    assert_eq!(post(&gate, &admin, "/api/servers/own/disconnect").await.status, 200);
    let change = json!({"serverUrl": format!("{url}?again")}).to_string();
    let path = format!("/api/mcp-integrations/{id}");
    let changed = Request::bare("PATCH", &path, change).by(&admin).send(gate.address).await;
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert!(is_done(&call.send(gate.address).await));
}
