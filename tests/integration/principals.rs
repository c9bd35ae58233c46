//! Two callers with separate keys (rows A-05, F-07, F-13, S-03, T-08): state of one caller is
//! unusable for the other, even if its ids are known. And the life of a key: created, used and
//! revoked at runtime.

use crate::rig::client::{MODERN, Request};
use crate::rig::gate::command;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, HeardMessage, Say, Upstream, Value, fixture, json, until};

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Creates a key in the gateway's keys file, and waits until the gateway accepts it.
pub async fn key(gate: &Gate, name: &str, more: &[&str]) -> String {
    let file = gate.folder.path().join("keys.yaml");
    let made = command()
        .args(["keys", "create", name, "--json", "--file"])
        .arg(file)
        .args(more)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let key = made["key"].as_str().unwrap().to_owned();
    until("the key is taken over", async || {
        let known =
            list().with("Authorization", &format!("Bearer {key}")).send(gate.address).await.status;
        (known != 401).then_some(())
    })
    .await;
    key
}

fn list() -> Request {
    Request::modern("/mcp", "tools/list", json!({}))
}

pub trait By {
    fn by(self, key: &str) -> Self;
}

impl By for Request {
    fn by(self, key: &str) -> Self {
        self.with("Authorization", &format!("Bearer {key}"))
    }
}

pub async fn gate(server: &Upstream, more: Value) -> Gate {
    let mut config = json!({"servers": {"a": server.config()}, "auth": {"keys_file": "keys.yaml"}});
    for (name, value) in more.as_object().unwrap() {
        config[name] = value.clone();
    }
    Gate::start(config).await
}

/// Opens a legacy session; returns its id.
pub async fn session(gate: &Gate, key: &str, version: &str) -> String {
    let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let body =
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
    let answer = Request::bare("POST", "/mcp", body).by(key).send(gate.address).await;
    answer.header("mcp-session-id").unwrap_or_else(|| panic!("{}", answer.text())).to_owned()
}

