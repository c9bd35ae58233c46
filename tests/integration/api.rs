//! The REST API from outside: permissions, addresses, errors for invalid input, and tool calls that
//! behave as over MCP.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::connections::free_port;
use crate::principals::{By, key};
use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Upstream, Value, json, until};
use crate::tls;

const POLICIES: &str = "policies:
  - { name: most, effect: allow, what: { tools: ['a/t', 'a/u'] } }
  - { name: no-u, effect: deny, what: { tools: ['a/u'] } }
";

fn get(path: &str) -> Request {
    Request::bare("GET", path, "")
}

fn post(path: &str, body: &Value) -> Request {
    Request::bare("POST", path, body.to_string())
}

fn problem(answer: &Answer) -> (u16, String) {
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json"),
        "{} {}",
        answer.status,
        answer.text()
    );
    let body = answer.json();
    assert_eq!(body["status"], answer.status, "{body}");
    for member in ["type", "title", "detail"] {
        assert!(body[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {body}");
    }
    (answer.status, body["code"].as_str().unwrap_or_default().to_owned())
}

/// Starts a gateway with keys and a policy that permits one tool; returns its policy folder too.
async fn gate_with_keys(server: &Upstream) -> (Gate, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.yaml"), POLICIES).unwrap();
    let config = json!({
        "servers": {"a": server.config()}, "auth": {"keys_file": "keys.yaml"},
        "audit": {"output": "file", "file": "audit.jsonl"},
        "policy": {"files": [folder.path().join("p.yaml")]},
    });
    (Gate::start(config).await, folder)
}

#[tokio::test]
async fn the_user_of_a_development_machine_is_an_operator() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let servers = get("/api/servers").send(gate.address).await;
    assert_eq!(servers.status, 200, "{}", servers.text());
    let servers = servers.json();
    assert_eq!(servers["total"], 1);
    let a = &servers["items"][0];
    assert_eq!((&a["name"], &a["state"]), (&json!("a"), &json!("connected")), "{a}");
    assert_eq!(a["capabilities"]["tools"], 1, "{a}");
    assert!(a["since"].as_str().is_some() && a["lastHeard"].as_str().is_some(), "{a}");
    assert!(a["operator"]["load"].is_object(), "an operator sees more: {a}");
    let document = get("/api/openapi.json").send(gate.address).await;
    assert_eq!(document.json()["openapi"], "3.1.0");
    let page = get("/api").send(gate.address).await;
    assert!(page.header("content-type").is_some_and(|kind| kind.starts_with("text/html")));
    // Behind a local proxy, every client would otherwise count as the local user.
    let forwarded = get("/api/servers").with("X-Forwarded-For", "203.0.113.9");
    let servers = forwarded.send(gate.address).await.json();
    assert!(servers["items"][0]["operator"].is_null(), "{servers}");
}

/// Every operation as an anonymous caller, a user, an administrator and an operator: exactly those
/// without the permission get 401 or 403.
#[tokio::test]
async fn nobody_does_what_a_route_does_not_permit() {
    let server = Upstream::http(modern(&["t"])).await;
    let (gate, _policies) = gate_with_keys(&server).await;
    let user = key(&gate, "user", &[]).await;
    let admin = key(&gate, "admin", &["--role", "admin", "--organisation", "acme"]).await;
    let operator = key(&gate, "operator", &["--role", "operator"]).await;
    let document = get("/api/openapi.json").send(gate.address).await.json();
    let mut tried = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let least = match operation["x-permission"].as_str().unwrap() {
                "public" => 0,
                "user" => 1,
                "admin" => 2,
                "operator" => 3,
                other => panic!("{other}"),
            };
            let verb = match method.as_str() {
                "get" => "GET",
                "post" => "POST",
                "put" => "PUT",
                "patch" => "PATCH",
                "delete" => "DELETE",
                other => panic!("{other}"),
            };
            let url = format!("/api{}", path.trim_end_matches('/')).replace("{method}", "tools/x");
            let url = url.replace("{name}", "nothing").replace("{id}", "nothing");
            let url = url.replace("{integrationId}", "nothing");
            let request = Request::bare(verb, &url, "");
            for (role, holder) in
                [(0, None), (1, Some(&user)), (2, Some(&admin)), (3, Some(&operator))]
            {
                let request = match holder {
                    Some(key) => request.clone().by(key),
                    None => request.clone(),
                };
                let status = request.open(gate.address).await.head.status;
                let refused = if holder.is_none() { 401 } else { 403 };
                assert_eq!(status == refused, role < least, "{verb} {url} as {role}: {status}");
                assert!(status < 500, "{verb} {url} as {role}: {status}");
                tried += 1;
            }
        }
    }
    assert!(tried >= 31 * 4, "{tried}");
}

