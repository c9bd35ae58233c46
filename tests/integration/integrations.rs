//! Organisations over the API: integrations, agents and assignments, with the statuses and
//! responses that applications expect, isolated between organisations.

use crate::principals::{By, key};
use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Upstream, Value, json, until};

const SECRET: &str = "canary-3f9a-credential-of-acme";

struct Rig {
    gate: Gate,
    server: Upstream,
    acme: String,
    user: String,
    other: String,
    other_user: String,
    operator: String,
}

impl Rig {
    async fn new() -> Self {
        let server = Upstream::http(modern(&["t"])).await;
        let gate = Gate::start(json!({
            "auth": {"keys_file": "keys.yaml"},
            "audit": {"output": "file", "file": "audit.jsonl"},
            "store": {"keys": ["a-key-of-the-ring-that-is-long-enough"]},
        }))
        .await;
        let acme = key(&gate, "acme", &["--role", "admin", "--organisation", "acme"]).await;
        let user = key(&gate, "user", &["--organisation", "acme"]).await;
        let other = key(&gate, "other", &["--role", "admin", "--organisation", "other"]).await;
        let other_user = key(&gate, "other-user", &["--organisation", "other"]).await;
        let operator = key(&gate, "operator", &["--role", "operator"]).await;
        Self { gate, server, acme, user, other, other_user, operator }
    }

    async fn ask(&self, by: &str, verb: &'static str, path: &str, body: Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        Request::bare(verb, &format!("/api{path}"), text).by(by).send(self.gate.address).await
    }

    fn custom(&self, name: &str) -> Value {
        json!({"name": name, "serverUrl": format!("http://{}/mcp", self.server.address),
            "authMethod": "bearer_token", "credentials": SECRET})
    }

    async fn create(&self, by: &str, name: &str) -> Value {
        let made = self.ask(by, "POST", "/mcp-integrations/custom", self.custom(name)).await;
        assert_eq!(made.status, 201, "{}", made.text());
        made.json()
    }

    async fn agent(&self, by: &str, name: &str) -> String {
        let made = self.ask(by, "POST", "/agents", json!({"name": name})).await;
        assert_eq!(made.status, 201, "{}", made.text());
        made.json()["id"].as_str().unwrap().to_owned()
    }
}

fn id(of: &Value) -> &str {
    of["id"].as_str().unwrap()
}

const NO_AGENT: &str = "agt_0123456789abcdef0123456789abcdef";
const NO_INTEGRATION: &str = "int_0123456789abcdef0123456789abcdef";

fn verb(method: &str) -> &'static str {
    match method {
        "get" => "GET",
        "post" => "POST",
        "put" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        other => panic!("{other}"),
    }
}

/// Fills the ids into a path of the API description.
fn at(path: &str, agent: &str, integration: &str) -> String {
    let own = if path.starts_with("/agents/") { agent } else { integration };
    path.replace("{id}", own).replace("{integrationId}", integration)
}