/// POST, GET, DELETE and a batch: a session is accessible only to its principal; for others it
/// equals an unknown session.
#[tokio::test]
async fn a_session_is_of_one_principal() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate(&server, json!({})).await;
    let (one, two) = (key(&gate, "one", &[]).await, key(&gate, "two", &[]).await);
    let id = session(&gate, &one, "2025-03-26").await;
    let at = gate.address;
    let requests = |id: &str| {
        let call =
            Request::legacy("/mcp", id, 1, "tools/call", &json!({"name": "a__t", "arguments": {}}));
        let note = Request::bare(
            "POST",
            "/mcp",
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        );
        let answer = Request::bare("POST", "/mcp", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        let batch = Request::bare("POST", "/mcp", r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#);
        let get = Request::bare("GET", "/mcp", "").with("Accept", "text/event-stream");
        let resumed = get.clone().with("Last-Event-ID", "0-0");
        let delete = Request::bare("DELETE", "/mcp", "");
        [call, note, answer, batch, get, resumed, delete]
            .map(|request| request.with("Mcp-Session-Id", id))
    };
    let unknown = requests("0123456789abcdef0123456789abcdef");
    for (foreign, unknown) in requests(&id).into_iter().zip(unknown) {
        let (foreign, unknown) = (foreign.by(&two).send(at).await, unknown.by(&two).send(at).await);
        assert!(matches!(foreign.status, 404 | 400), "{} {}", foreign.status, foreign.text());
        assert_eq!((foreign.status, foreign.text()), (unknown.status, unknown.text()));
    }
    for request in requests(&id) {
        assert_eq!(request.send(at).await.status, 401, "without a key");
    }
    assert_eq!(server.count("tools/call"), 0);
    let [call, .., delete] = requests(&id);
    assert_eq!(call.clone().by(&one).send(at).await.code(), 0, "it lives on for its own");
    assert_eq!(delete.by(&one).send(at).await.status, 204);
    assert_eq!(call.by(&one).send(at).await.status, 404);
}

/// Answers as a server with two tools: the first asks a question, the second becomes a task.
fn asking(heard: &HeardMessage) -> Say {
    let name = heard.body["params"]["name"].as_str().unwrap_or_default();
    match (heard.method(), name) {
        ("server/discover", _) => Say::Json(heard.result(json!({
            "resultType": "complete", "supportedVersions": [MODERN], "ttlMs": 0, "cacheScope": "private",
            "capabilities": {"tools": {}, "extensions": {TASKS: {}}},
        }))),
        ("tools/call", "ask") if heard.body["params"]["requestState"].is_null() => {
            let form = json!({"method": "elicitation/create", "params": {"mode": "form", "message": "?",
                "requestedSchema": {"type": "object", "properties": {}}}});
            Say::Json(heard.result(json!({
                "resultType": "input_required", "inputRequests": {"q": form}, "requestState": "inner",
            })))
        }
        ("tools/call", "job") => Say::Json(heard.result(json!({
            "resultType": "task", "taskId": "inner-task", "status": "working", "ttlMs": 60_000, "pollIntervalMs": 100,
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
        }))),
        ("tasks/get" | "tasks/cancel" | "tasks/update", _) => Say::Json(heard.result(json!({
            "resultType": "complete", "taskId": "inner-task", "status": "working", "ttlMs": 60_000,
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
        }))),
        _ => modern(&["ask", "job"])(heard),
    }
}

fn able(mut params: Value) -> Value {
    let capabilities = json!({"elicitation": {"form": {}}, "extensions": {TASKS: {}}});
    params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
    params
}

#[track_caller]
fn assert_invalid(answer: &Answer) {
    assert_eq!(answer.code(), -32602, "{}", answer.text());
}

/// Cursors, request states and task ids are bound to their principal.
#[tokio::test]
async fn sealed_tokens_are_of_one_principal() {
    let server = Upstream::http(asking).await;
    let gate = gate(&server, json!({"limits": {"page_items": 1}})).await;
    let (one, two) = (key(&gate, "one", &[]).await, key(&gate, "two", &[]).await);
    let at = gate.address;

    let page = list().by(&one).send(at).await.result();
    let next = Request::modern("/mcp", "tools/list", json!({"cursor": page["nextCursor"]}));
    assert_invalid(&next.clone().by(&two).send(at).await);
    assert_eq!(next.by(&one).send(at).await.result()["tools"].as_array().unwrap().len(), 1);

    let call = |more: Value| {
        let mut params = json!({"name": "a__ask", "arguments": {}});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Request::modern("/mcp", "tools/call", able(params))
    };
    let asked = call(json!({})).by(&one).send(at).await.result();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let again = json!({"requestState": asked["requestState"], "inputResponses": {"q": {"action": "decline"}}});
    let before = server.count("tools/call");
    assert_invalid(&call(again.clone()).by(&two).send(at).await);
    assert_eq!(server.count("tools/call"), before);
    assert_eq!(call(again).by(&one).send(at).await.code(), 0);

    let job =
        Request::modern("/mcp", "tools/call", able(json!({"name": "a__job", "arguments": {}})));
    let task = job.by(&one).send(at).await.result()["taskId"].as_str().unwrap().to_owned();
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let ask = |id: &str| {
            let params = able(json!({"taskId": id, "inputResponses": {}}));
            Request::modern("/mcp", method, params)
        };
        let (foreign, unknown) =
            (ask(&task).by(&two).send(at).await, ask("nothing").by(&two).send(at).await);
        assert_invalid(&foreign);
        assert_eq!(foreign.text(), unknown.text());
        assert_eq!(server.count(method), 0);
        assert_eq!(ask(&task).by(&one).send(at).await.code(), 0, "{method}");
    }
}

