//! Parameters and conditional headers of REST requests: every route applies or rejects them, and a
//! dry run never changes anything.

use crate::principals::{By, key};
use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Upstream, Value, json, until};

/// Conditional headers of other APIs.
const CONDITIONS: [&str; 4] =
    ["If-Match", "If-None-Match", "If-Unmodified-Since", "Idempotency-Key"];

fn send(method: &'static str, path: &str, body: &Value) -> Request {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    Request::bare(method, path, body)
}

fn code(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["code"].as_str().unwrap_or_default().to_owned())
}

/// Returns the names of an operation's parameters of a kind, from its description.
fn described<'a>(operation: &'a Value, place: &str) -> Vec<&'a str> {
    let mut names = Vec::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        if parameter["in"] == place {
            names.push(parameter["name"].as_str().unwrap());
        }
    }
    names
}

#[tokio::test]
async fn every_route_refuses_what_it_does_not_honour() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let at = gate.address;
    let document = send("GET", "/api/openapi.json", &Value::Null).send(at).await.json();
    let mut refused = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let path = format!("/api{}", path.replace("{name}", "a").replace(['{', '}'], ""));
            let path = path.trim_end_matches('/');
            let mut methods = ["GET", "POST", "PUT", "PATCH", "DELETE"].into_iter();
            let method = methods.find(|known| known.eq_ignore_ascii_case(method)).unwrap();
            let query = described(operation, "query");
            for unknown in ["dryRun=true", "dry_run=true", "nothing=1", "%64ryRun=true"] {
                let known = query.iter().any(|name| unknown.replace("%64", "d").starts_with(name));
                if known {
                    continue;
                }
                let path = format!("{path}?{unknown}");
                let answer = send(method, &path, &Value::Null).send(at).await;
                let found = (400, "INVALID_QUERY".to_owned());
                assert_eq!(code(&answer), found, "{method} {path}: {}", answer.text());
                refused += 1;
            }
            let headers = described(operation, "header");
            for name in CONDITIONS {
                if method == "GET" || headers.contains(&name) {
                    continue;
                }
                let request = send(method, path, &Value::Null).with(name, "\"1\"");
                let answer = request.send(at).await;
                let found = (400, "INVALID_HEADER".to_owned());
                assert_eq!(code(&answer), found, "{method} {path} {name}: {}", answer.text());
                refused += 1;
            }
        }
    }
    assert!(refused > 200, "{refused}");
    let a = send("GET", "/api/servers/a", &Value::Null).send(at).await.json();
    assert_eq!(a["state"], "connected", "{a}");
}

#[tokio::test]
async fn a_dry_run_of_a_switch_or_a_key_changes_nothing() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({
        "servers": {"a": server.config()}, "auth": {"keys_file": "keys.yaml"},
        "audit": {"output": "file", "file": "audit.jsonl"},
    }))
    .await;
    let at = gate.address;
    let operator = key(&gate, "operator", &["--role", "operator"]).await;
    let ask = async |method: &'static str, path: &str, body: Value| {
        send(method, path, &body).by(&operator).send(at).await
    };
    let called = ask("POST", "/api/tools/a__t/execute", Value::Null).await;
    assert_eq!(called.status, 200, "{}", called.text());
    for (action, state) in [
        ("disconnect", "disabled"),
        ("toggle", "disabled"),
        ("connect", "connected"),
        ("reconnect", "pending"),
    ] {
        let path = format!("/api/servers/a/{action}?dryRun=true");
        let tried = ask("POST", &path, Value::Null).await;
        let found = tried.json();
        assert_eq!((tried.status, &found["dryRun"]), (200, &json!(true)), "{action}: {found}");
        assert_eq!(found["state"], state, "{action}: {found}");
        let now = ask("GET", "/api/servers/a", Value::Null).await.json();
        assert_eq!((&now["state"], &now["dryRun"]), (&json!("connected"), &Value::Null), "{now}");
    }
    let file = gate.folder.path().join("keys.yaml");
    let before = std::fs::read_to_string(&file).unwrap();
    let tried = ask("POST", "/api/keys?dryRun=true", json!({"name": "ci"})).await;
    let found = tried.json();
    assert_eq!((tried.status, &found["dryRun"]), (200, &json!(true)), "{found}");
    assert_eq!((&found["name"], &found["key"]), (&json!("ci"), &Value::Null), "{found}");
    let id = operator.split('_').nth(1).unwrap();
    let tried = ask("DELETE", &format!("/api/keys/{id}?dryRun=true"), Value::Null).await;
    let found = tried.json();
    assert_eq!((tried.status, &found["dryRun"]), (200, &json!(true)), "{found}");
    assert_eq!(found["state"], "revoked", "{found}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    assert_eq!(ask("GET", "/api/keys", Value::Null).await.json()["total"], 1);
    // The first recorded change is made after the dry runs.
    let made = ask("POST", "/api/keys?dryRun=false", json!({"name": "last"})).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let trail = gate.folder.path().join("audit.jsonl");
    let changes = until("the key is on the record", async || {
        let text = std::fs::read_to_string(&trail).unwrap_or_default();
        let mut changes = Vec::new();
        for line in text.lines().filter(|line| line.contains("\"kind\":\"change\"")) {
            changes.push(line.to_owned());
        }
        (!changes.is_empty()).then_some(changes)
    })
    .await;
    assert!(changes.len() == 1 && changes[0].contains("\"last\""), "{changes:?}");
}
