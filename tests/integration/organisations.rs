//! Organisations as managed by operators: created explicitly, deleted when empty, and addressed
//! with `organizationId`.

use crate::principals::{By, key};
use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Upstream, Value, json, until};

/// A gateway with an organisation's server beside its own.
struct Rig {
    gate: Gate,
    server: Upstream,
    operator: String,
}

impl Rig {
    async fn new() -> Self {
        let server = Upstream::http(modern(&["t"])).await;
        let gate = Gate::start(json!({"auth": {"keys_file": "keys.yaml"}})).await;
        let operator = key(&gate, "operator", &["--role", "operator"]).await;
        Self { gate, server, operator }
    }

    async fn ask(&self, by: &str, method: &'static str, path: &str, body: Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::bare(method, &format!("/api{path}"), body);
        request.by(by).send(self.gate.address).await
    }

    async fn run(&self, method: &'static str, path: &str, body: Value) -> Answer {
        self.ask(&self.operator, method, path, body).await
    }

    fn docs(&self) -> Value {
        json!({"name": "Docs", "serverUrl": format!("http://{}/mcp", self.server.address)})
    }
}

fn code(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn an_organisation_is_created_by_name_and_deleted_when_it_is_empty() {
    let rig = Rig::new().await;
    let not_found = (404, "ORGANIZATION_NOT_FOUND".to_owned());
    let custom = "/mcp-integrations/custom?organizationId=acme";
    for path in [custom, "/agents?organizationId=acme"] {
        let typo = rig.run("POST", path, rig.docs()).await;
        assert_eq!(code(&typo), not_found, "{path}");
    }
    let new = json!({"id": "acme"});
    let tried = rig.run("POST", "/organisations?dryRun=true", new.clone()).await;
    assert_eq!((tried.status, &tried.json()["dryRun"]), (200, &json!(true)), "{}", tried.text());
    assert_eq!(rig.run("GET", "/organisations", Value::Null).await.json()["total"], 0);
    let created = rig.run("POST", "/organisations", new.clone()).await;
    assert_eq!((created.status, &created.json()["id"]), (201, &json!("acme")));
    let again = rig.run("POST", "/organisations", new).await;
    assert_eq!(code(&again), (409, "ORGANIZATION_ALREADY_EXISTS".to_owned()));
    let made = rig.run("POST", custom, rig.docs()).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let full = rig.run("DELETE", "/organisations/acme", Value::Null).await;
    assert_eq!(code(&full), (409, "ORGANIZATION_NOT_EMPTY".to_owned()));
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/mcp-integrations/{id}?organizationId=acme");
    assert_eq!(rig.run("DELETE", &path, Value::Null).await.status, 204);
    let member = rig.run("POST", "/keys", json!({"name": "m", "organizationId": "acme"})).await;
    assert_eq!(member.status, 201, "{}", member.text());
    let kept = rig.run("DELETE", "/organisations/acme", Value::Null).await;
    assert_eq!(code(&kept), (409, "ORGANIZATION_NOT_EMPTY".to_owned()), "a key names it");
    let path = format!("/keys/{}", member.json()["id"].as_str().unwrap());
    assert_eq!(rig.run("DELETE", &path, Value::Null).await.status, 204);
    assert_eq!(rig.run("DELETE", "/organisations/acme", Value::Null).await.status, 204);
    assert_eq!(code(&rig.run("POST", custom, rig.docs()).await), not_found);
    let gone = rig.run("DELETE", "/organisations/acme", Value::Null).await;
    assert_eq!(code(&gone), not_found);
    assert_eq!(rig.run("GET", "/organisations", Value::Null).await.json()["total"], 0);
}

#[tokio::test]
async fn names_that_look_alike_are_no_organisations() {
    let rig = Rig::new().await;
    let long = "x".repeat(257);
    for name in ["", " acme", "acme ", "a  b", "acme\0", "a\u{a0}b", "a\u{200b}", "a/b", &long] {
        let refused = rig.run("POST", "/organisations", json!({"id": name})).await;
        assert_eq!(code(&refused), (400, "INVALID_FIELD".to_owned()), "{name:?}");
        let body = json!({"name": "x", "organizationId": name});
        assert_eq!(rig.run("POST", "/keys", body).await.status, 400, "{name:?}");
    }
    for path in ["/mcp-integrations?organizationId=a%00", "/servers?organizationId=a%00"] {
        let refused = rig.run("GET", path, Value::Null).await;
        assert_eq!(code(&refused), (404, "ORGANIZATION_NOT_FOUND".to_owned()), "{path}");
    }
}

/// A member's first change creates the organisation of its credential.
#[tokio::test]
async fn operators_address_servers_tools_and_keys_of_every_organisation() {
    let rig = Rig::new().await;
    let member = key(&rig.gate, "member", &["--role", "admin", "--organisation", "acme"]).await;
    let stranger = key(&rig.gate, "stranger", &["--role", "admin", "--organisation", "b"]).await;
    let made = rig.ask(&member, "POST", "/mcp-integrations/custom", rig.docs()).await;
    assert_eq!(made.status, 201, "{}", made.text());
    until("its tool is listed", async || {
        let tools = rig.run("GET", "/tools?organizationId=acme", Value::Null).await;
        tools.text().contains("\"docs__t\"").then_some(())
    })
    .await;
    for (method, path) in [
        ("GET", "/servers/docs"),
        ("POST", "/servers/docs/reconnect"),
        ("GET", "/tools/docs__t"),
        ("POST", "/tools/docs__t/execute"),
        ("POST", "/tools/docs__t/metrics/reset"),
        ("POST", "/servers/docs/disconnect"),
        ("POST", "/servers/docs/connect"),
    ] {
        let own = rig.run(method, path, Value::Null).await;
        assert_eq!(own.status, 404, "{path}: {}", own.text());
        let named = format!("{path}?organizationId=acme");
        let foreign = rig.ask(&stranger, method, &named, Value::Null).await;
        assert_eq!(code(&foreign), (404, "ORGANIZATION_NOT_FOUND".to_owned()), "{path}");
        let answer = rig.run(method, &named, Value::Null).await;
        assert_eq!(answer.status, 200, "{named}: {}", answer.text());
    }
    let figures = rig.run("GET", "/figures?organizationId=acme", Value::Null).await.json();
    assert!(figures["servers"].as_u64() >= Some(1), "{figures}");
    let keys = rig.run("GET", "/keys?organizationId=acme", Value::Null).await.json();
    assert_eq!((&keys["total"], &keys["items"][0]["name"]), (&json!(1), &json!("member")));
    assert_eq!(rig.run("GET", "/keys", Value::Null).await.json()["total"], 3);
    let twice = rig.run("GET", "/keys?organizationId=acme&organizationId=b", Value::Null).await;
    assert_eq!(code(&twice), (400, "INVALID_QUERY".to_owned()));
}