/// F-07: privately cacheable results are never shared between callers, in any order of requests.
#[tokio::test]
async fn what_is_private_to_one_is_not_told_to_another() {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let server = Upstream::http(move |heard: &HeardMessage| match heard.method() {
        "server/discover" => Say::Json(heard.result(json!({
            "resultType": "complete", "supportedVersions": [MODERN], "capabilities": {"resources": {}, "tools": {}},
            "ttlMs": 60_000, "cacheScope": "private",
        }))),
        "resources/read" => {
            let turn = asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let contents = json!([{"uri": "test://mine", "text": format!("reading {turn}")}]);
            let result =
                json!({"resultType": "complete", "contents": contents, "ttlMs": 60_000, "cacheScope": "private"});
            Say::Json(heard.result(result))
        }
        "resources/list" => Say::Json(heard.result(json!({
            "resultType": "complete", "resources": [{"uri": "test://mine", "name": "m"}], "ttlMs": 60_000,
            "cacheScope": "private",
        }))),
        "resources/templates/list" => Say::Json(heard.result(json!({
            "resultType": "complete", "resourceTemplates": [], "ttlMs": 60_000, "cacheScope": "private",
        }))),
        _ => modern(&["t"])(heard),
    })
    .await;
    let gate = gate(&server, json!({})).await;
    let (one, two) = (key(&gate, "one", &[]).await, key(&gate, "two", &[]).await);
    let mut told: Vec<String> = Vec::new();
    for who in [&one, &two, &one, &two, &two] {
        let read =
            Request::modern("/mcp", "resources/read", json!({"uri": "a+test://mine"})).by(who);
        let result = read.send(gate.address).await.result();
        assert_eq!(result["cacheScope"], "private", "{result}");
        told.push(result["contents"][0]["text"].as_str().unwrap().to_owned());
    }
    // Each request was forwarded, and got its own result.
    assert_eq!(told, ["reading 0", "reading 1", "reading 2", "reading 3", "reading 4"]);
    let session = session(&gate, &two, "2025-11-25").await;
    let read =
        Request::legacy("/mcp", &session, 1, "resources/read", &json!({"uri": "a+test://mine"}))
            .by(&two);
    assert_eq!(read.send(gate.address).await.result()["contents"][0]["text"], "reading 5");
}

/// `limits.sessions_per_principal`: a caller's further session is rejected with that name, and the
/// rest stays available to others. The default is half of all sessions.
#[tokio::test]
async fn one_caller_cannot_take_all_sessions() {
    let server = Upstream::http(modern(&["t"])).await;
    for limits in [json!({"sessions": 3}), json!({"sessions": 3, "sessions_per_principal": 2})] {
        let gate = gate(&server, json!({"limits": limits})).await;
        let (one, two) = (key(&gate, "one", &[]).await, key(&gate, "two", &[]).await);
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
        }});
        let open = async |key: &str| {
            Request::bare("POST", "/mcp", initialize.to_string()).by(key).send(gate.address).await
        };
        let first = open(&one).await;
        assert_eq!((first.status, open(&one).await.status), (200, 200), "{}", first.text());
        let refused = open(&one).await;
        assert_eq!((refused.status, refused.code()), (503, -31053), "{}", refused.text());
        assert!(refused.text().contains("limits.sessions_per_principal"), "{}", refused.text());
        assert!(refused.header("retry-after").is_some());
        assert_eq!(open(&two).await.status, 200, "the place that is left");
        let full = open(&two).await;
        assert!(full.status == 503 && full.text().contains("(limits.sessions)"), "{}", full.text());
        let id = first.header("mcp-session-id").unwrap();
        let end = Request::bare("DELETE", "/mcp", "").with("Mcp-Session-Id", id).by(&one);
        assert_eq!(end.send(gate.address).await.status, 204);
        assert_eq!(open(&one).await.status, 200, "one was given back");
    }
}

