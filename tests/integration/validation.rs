//! Validation of integrations: the failing stage and its reason, the credentials sent to the
//! server, and no storage of failing integrations.

use crate::connections::free_port;
use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Say, Upstream, Value, json};

const SECRET: &str = "canary-7c1d-token-of-the-default-organisation";

async fn gate() -> Gate {
    Gate::start(json!({"store": {"keys": ["a-key-of-the-ring-that-is-long-enough"]}})).await
}

async fn post(gate: &Gate, path: &str, body: &Value) -> Answer {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    Request::bare("POST", &format!("/api/mcp-integrations{path}"), text).send(gate.address).await
}

fn custom(name: &str, url: &str) -> Value {
    json!({"name": name, "serverUrl": url, "authMethod": "bearer_token", "credentials": SECRET})
}

async fn validate(gate: &Gate, name: &str, url: &str) -> Value {
    let made = post(gate, "/custom", &custom(name, url)).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    let path = format!("/{}/validate", made["id"].as_str().unwrap());
    let answer = post(gate, &path, &Value::Null).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[tokio::test]
async fn a_server_that_works_is_valid_and_hears_its_credentials() {
    let server = Upstream::http(modern(&["t", "u"])).await;
    let gate = gate().await;
    let url = format!("http://{}/mcp", server.address);
    let valid = validate(&gate, "Time", &url).await;
    let offered = json!({"tools": 2, "resources": 0, "prompts": 0});
    assert_eq!(valid, json!({"valid": true, "capabilities": offered}));
    let bearer = format!("Bearer {SECRET}");
    let heard = server.heard();
    assert!(!heard.is_empty());
    assert!(heard.iter().all(|heard| heard.header("authorization") == Some(&bearer)));
}

#[tokio::test]
async fn the_stage_that_fails_is_named_and_no_secret_is_told() {
    let gate = gate().await;
    let unauthorized = Upstream::http(|_| Say::Status(401, Vec::new(), Value::Null)).await;
    let broken = Upstream::http(|_| Say::Status(500, Vec::new(), Value::Null)).await;
    let foreign = Upstream::http(|_| Say::Json(json!({"hello": "world"}))).await;
    let empty = Upstream::http(modern(&[])).await;
    let echo = Upstream::http(|heard| {
        let words = format!("not with {}", heard.header("authorization").unwrap_or_default());
        Say::Json(heard.error(-32603, &words))
    })
    .await;
    let plain = |server: &Upstream| format!("http://{}/mcp", server.address);
    for (name, url, stage) in [
        ("closed", format!("http://127.0.0.1:{}/mcp", free_port()), "connect"),
        ("no TLS", format!("https://{}/mcp", empty.address), "tls"),
        ("unauthorized", plain(&unauthorized), "auth"),
        ("broken", plain(&broken), "http"),
        ("foreign", plain(&foreign), "handshake"),
        ("echo", plain(&echo), "handshake"),
        ("empty", plain(&empty), "list"),
    ] {
        let tried = validate(&gate, name, &url).await;
        assert_eq!((&tried["valid"], &tried["stage"]), (&json!(false), &json!(stage)), "{tried}");
        assert!(tried["error"].as_str().is_some_and(|words| !words.is_empty()), "{tried}");
        assert!(!tried.to_string().contains(SECRET), "{name}: {tried}");
    }
    assert!(!gate.log().contains(SECRET));
}

#[tokio::test]
async fn what_does_not_work_is_not_stored_where_that_is_asked() {
    let gate = gate().await;
    let server = Upstream::http(modern(&["t"])).await;
    let empty = Upstream::http(modern(&[])).await;
    let list = async || {
        let list = Request::bare("GET", "/api/mcp-integrations", "");
        list.send(gate.address).await.json()["total"].clone()
    };
    let tried = |server: &Upstream| {
        let mut body = custom("Time", &format!("http://{}/mcp", server.address));
        body["validate"] = json!(true);
        body
    };
    let refused = post(&gate, "/custom", &tried(&empty)).await;
    let said = refused.json();
    assert_eq!((refused.status, &said["code"]), (400, &json!("VALIDATION_FAILED")), "{said}");
    assert_eq!((&said["type"], &said["stage"]), (&json!("validation"), &json!("list")), "{said}");
    assert_eq!(list().await, 0);
    let made = post(&gate, "/custom", &tried(&server)).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(list().await, 1);
    let before = server.heard().len();
    let taken = post(&gate, "/custom", &tried(&server)).await;
    assert_eq!(taken.json()["code"], "NAME_TAKEN", "{}", taken.text());
    assert!(server.heard().len() <= before + 8, "what is not taken is not tried");
}

#[tokio::test]
async fn what_is_disabled_or_not_there_is_not_tried() {
    let gate = gate().await;
    let mut body = custom("Time", "http://127.0.0.1:9/mcp");
    body["enabled"] = json!(false);
    let made = post(&gate, "/custom", &body).await.json();
    let path = format!("/{}/validate", made["id"].as_str().unwrap());
    let disabled = post(&gate, &path, &Value::Null).await;
    assert_eq!(disabled.json()["code"], "MCP_INTEGRATION_DISABLED", "{}", disabled.text());
    let nothing = post(&gate, "/int_0/validate", &Value::Null).await;
    assert_eq!(nothing.json()["code"], "MCP_INTEGRATION_NOT_FOUND", "{}", nothing.text());
}