#[tokio::test]
async fn a_tool_is_called_as_over_mcp() {
    let server = Upstream::http(modern(&["t", "u", "v"])).await;
    let (gate, _policies) = gate_with_keys(&server).await;
    let user = key(&gate, "user", &[]).await;
    let at = gate.address;
    let tools = until("the tools are there", async || {
        let tools = get("/api/tools").by(&user).send(at).await.json();
        (tools["total"] == 1).then_some(tools)
    })
    .await;
    let tool = &tools["items"][0];
    assert_eq!((&tool["name"], &tool["server"]), (&json!("a__t"), &json!("a")), "{tool}");
    assert!(tool["inputSchema"].is_object(), "{tool}");
    let before = server.count("tools/call");
    let called = post("/api/tools/a__t/execute", &json!({"arguments": {"n": 1}})).by(&user);
    let called = called.send(at).await;
    assert_eq!(called.status, 200, "{}", called.text());
    assert!(called.json()["content"].is_array(), "{}", called.text());
    let params = json!({"name": "a__t", "arguments": {}});
    let by_method = post("/api/mcp/tools/call", &params).by(&user).send(at).await;
    assert_eq!(by_method.status, 200, "{}", by_method.text());
    assert_eq!(server.count("tools/call"), before + 2);
    // Two tools hidden by policy, and a missing tool.
    let mut answers = Vec::new();
    for name in ["a__u", "a__v", "a__w"] {
        let path = format!("/api/tools/{name}/execute");
        let executed = post(&path, &json!({})).by(&user).send(at).await;
        assert_eq!(problem(&executed), (404, "NOT_FOUND".into()));
        answers.push(executed.text().replace(name, "…"));
        let shown = get(&format!("/api/tools/{name}")).by(&user).send(at).await;
        assert_eq!(problem(&shown), (404, "TOOL_NOT_FOUND".into()));
    }
    assert_eq!((&answers[0], &answers[1]), (&answers[1], &answers[2]));
    assert_eq!(server.count("tools/call"), before + 2);
    let trail = gate.folder.path().join("audit.jsonl");
    until("a decision is recorded for each call", async || {
        let text = std::fs::read_to_string(&trail).unwrap_or_default();
        let decisions = text.lines().filter(|line| {
            line.contains("\"kind\":\"decision\"") && line.contains("\"tools/call\"")
        });
        let decisions: Vec<&str> = decisions.collect();
        let allowed = decisions.iter().filter(|line| line.contains("\"allow\"")).count();
        (decisions.len() == 5 && allowed == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn bad_input_gets_a_problem_that_names_it() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate =
        Gate::start(json!({"servers": {"a": server.config()}, "http": {"body_bytes": 2000}})).await;
    let at = gate.address;
    let explain = "/api/policies/explain";
    let long = format!("/api/servers/{}", "x".repeat(9000));
    for (request, status, code) in [
        (post(explain, &json!({"call": "a/t", "other": 1})), 400, "INVALID_BODY"),
        (post(explain, &json!({"call": 1})), 400, "INVALID_BODY"),
        (post(explain, &json!({})), 400, "INVALID_BODY"),
        (post(explain, &json!({"call": "a/t", "arguments": "x"})), 400, "INVALID_BODY"),
        (post(explain, &json!([])), 400, "INVALID_BODY"),
        (post(explain, &json!(null)).body("{"), 400, "INVALID_BODY"),
        (post(explain, &json!(null)).body(r#"{"call":"a/t","call":"a/u"}"#), 400, "INVALID_BODY"),
        (
            post(explain, &json!({})).with("Content-Type", "text/plain"),
            415,
            "UNSUPPORTED_MEDIA_TYPE",
        ),
        (post(explain, &json!({"call": "x".repeat(3000)})), 413, "BODY_TOO_LARGE"),
        (post("/api/tools/a__t/execute", &json!({"arguments": []})), 400, "INVALID_BODY"),
        (post("/api/mcp/tools/call", &json!({"_meta": {}})), 400, "INVALID_BODY"),
        (post("/api/mcp/tools/nothing", &json!({})), 404, "METHOD_NOT_FOUND"),
        (post("/api/mcp/subscriptions/listen", &json!({})), 404, "METHOD_NOT_FOUND"),
        (get("/api/servers?limit=0"), 400, "INVALID_QUERY"),
        (get("/api/servers?limit=1000"), 400, "INVALID_QUERY"),
        (get("/api/servers?limits=1"), 400, "INVALID_QUERY"),
        (get("/api/servers?limit=1&limit=1"), 400, "INVALID_QUERY"),
        (get("/api/servers/nothing"), 404, "SERVER_NOT_FOUND"),
        (get("/api/nothing"), 404, "NOT_FOUND"),
        (get("/api/nothing/at/all"), 404, "NOT_FOUND"),
        (Request::bare("DELETE", "/api/servers", ""), 405, "METHOD_NOT_ALLOWED"),
        (get(&long), 414, "URL_TOO_LONG"),
        (get("/api/servers").with("Origin", "http://localhost:8080"), 403, "CROSS_ORIGIN"),
        (get("/api/servers").with("Sec-Fetch-Site", "cross-site"), 403, "CROSS_ORIGIN"),
        (get("/api/servers").with("Origin", "https://evil.example"), 403, "CROSS_ORIGIN"),
        (get("/api/servers").with("Host", "evil.example"), 421, "INVALID_REQUEST"),
    ] {
        let answer = request.send(at).await;
        assert_eq!(
            problem(&answer),
            (status, code.to_owned()),
            "{} {}",
            request.verb,
            request.path
        );
        assert!(answer.header("access-control-allow-origin").is_none());
    }
    let pointed = post(explain, &json!({"call": "a/t", "as": {"roles": 1}})).send(at).await.json();
    assert_eq!(pointed["errors"][0]["pointer"], "#/as/roles", "{pointed}");
    let preflight = Request::bare("OPTIONS", "/api/servers", "")
        .with("Origin", "http://localhost:8080")
        .with("Access-Control-Request-Method", "POST");
    let preflight = preflight.send(at).await;
    assert!(preflight.header("access-control-allow-origin").is_none(), "{}", preflight.text());
}

#[tokio::test]
async fn decisions_are_explained_and_cases_tried() {
    let server = Upstream::http(modern(&["t", "u"])).await;
    let (gate, _policies) = gate_with_keys(&server).await;
    let operator = key(&gate, "operator", &["--role", "operator"]).await;
    let at = gate.address;
    let explain = async |body: Value| {
        post("/api/policies/explain", &body).by(&operator).send(at).await.json()
    };
    let allowed = explain(json!({"call": "a/t"})).await;
    assert_eq!((&allowed["decision"], &allowed["rule"]), (&json!("allow"), &json!("most")));
    let hidden = explain(json!({"call": "a/u", "as": {"issuer": "key", "subject": "x"}})).await;
    assert_eq!((&hidden["decision"], &hidden["rule"]), (&json!("hidden"), &json!("no-u")));
    let nobody = explain(json!({"call": "a/t", "as": {"subject": "x"}})).await;
    assert_eq!(nobody["errors"][0]["pointer"], "#/as/issuer", "{nobody}");
    let cases = json!({"cases": [
        {"name": "good", "call": "a/t", "expect": "allow"},
        {"name": "wrong", "call": "a/u", "expect": "allow"},
    ]});
    let tested = post("/api/policies/test", &cases).by(&operator).send(at).await.json();
    assert_eq!((&tested["passed"], &tested["failed"]), (&json!(1), &json!(1)), "{tested}");
    assert!(tested["cases"][1]["differences"][0].as_str().is_some(), "{tested}");
    let case =
        json!({"name": "no issuer", "call": "a/t", "as": {"subject": "x"}, "expect": "allow"});
    let refused =
        post("/api/policies/test", &json!({"cases": [case]})).by(&operator).send(at).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert_eq!(refused.json()["errors"][0]["pointer"], "#/cases/0/as/issuer");
}

#[tokio::test]
async fn keys_are_listed_by_organisation_and_without_secrets() {
    let server = Upstream::http(modern(&["t"])).await;
    let (gate, _policies) = gate_with_keys(&server).await;
    let acme = key(&gate, "acme-admin", &["--role", "admin", "--organisation", "acme"]).await;
    let other = key(&gate, "other-admin", &["--role", "admin", "--organisation", "other"]).await;
    let operator = key(&gate, "operator", &["--role", "operator"]).await;
    for (holder, names) in [
        (&acme, vec!["acme-admin"]),
        (&other, vec!["other-admin"]),
        (&operator, vec!["acme-admin", "operator", "other-admin"]),
    ] {
        let listed = get("/api/keys").by(holder).send(gate.address).await;
        for secret in [&acme, &other, &operator] {
            let (_, secret) = secret.rsplit_once('_').unwrap();
            assert!(!listed.text().contains(secret) && !listed.text().contains("blake3"));
        }
        let listed = listed.json();
        let items = listed["items"].as_array().unwrap().iter();
        let mut found: Vec<&str> = items.map(|key| key["name"].as_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, names);
    }
}

#[tokio::test]
async fn a_reconnected_server_is_told_of_on_the_stream_of_events() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let mut stream = get("/api/events").open(gate.address).await;
    assert_eq!(stream.head.status, 200);
    let answer = post("/api/servers/a/reconnect", &json!({})).send(gate.address).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let mut told = Vec::new();
    while told.last() != Some(&json!("connected")) {
        let event = stream.next().await.unwrap();
        assert_eq!(event["name"], "a", "{event}");
        told.push(event["state"].clone());
    }
    assert_eq!(gate.call("a__t").await.status, 200);
    let unknown = post("/api/servers/b/reconnect", &json!({})).send(gate.address).await;
    assert_eq!(problem(&unknown), (404, "SERVER_NOT_FOUND".into()));
}

/// A client that has closed its connection is noticed without the next event.
#[tokio::test]
async fn a_closed_stream_of_events_makes_room_for_another() {
    let server = Upstream::http(modern(&["t"])).await;
    let limits = json!({"streams_per_principal": 1});
    let gate = Gate::start(json!({"servers": {"a": server.config()}, "limits": limits})).await;
    let open = async || get("/api/events").open(gate.address).await;
    let stream = open().await;
    assert_eq!(stream.head.status, 200);
    assert_eq!(open().await.head.status, 503);
    drop(stream);
    let closed = Instant::now();
    while open().await.head.status != 200 {
        assert!(closed.elapsed() < Duration::from_secs(5), "the stream still counts");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// In production the API is served only on the operator's address, with the same checks as MCP:
/// TLS, credentials, Host and Origin, the body limit.
#[tokio::test]
async fn in_production_the_api_is_on_the_operators_address_behind_the_same_checks() {
    let folder = tempfile::tempdir().unwrap();
    let authority = tls::authority("ours");
    tls::write_server(folder.path(), &authority);
    let server = Upstream::http(modern(&["t"])).await;
    let port = free_port();
    let secret = "0123456789abcdef0123";
    let gate = Gate::launch(json!({
        "profile": "production", "servers": {"a": server.config()},
        "auth": {"key": secret}, "policy": {"tools": {"allow": ["a__t"]}},
        "http": {"body_bytes": 2000, "tls": {
            "cert": folder.path().join("cert.pem"), "key": folder.path().join("key.pem"),
        }},
        "admin": {"listen": format!("127.0.0.1:{port}"), "operators": ["principal:key|default"]},
    }))
    .await;
    let own = SocketAddr::from(([127, 0, 0, 1], port));
    let ask = async |request: Request| {
        let answer = tls::ask_at(own, &authority, None, &request.with("Host", "localhost")).await;
        tls::status(&answer)
    };
    assert_eq!(ask(get("/api/servers")).await, 401);
    assert_eq!(ask(get("/api/servers").by("wrong")).await, 401);
    assert_eq!(ask(get("/api/servers").by(secret)).await, 200);
    assert_eq!(
        ask(get("/api/servers").by(secret).with("Origin", "https://evil.example")).await,
        403
    );
    let large = post("/api/policies/explain", &json!({"call": "x".repeat(3000)}));
    assert_eq!(ask(large.by(secret)).await, 413);
    let elsewhere = get("/api/servers").by(secret).with("Host", "evil.example");
    let elsewhere = tls::ask_at(own, &authority, None, &elsewhere).await;
    assert_eq!(tls::status(&elsewhere), 421);
    assert_eq!(ask(Request::modern("/mcp", "tools/list", json!({})).by(secret)).await, 404);
    // Probes and scrapers use plain HTTP, and reach no other path.
    for path in ["/healthz", "/metrics"] {
        assert_eq!(get(path).send(own).await.status, 200, "{path}");
    }
    let plain = get("/api/servers").by(secret).send(own).await;
    assert_eq!(problem(&plain).0, 421);
    let beside = tls::ask(&gate, &authority, None, &get("/api/servers").by(secret)).await;
    assert_eq!(tls::status(&beside), 404, "not on the address of clients");
}

/// Returns whether the response contains the expected JSON: `…` matches any text, `{}` and `[]` any
/// object and list, a timestamp any other timestamp.
fn shows(answer: &Value, written: &Value) -> bool {
    match (answer, written) {
        (Value::Object(answer), Value::Object(written)) => written
            .iter()
            .all(|(name, value)| answer.get(name).is_some_and(|found| shows(found, value))),
        (Value::Array(answer), Value::Array(written)) => written
            .iter()
            .enumerate()
            .all(|(at, value)| answer.get(at).is_some_and(|found| shows(found, value))),
        (Value::String(answer), Value::String(written)) => {
            answer == written || written == "…" || (written.ends_with('Z') && answer.ends_with('Z'))
        }
        (answer, written) => answer == written,
    }
}

/// Compares the examples of docs/api.md with the gateway's responses.
#[tokio::test]
async fn the_reference_is_as_the_gateway_answers() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/api.md")).unwrap();
    let gate = Gate::start(json!({"builtin": {"example": true, "system": true}})).await;
    let mut tried = 0;
    for block in page.split("```http\n").skip(1) {
        let (request, rest) = block.split_once("```").unwrap();
        let (line, body) = request.split_once('\n').unwrap();
        let (verb, path) = line.split_once(' ').unwrap();
        let verb = match verb {
            "GET" => "GET",
            "PUT" => "PUT",
            _ => "POST",
        };
        let answer = Request::bare(verb, path, body.trim()).send(gate.address).await;
        let written = rest.split_once("```json\n").unwrap().1.split_once("```").unwrap().0;
        let written: Value = serde_json::from_str(written).unwrap();
        assert!(shows(&answer.json(), &written), "{line}\n{written}\n{}", answer.text());
        tried += 1;
    }
    assert_eq!(tried, 10, "blocks of requests");
}