/// `limits.streams_per_principal` limits each principal separately.
#[tokio::test]
async fn streams_are_bounded_for_each_principal() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate(&server, json!({"limits": {"streams_per_principal": 2}})).await;
    let (one, two) = (key(&gate, "one", &[]).await, key(&gate, "two", &[]).await);
    let at = gate.address;
    let listen = || {
        Request::modern(
            "/mcp",
            "subscriptions/listen",
            json!({"notifications": {"toolsListChanged": true}}),
        )
    };
    let id = session(&gate, &one, "2025-11-25").await;
    let get = || {
        Request::bare("GET", "/mcp", "")
            .with("Accept", "text/event-stream")
            .with("Mcp-Session-Id", &id)
    };
    let mut first = listen().by(&one).open(at).await;
    assert!(first.next().await.is_some(), "acknowledged");
    let second = get().by(&one).open(at).await;
    assert_eq!(second.head.status, 200);
    assert_eq!(listen().by(&one).send(at).await.code(), -31053);
    assert_eq!((get().by(&one).send(at).await.status), 503);
    let mut others = Vec::new();
    for _ in 0..2 {
        let mut other = listen().by(&two).open(at).await;
        assert!(other.next().await.is_some());
        others.push(other);
    }
    assert_eq!(listen().by(&two).send(at).await.code(), -31053);
    drop(second);
    until("the place is free again", async || {
        let stream = listen().by(&one).open(at).await;
        let kind = stream.head.header("content-type").unwrap_or_default().to_owned();
        kind.starts_with("text/event-stream").then_some(())
    })
    .await;
}

/// Revocation, expiry and scopes at runtime; a broken keys file has no effect.
#[tokio::test]
async fn keys_come_and_go_while_the_gateway_runs() {
    let server = Upstream::http(modern(&["t"])).await;
    let scopes = json!({"keys_file": "keys.yaml", "scopes": {"required": ["mcp"]}});
    let gate = gate(&server, json!({"auth": scopes})).await;
    let (at, file) = (gate.address, gate.folder.path().join("keys.yaml"));
    assert_eq!(list().send(at).await.status, 401, "no key yet, and nobody is let in");
    let (one, two) = (
        key(&gate, "one", &["--scope", "mcp"]).await,
        key(&gate, "two", &["--scope", "mcp"]).await,
    );
    let bare = key(&gate, "bare", &[]).await;
    let refused = list().by(&bare).send(at).await;
    assert_eq!((refused.status, refused.code()), (403, -31003));
    assert!(
        refused.header("www-authenticate").is_some_and(|v| v.contains("insufficient_scope")),
        "{refused:?}"
    );
    // Endpoints beside MCP apply the same authentication.
    let metrics = || Request::bare("GET", "/metrics", "");
    let lower = metrics().with("authorization", &format!("bearer {one}"));
    for (request, status) in [
        (metrics(), 401),
        (lower, 200),
        (metrics().by(&one).also("Authorization", "Bearer x"), 400),
        (metrics().by(&bare), 403),
    ] {
        let answer = request.send(at).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(
            answer.header("www-authenticate").is_some(),
            matches!(status, 401 | 403),
            "{answer:?}"
        );
    }
    let query = Request { path: format!("/mcp?access_token={one}"), ..list() };
    assert_eq!(query.send(at).await.status, 401);

    let id = session(&gate, &one, "2025-11-25").await;
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, "keys: [{ id: broken }]").unwrap();
    until("the mistake is told", async || {
        gate.log().contains("16 hexadecimal digits").then_some(())
    })
    .await;
    assert_eq!(list().by(&one).send(at).await.code(), 0);
    std::fs::write(&file, good).unwrap();
    let revoked = command().args(["keys", "revoke", &one, "--file"]).arg(&file).output().unwrap();
    assert!(revoked.status.success() && !String::from_utf8_lossy(&revoked.stdout).contains(&one));
    until("the key is revoked", async || {
        (list().by(&one).send(at).await.status == 401).then_some(())
    })
    .await;
    let in_session = Request::legacy("/mcp", &id, 1, "tools/list", &json!({}));
    assert_eq!(in_session.by(&one).send(at).await.status, 401, "its session is of no use");
    assert_eq!(list().by(&two).send(at).await.code(), 0);
    let past = std::fs::read_to_string(&file)
        .unwrap()
        .replace("name: \"two\"", "name: \"two\"\n    expires: 2020-01-01");
    std::fs::write(&file, past).unwrap();
    until("the key is over", async || (list().by(&two).send(at).await.status == 401).then_some(()))
        .await;
    assert!(list().by(&two).send(at).await.text().contains("expired"));
    // Revocation works even while the configuration is broken.
    let three = key(&gate, "three", &["--scope", "mcp"]).await;
    gate.configure(json!({"servers": 1}));
    until("the mistake is told", async || gate.log().contains("servers: must").then_some(())).await;
    assert_eq!(list().by(&three).send(at).await.code(), 0);
    let revoked = command().args(["keys", "revoke", &three, "--file"]).arg(&file).output().unwrap();
    assert!(revoked.status.success());
    until("the key is revoked", async || {
        (list().by(&three).send(at).await.status == 401).then_some(())
    })
    .await;
    let secrets = [one, two, three, bare].map(|key| key[20..].to_owned());
    assert!(secrets.iter().all(|secret| !gate.log().contains(secret)), "no secret in the log");
}