fn code(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn an_integration_lives_from_its_creation_to_its_end() {
    let rig = Rig::new().await;
    let acme = rig.acme.as_str();
    let tried =
        rig.ask(acme, "POST", "/mcp-integrations/custom?dryRun=true", rig.custom("Time")).await;
    assert_eq!((tried.status, &tried.json()["dryRun"]), (200, &json!(true)));
    let listed = rig.ask(acme, "GET", "/mcp-integrations", Value::Null).await.json();
    assert_eq!(listed["total"], 0, "only tried: {listed}");
    let made = rig.ask(acme, "POST", "/mcp-integrations/custom", rig.custom("Time")).await;
    assert_eq!((made.status, made.header("etag")), (201, Some("\"1\"")), "{}", made.text());
    let made = made.json();
    for (member, value) in [
        ("name", json!("Time")),
        ("type", json!("custom")),
        ("slug", json!("time")),
        ("enabled", json!(true)),
        ("organizationId", json!("acme")),
        ("hasCredentials", json!(true)),
    ] {
        assert_eq!(made[member], value, "{member}: {made}");
    }
    for member in ["id", "serverUrl", "createdAt", "updatedAt", "state", "reason"] {
        assert!(made[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {made}");
    }
    let path = format!("/mcp-integrations/{}", id(&made));
    let taken = rig.ask(acme, "POST", "/mcp-integrations/custom", rig.custom("time")).await;
    assert_eq!(code(&taken), (409, "NAME_TAKEN".into()));
    let stale = Request::bare("PATCH", &format!("/api{path}"), r#"{"name":"Clock"}"#).by(acme);
    let stale = stale.with("If-Match", "\"7\"").send(rig.gate.address).await;
    assert_eq!(code(&stale), (412, "VERSION_MISMATCH".into()));
    let renamed = rig.ask(acme, "PATCH", &path, json!({"name": "Clock"})).await;
    assert_eq!(
        (renamed.status, renamed.header("etag")),
        (200, Some("\"2\"")),
        "{}",
        renamed.text()
    );
    let off = rig.ask(acme, "POST", &format!("{path}/disable"), Value::Null).await.json();
    assert_eq!((&off["enabled"], &off["state"]), (&json!(false), &json!("disabled")), "{off}");
    let on = rig.ask(acme, "POST", &format!("{path}/enable"), Value::Null).await.json();
    assert_eq!(on["enabled"], true, "{on}");
    let listed = rig.ask(acme, "GET", "/mcp-integrations?search=clock", Value::Null).await.json();
    assert_eq!((&listed["total"], id(&listed["items"][0])), (&json!(1), id(&made)));
    assert_eq!(rig.ask(acme, "DELETE", &path, Value::Null).await.status, 204);
    let gone = rig.ask(acme, "GET", &path, Value::Null).await;
    assert_eq!(code(&gone), (404, "MCP_INTEGRATION_NOT_FOUND".into()));
    let trail = until("every change is recorded", async || {
        let file = rig.gate.folder.path().join("audit.jsonl");
        let trail = std::fs::read_to_string(file).unwrap_or_default();
        trail.contains("delete mcp-integration").then_some(trail)
    })
    .await;
    let mut changes = Vec::new();
    for line in trail.lines().filter(|line| line.contains(r#""kind":"change""#)) {
        changes.push(serde_json::from_str::<Value>(line).unwrap());
    }
    let mut names = Vec::new();
    for change in &changes {
        assert_eq!((&change["organisation"], &change["issuer"]), (&json!("acme"), &json!("key")));
        let name = |state: &Value| state["name"].as_str().map(str::to_owned);
        names.push((name(&change["before"]), name(&change["after"])));
    }
    let (time, clock) = (Some("Time".to_owned()), Some("Clock".to_owned()));
    assert_eq!(
        names,
        [
            (None, time.clone()),
            (time, clock.clone()),
            (clock.clone(), clock.clone()),
            (clock.clone(), clock.clone()),
            (clock, None),
        ],
        "{changes:?}"
    );
    assert!(!trail.contains(SECRET) && !rig.gate.log().contains(SECRET));
}

#[tokio::test]
async fn a_repeated_change_with_the_same_key_is_made_once() {
    let rig = Rig::new().await;
    let send = async |body: &Value| {
        let path = "/api/mcp-integrations/custom";
        let request = Request::bare("POST", path, body.to_string()).by(&rig.acme);
        request.with("Idempotency-Key", "4fd1a5b2").send(rig.gate.address).await
    };
    let (first, second) = (send(&rig.custom("One")).await, send(&rig.custom("One")).await);
    assert_eq!((first.status, second.status), (201, 201), "{}", second.text());
    assert_eq!(first.json()["id"], second.json()["id"]);
    assert_eq!(code(&send(&rig.custom("Two")).await), (422, "IDEMPOTENCY_KEY_REUSED".into()));
}

#[tokio::test]
async fn agents_have_what_is_assigned_to_them() {
    let rig = Rig::new().await;
    let (acme, user) = (rig.acme.as_str(), rig.user.as_str());
    let made = rig.create(acme, "Time").await;
    let agent = rig.agent(user, "Mine").await;
    let assigned = format!("/agents/{agent}/mcp-integrations");
    let one = format!("{assigned}/{}", id(&made));
    let available =
        rig.ask(user, "GET", &format!("{assigned}/available"), Value::Null).await.json();
    assert_eq!(available["total"], 1, "{available}");
    assert!(available["items"][0].get("serverUrl").is_none(), "not for users: {available}");
    assert_eq!(
        code(&rig.ask(user, "DELETE", &one, Value::Null).await),
        (404, "MCP_INTEGRATION_NOT_ASSIGNED".into())
    );
    assert_eq!(rig.ask(user, "POST", &one, Value::Null).await.status, 200);
    assert_eq!(
        code(&rig.ask(user, "POST", &one, Value::Null).await),
        (409, "MCP_INTEGRATION_ALREADY_ASSIGNED".into())
    );
    let listed = rig.ask(user, "GET", &assigned, Value::Null).await.json();
    assert_eq!((&listed["total"], id(&listed["items"][0])), (&json!(1), id(&made)));
    assert_eq!(rig.ask(user, "DELETE", &one, Value::Null).await.status, 204);
    let off = format!("/mcp-integrations/{}/disable", id(&made));
    assert_eq!(rig.ask(acme, "POST", &off, Value::Null).await.status, 200);
    assert_eq!(
        code(&rig.ask(user, "POST", &one, Value::Null).await),
        (400, "MCP_INTEGRATION_DISABLED".into())
    );
    let nothing = format!("{assigned}/int_0");
    assert_eq!(
        code(&rig.ask(user, "POST", &nothing, Value::Null).await),
        (404, "MCP_INTEGRATION_NOT_FOUND".into())
    );
    let renamed =
        rig.ask(user, "PATCH", &format!("/agents/{agent}"), json!({"name": "Ours"})).await;
    assert_eq!((renamed.status, &renamed.json()["name"]), (200, &json!("Ours")));
    assert_eq!(rig.ask(user, "DELETE", &format!("/agents/{agent}"), Value::Null).await.status, 204);
}

/// A key with the id of an agent as its `agent` opens that agent's endpoint and nothing else.
#[tokio::test]
async fn a_key_of_an_agent_opens_its_endpoint_alone() {
    let rig = Rig::new().await;
    let acme = rig.acme.as_str();
    let made = rig.create(acme, "Time").await;
    let agent = rig.agent(acme, "Mine").await;
    let other = rig.agent(acme, "Other").await;
    for agent in [&agent, &other] {
        let one = format!("/agents/{agent}/mcp-integrations/{}", id(&made));
        assert_eq!(rig.ask(acme, "POST", &one, Value::Null).await.status, 200);
    }
    let made = rig.ask(acme, "POST", "/keys", json!({"name": "k", "agent": agent})).await.json();
    let own = made["key"].as_str().unwrap();
    let list = async |path: &str| {
        let request = Request::modern(path, "tools/list", json!({})).by(own);
        request.send(rig.gate.address).await.status
    };
    until("the key is in force", async || {
        (list(&format!("/agents/{agent}/mcp")).await == 200).then_some(())
    })
    .await;
    for path in ["/mcp", "/servers/time/mcp", &format!("/agents/{other}/mcp")] {
        assert_eq!(list(path).await, 404, "{path}");
    }
    for path in ["/agents", "/servers", "/tools", "/me"] {
        let answer = rig.ask(own, "GET", path, Value::Null).await;
        assert_eq!(code(&answer), (403, "FORBIDDEN".into()), "{path}");
    }
    let path = format!("/agents/{agent}");
    assert_eq!(rig.ask(acme, "DELETE", &path, Value::Null).await.status, 204);
    until("the agent is gone", async || {
        (list(&format!("/agents/{agent}/mcp")).await == 404).then_some(())
    })
    .await;
    assert_eq!(list("/mcp").await, 404);
}

/// Every operation of the API description, as each caller outside the organisation: items get the
/// response of missing items, and lists do not contain them.
#[tokio::test]
async fn nothing_of_an_organisation_shows_in_another() {
    let rig = Rig::new().await;
    let made = rig.create(&rig.acme, "Heliograph").await;
    let agent = rig.agent(&rig.acme, "Semaphore").await;
    let assigned = format!("/agents/{agent}/mcp-integrations/{}", id(&made));
    assert_eq!(rig.ask(&rig.acme, "POST", &assigned, Value::Null).await.status, 200);
    let document = rig.ask(&rig.other, "GET", "/openapi.json", Value::Null).await.json();
    let mut tried = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let verb = verb(method);
            let own = at(path, &agent, id(&made));
            let nothing = at(path, NO_AGENT, NO_INTEGRATION);
            let body = match verb {
                "PATCH" if path.ends_with("/servers/{server}") => json!({"assigned": true}),
                "PATCH" => json!({"name": "x"}),
                _ => Value::Null,
            };
            for stranger in [&rig.other, &rig.other_user, &rig.user] {
                // A user sees the integrations of the organisation, but not the agents of others.
                if *stranger == rig.user && !path.starts_with("/agents/{id}") {
                    continue;
                }
                let request = |to: &str| {
                    let text = if body.is_null() { String::new() } else { body.to_string() };
                    Request::bare(verb, &format!("/api{to}"), text).by(stranger)
                };
                if path == "/events" {
                    continue;
                }
                let foreign = request(&own).send(rig.gate.address).await;
                for told in
                    ["Heliograph", "heliograph", "Semaphore", &rig.server.address.to_string()]
                {
                    assert!(!foreign.text().contains(told), "{verb} {path}: {}", foreign.text());
                }
                if own != nothing {
                    let none = request(&nothing).send(rig.gate.address).await;
                    assert!(
                        matches!(foreign.status, 403 | 404),
                        "{verb} {path}: {}",
                        foreign.text()
                    );
                    assert_eq!((foreign.status, foreign.text()), (none.status, none.text()));
                }
                tried += 1;
            }
        }
    }
    assert!(tried >= 30 * 2, "{tried}");
    for path in ["/mcp-integrations", "/agents"] {
        let listed = rig.ask(&rig.other, "GET", path, Value::Null).await.json();
        assert_eq!(listed["total"], 0, "{path}: {listed}");
        let named = format!("{path}?organizationId=acme");
        let foreign = rig.ask(&rig.other, "GET", &named, Value::Null).await;
        assert_eq!(code(&foreign), (404, "ORGANIZATION_NOT_FOUND".into()));
        let listed = rig.ask(&rig.operator, "GET", &named, Value::Null).await.json();
        assert_eq!(listed["total"], 1, "operators see all: {path}: {listed}");
    }
    let all = rig.ask(&rig.operator, "GET", "/organisations", Value::Null).await.json();
    assert_eq!((&all["total"], id(&all["items"][0])), (&json!(1), "acme"), "{all}");
    // Names and slugs are unique per organisation only.
    let theirs = rig.create(&rig.other, "Heliograph").await;
    assert_eq!(theirs["slug"], made["slug"]);
}

#[tokio::test]
async fn mistakes_in_a_body_are_named_and_nothing_is_stored() {
    let rig = Rig::new().await;
    for (change, pointer) in [
        (json!({"name": ""}), "#/name"),
        (json!({"serverUrl": "ftp://example.com"}), "#/serverUrl"),
        (json!({"serverUrl": "not an address"}), "#/serverUrl"),
        (json!({"authMethod": "api_key"}), "#/headerName"),
        (json!({"authMethod": "api_key", "headerName": "a\r\nb: c"}), "#/headerName"),
        (json!({"authMethod": "none"}), "#/credentials"),
        (json!({"credentials": "a\r\nb"}), "#/credentials"),
        (json!({"authMethod": "basic"}), "#/authMethod"),
        (json!({"slug": "Not A Slug"}), "#/slug"),
        (json!({"command": "/bin/sh"}), "#/command"),
    ] {
        let mut body = rig.custom("Time");
        for (name, value) in change.as_object().unwrap() {
            body[name] = value.clone();
        }
        let answer = rig.ask(&rig.acme, "POST", "/mcp-integrations/custom", body).await;
        let said = answer.json();
        assert_eq!(
            (answer.status, &said["errors"][0]["pointer"]),
            (400, &json!(pointer)),
            "{said}"
        );
        assert!(!answer.text().contains(SECRET), "{said}");
    }
    let listed = rig.ask(&rig.acme, "GET", "/mcp-integrations", Value::Null).await.json();
    assert_eq!(listed["total"], 0, "{listed}");
}

#[tokio::test]
async fn a_whole_set_is_applied_at_once_and_says_what_it_did() {
    let rig = Rig::new().await;
    let acme = rig.acme.as_str();
    let kept = rig.create(acme, "Kept").await;
    let gone = rig.create(acme, "Gone").await;
    let agent = rig.agent(&rig.user, "Mine").await;
    let assigned = format!("/agents/{agent}/mcp-integrations/{}", id(&gone));
    assert_eq!(rig.ask(&rig.user, "POST", &assigned, Value::Null).await.status, 200);
    let url = format!("http://{}/mcp", rig.server.address);
    let set = json!({"servers": [
        {"slug": "kept", "name": "Kept", "serverUrl": url, "authMethod": "bearer_token"},
        {"name": "New", "serverUrl": url},
    ]});
    let tried = rig.ask(acme, "PUT", "/servers?dryRun=true", set.clone()).await;
    assert_eq!(tried.status, 200, "{}", tried.text());
    let tried = tried.json();
    assert_eq!(tried["dryRun"], true, "{tried}");
    assert_eq!(tried["servers"][0]["affectedAgents"], json!([agent]), "{tried}");
    let listed = rig.ask(acme, "GET", "/servers", Value::Null).await;
    let tag = listed.header("etag").expect("the set has a version").to_owned();
    let put = async |tag: &str, by: &str, body: &Value| {
        let request = Request::bare("PUT", "/api/servers", body.to_string()).by(by);
        request.with("If-Match", tag).send(rig.gate.address).await
    };
    assert_eq!(code(&put("\"7\"", acme, &set).await), (412, "VERSION_MISMATCH".into()));
    let made = put(&tag, acme, &set).await;
    assert_eq!(made.status, 200, "{}", made.text());
    let did = made.json();
    let mut actions = Vec::new();
    for server in did["servers"].as_array().unwrap() {
        actions.push(format!("{} {}", server["slug"], server["action"]).replace('"', ""));
    }
    assert_eq!(actions, ["gone deleted", "kept unchanged", "new created"]);
    assert_eq!(did["warnings"][0]["pointer"], "#/servers/1/serverUrl", "{did}");
    let path = format!("/mcp-integrations/{}", id(&kept));
    let shown = rig.ask(acme, "GET", &path, Value::Null).await.json();
    assert_eq!((&shown["version"], &shown["hasCredentials"]), (&json!(1), &json!(true)));
    assert_eq!(code(&put(&tag, acme, &set).await), (412, "VERSION_MISMATCH".into()), "seen before");
    let tag = made.header("etag").unwrap();
    for (server, status, pointer) in [
        (json!({"name": "X", "serverUrl": url, "authMethod": "api_key"}), 400, "headerName"),
        (json!({"name": "X"}), 400, "serverUrl"),
        (json!({"name": "X", "predefined": "no"}), 404, "slug"),
        (json!({"name": "", "serverUrl": url}), 400, "name"),
        (json!({"name": "New", "serverUrl": url}), 400, "name"),
        (json!({"slug": "x", "name": "X", "serverUrl": url, "a": 1}), 400, "a"),
    ] {
        let set = json!({"servers": [{"name": "new", "serverUrl": url}, server]});
        let refused = put(tag, acme, &set).await;
        let found = refused.json();
        assert_eq!(refused.status, status, "{found}");
        let expected = format!("#/servers/1/{pointer}");
        assert_eq!(found["errors"][0]["pointer"], expected, "{found}");
    }
    let total = rig.ask(acme, "GET", "/mcp-integrations", Value::Null).await.json();
    assert_eq!(total["total"], 2, "mistakes change nothing");
    assert_eq!(put("*", &rig.user, &json!({"servers": []})).await.status, 403);
    let emptied = put(tag, acme, &json!({"servers": []})).await;
    assert_eq!(emptied.status, 200, "{}", emptied.text());
    let total = rig.ask(acme, "GET", "/mcp-integrations", Value::Null).await.json();
    assert_eq!(total["total"], 0, "{total}");
    let trail = until("it is on the record", async || {
        let file = rig.gate.folder.path().join("audit.jsonl");
        let trail = std::fs::read_to_string(file).unwrap_or_default();
        (trail.matches("replace mcp-integrations").count() == 2).then_some(trail)
    })
    .await;
    assert!(!trail.contains(SECRET) && !rig.gate.log().contains(SECRET));
}

#[tokio::test]
async fn a_sample_says_whether_integrations_work() {
    let mut rig = Rig::new().await;
    let acme = rig.acme.clone();
    let none = rig.ask(&acme, "GET", "/health/mcp", Value::Null).await.json();
    assert_eq!(none, json!({"healthy": true}));
    let made = rig.create(&acme, "Time").await;
    let good = rig.ask(&acme, "GET", "/health/mcp", Value::Null).await.json();
    assert_eq!((&good["healthy"], &good["integration"]["id"]), (&json!(true), &made["id"]));
    assert_eq!(rig.ask(&rig.user, "GET", "/health/mcp", Value::Null).await.status, 403);
    let execute = async |rig: &Rig| {
        let body = json!({"arguments": {}});
        rig.ask(&rig.acme, "POST", "/tools/time__t/execute", body).await
    };
    until("it is called", async || (execute(&rig).await.status == 200).then_some(())).await;
    rig.server.stop().await;
    let bad = rig.ask(&acme, "GET", "/health/mcp", Value::Null).await.json();
    assert_eq!((&bad["healthy"], &bad["validation"]["stage"]), (&json!(false), &json!("connect")));
    // A failed call names its integration.
    let failed = execute(&rig).await.json();
    assert_eq!(failed["type"], "connection", "{failed}");
    assert_eq!(
        (&failed["integrationId"], &failed["integrationName"]),
        (&made["id"], &json!("Time"))
    );
}

/// Assigned and available integrations are paged: each item once, in a stable order.
#[tokio::test]
async fn what_an_agent_has_comes_in_pages() {
    let rig = Rig::new().await;
    let agent = rig.agent(&rig.user, "A").await;
    let list = format!("/agents/{agent}/mcp-integrations");
    for number in 0..7 {
        let made = rig.create(&rig.acme, &format!("I{number}")).await;
        if number < 5 {
            let path = format!("{list}/{}", made["id"].as_str().unwrap());
            let assigned = rig.ask(&rig.user, "POST", &path, Value::Null).await;
            assert_eq!(assigned.status, 200, "{}", assigned.text());
        }
    }
    for (path, expected) in [
        (list.clone(), &["I0", "I1", "I2", "I3", "I4"][..]),
        (format!("{list}/available"), &["I5", "I6"][..]),
    ] {
        let mut seen = Vec::new();
        let mut next = format!("{path}?limit=2");
        loop {
            let page = rig.ask(&rig.user, "GET", &next, Value::Null).await;
            assert_eq!(page.status, 200, "{next}: {}", page.text());
            let page = page.json();
            assert_eq!(page["total"], expected.len(), "{page}");
            let items = page["items"].as_array().unwrap();
            assert!((1..=2).contains(&items.len()), "{page}");
            seen.extend(items.iter().map(|item| item["name"].as_str().unwrap().to_owned()));
            let Some(cursor) = page["nextCursor"].as_str() else { break };
            let cursor = cursor.replace('|', "%7C");
            next = format!("{path}?limit=2&cursor={cursor}");
        }
        seen.sort();
        assert_eq!(seen, expected, "{path}");
        let wrong = rig.ask(&rig.user, "GET", &format!("{path}?limit=0"), Value::Null).await;
        assert_eq!(wrong.status, 400, "{}", wrong.text());
        let cursor = rig.ask(&rig.user, "GET", &format!("{path}?cursor=x"), Value::Null).await;
        assert_eq!(cursor.status, 400, "{}", cursor.text());
    }
}

/// Calls per day are stored, and visible to members of the organisation.
#[tokio::test]
async fn calls_are_counted_by_day_and_outlive_the_gateway() {
    let rig = Rig::new().await;
    let made = rig.create(&rig.acme, "Time").await;
    let body = || json!({"arguments": {}});
    until("it is called", async || {
        let called = rig.ask(&rig.acme, "POST", "/tools/time__t/execute", body()).await;
        (called.status == 200).then_some(())
    })
    .await;
    let path = format!("/mcp-integrations/{}/calls", made["id"].as_str().unwrap());
    let counted = until("the call is counted", async || {
        let shown = rig.ask(&rig.user, "GET", &path, Value::Null).await.json();
        (shown["items"][0]["calls"].as_u64() >= Some(1)).then_some(shown)
    })
    .await;
    let today = &counted["items"][0];
    assert_eq!(today["day"].as_str().unwrap().len(), 10, "{counted}");
    assert_eq!(counted["items"].as_array().unwrap().len(), 1, "{counted}");
    let elsewhere = rig.ask(&rig.other, "GET", &path, Value::Null).await;
    assert_eq!(elsewhere.status, 404, "{}", elsewhere.text());
    for days in ["0", "91", "x"] {
        let wrong = rig.ask(&rig.user, "GET", &format!("{path}?days={days}"), Value::Null).await;
        assert_eq!(wrong.status, 400, "{days}: {}", wrong.text());
    }
}

/// Some clients use another name for the key's header field.
#[tokio::test]
async fn the_header_of_a_key_has_two_spellings() {
    let rig = Rig::new().await;
    let url = format!("http://{}/mcp", rig.server.address);
    for spelling in ["headerName", "authHeaderName"] {
        let body = json!({
            "name": spelling, "serverUrl": url, "authMethod": "api_key",
            "credentials": "long-enough", spelling: "x-key",
        });
        let made = rig.ask(&rig.acme, "POST", "/mcp-integrations/custom", body).await;
        assert_eq!((made.status, &made.json()["headerName"]), (201, &json!("x-key")), "{spelling}");
    }
}