/// Sessions and listens follow changes of their key's entry, and end with the key.
#[tokio::test]
async fn open_streams_lose_what_their_key_loses() {
    let policies = json!({"policies": [
        {"name": "all", "effect": "allow", "what": {"tools": ["*"], "resources": ["*static-text"]}},
        {"name": "boss", "effect": "allow", "who": {"roles": ["boss"]}, "what": {"resources": ["*"]}},
    ]});
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    std::fs::write(&rules, policies.to_string()).unwrap();
    let config = json!({"servers": {"f": fixture(&["--era", "legacy"])}, "policy": {"files": [rules]}, "auth": {"keys_file": "keys.yaml"}});
    let gate = Gate::start(config).await;
    let (at, file) = (gate.address, gate.folder.path().join("keys.yaml"));
    let (boss, tester) =
        (key(&gate, "boss", &["--role", "boss"]).await, key(&gate, "tester", &[]).await);
    let id = session(&gate, &boss, "2025-11-25").await;
    let uris = ["f+test://watched-resource", "f+test://static-text"];
    for uri in uris {
        let subscribe =
            Request::legacy("/mcp", &id, 1, "resources/subscribe", &json!({"uri": uri}));
        assert_eq!(subscribe.by(&boss).send(at).await.code(), 0, "{uri}");
    }
    let wanted = json!({"notifications": {"resourceSubscriptions": uris}});
    let mut modern =
        Request::modern("/mcp", "subscriptions/listen", wanted).by(&boss).open(at).await;
    assert!(modern.next().await.unwrap().to_string().contains("watched"));
    let get = Request::bare("GET", "/mcp", "")
        .with("Accept", "text/event-stream")
        .with("Mcp-Session-Id", &id)
        .by(&boss);

    let demoted = std::fs::read_to_string(&file).unwrap().replace("[\"boss\"]", "[\"other\"]");
    std::fs::write(&file, demoted).unwrap();
    until("the key has lost its role", async || {
        let read = Request::modern("/mcp", "resources/read", json!({"uri": uris[0]}));
        (read.by(&boss).send(at).await.code() != 0).then_some(())
    })
    .await;
    let mut legacy = get.open(at).await;
    for uri in uris {
        let params = json!({"name": "f__test_trigger_resource_update", "arguments": {"uri": uri.trim_start_matches("f+")}});
        assert_eq!(
            Request::modern("/mcp", "tools/call", params).by(&tester).send(at).await.code(),
            0
        );
    }
    for stream in [&mut legacy, &mut modern] {
        let told = loop {
            let note = stream.next().await.unwrap();
            if note["method"] == "notifications/resources/updated" {
                break note["params"]["uri"].clone();
            }
        };
        assert_eq!(told, uris[1], "of nothing that is hidden by now");
    }

    let revoked = command().args(["keys", "revoke", &boss, "--file"]).arg(&file).output().unwrap();
    assert!(revoked.status.success(), "{revoked:?}");
    for stream in [&mut legacy, &mut modern] {
        while stream.next().await.is_some() {}
    }
}
