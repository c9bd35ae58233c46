//! Usage: gateways of one store show the same figures, which outlive them, and each organisation
//! sees those of its own callers. The first counted call creates the database.

use crate::principals::{By, key};
use crate::replicas::postgres::Postgres;
use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Upstream, Value, json, until};

async fn ask(gate: &Gate, by: &str, path: &str) -> Answer {
    Request::bare("GET", path, String::new()).by(by).send(gate.address).await
}

async fn call(gate: &Gate, by: &str, tool: &str) -> u16 {
    let path = format!("/api/tools/{tool}/execute");
    let body = json!({"arguments": {}}).to_string();
    Request::bare("POST", &path, body).by(by).send(gate.address).await.status
}

/// Returns the usage once it has this number of calls.
async fn await_calls(gate: &Gate, by: &str, query: &str, calls: u64) -> Value {
    until(&format!("{calls} calls at {query}"), async || {
        let shown = ask(gate, by, &format!("/api/usage?{query}")).await;
        assert_eq!(shown.status, 200, "{}", shown.text());
        let shown = shown.json();
        (shown["total"]["calls"].as_u64() == Some(calls)).then_some(shown)
    })
    .await
}

#[tokio::test]
async fn figures_of_two_gateways_are_added_and_outlive_both() {
    let Some(database) = Postgres::start() else { return };
    let settings = |keys: &str| {
        json!({
            "auth": {"keys_file": keys},
            "egress": {"organisations": "local"},
            "store": {"url": database.url(), "keys": ["a-key-of-the-ring-that-is-long-enough"]},
        })
    };
    let one = Gate::start(settings("keys.yaml")).await;
    let acme = key(&one, "acme-admin", &["--role", "admin", "--organisation", "acme"]).await;
    let user = key(&one, "user", &["--organisation", "acme"]).await;
    let other = key(&one, "other", &["--role", "admin", "--organisation", "other"]).await;
    let operator = key(&one, "operator", &["--role", "operator"]).await;
    let keys = one.folder.path().join("keys.yaml").display().to_string();
    let two = Gate::start(settings(&keys)).await;
    let server = Upstream::http(modern(&["t"])).await;
    let url = format!("http://{}/mcp", server.address);
    let body = json!({"name": "Time", "serverUrl": url, "authMethod": "none"}).to_string();
    let made = Request::bare("POST", "/api/mcp-integrations/custom", body).by(&acme);
    assert_eq!(made.send(one.address).await.status, 201);
    for gate in [&one, &two] {
        until("the tool is there", async || {
            (call(gate, &user, "time__t").await == 200).then_some(())
        })
        .await;
    }
    assert_eq!(call(&two, &acme, "time__t").await, 200);
    drop(server);
    assert_ne!(call(&one, &user, "time__t").await, 200);
    let shown = await_calls(&one, &acme, "window=1h&by=caller", 4).await;
    assert_eq!(await_calls(&two, &acme, "window=1h&by=caller", 4).await["items"], shown["items"]);
    assert_eq!(shown["total"]["failed"], 1, "{shown}");
    assert!(shown["total"]["p95Ms"].as_f64() >= shown["total"]["p50Ms"].as_f64(), "{shown}");
    let callers = &shown["items"];
    assert_eq!(callers[0]["name"], "user", "{shown}");
    assert_eq!((&callers[0]["calls"], &callers[1]["name"]), (&json!(3), &json!("acme-admin")));
    assert!(shown.get("since").is_none() && shown["writtenAt"].is_string(), "{shown}");
    assert_eq!(shown["steps"].as_array().unwrap().len(), 12, "{shown}");

    let tools = await_calls(&two, &acme, "window=7d&by=tool&server=time", 4).await;
    assert_eq!(tools["items"][0]["server"], "acme/time", "{tools}");
    assert_eq!(tools["items"][0]["tool"], "t", "{tools}");
    assert_eq!(tools["servers"][0]["hours"].as_array().unwrap().len(), 24, "{tools}");
    await_calls(&one, &other, "", 0).await;
    await_calls(&one, &operator, "", 4).await;
    await_calls(&one, &operator, "organizationId=other", 0).await;
    let refused = ask(&one, &user, "/api/usage").await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let refused = ask(&one, &user, "/trpc/mcp.usage").await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let trpc = ask(&one, &acme, "/trpc/mcp.usage?input=%7B%22window%22%3A%221h%22%7D").await;
    assert_eq!(trpc.json()["result"]["data"]["total"]["calls"], 4, "{}", trpc.text());
    for wrong in ["window=2h", "by=key", "principal=ann", "unknown=x"] {
        let wrong = ask(&one, &acme, &format!("/api/usage?{wrong}")).await;
        assert_eq!(wrong.status, 400, "{}", wrong.text());
    }
    let page = ask(&one, &acme, "/console/usage?by=caller").await;
    assert_eq!(page.status, 200, "{}", page.text());
    assert!(page.text().contains("acme-admin"), "{}", page.text());
    drop(two);
    let three = Gate::start(settings(&keys)).await;
    await_calls(&three, &acme, "window=24h", 4).await;
}

const RULES: &str = "policies:
  - { name: some, effect: allow, what: { tools: [a/*] } }
  - { name: no-wipe, effect: deny, what: { tools: [a/wipe] } }
  - { name: trial, effect: deny, dry_run: true, what: { tools: [a/free] } }
";

#[tokio::test]
async fn the_first_call_creates_the_database_and_denials_are_counted_by_rule() {
    let a = Upstream::http(modern(&["wipe", "free"])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    std::fs::write(&file, RULES).unwrap();
    let gate =
        Gate::start(json!({"servers": {"a": a.config()}, "policy": {"files": [file]}})).await;
    assert_eq!(gate.call("a__wipe").await.code(), -32602);
    assert_eq!(gate.call("a__free").await.code(), 0);
    let shown = until("the call is counted", async || {
        let path = "/api/usage?window=1h";
        let shown = Request::bare("GET", path, "").send(gate.address).await.json();
        (shown["total"]["calls"] == 1).then_some(shown)
    })
    .await;
    assert!(shown.get("since").is_none() && shown["writtenAt"].is_string(), "{shown}");
    assert!(gate.folder.path().join(".lockgate/lockgate.db").exists());
    assert_eq!(shown["items"][0]["server"], "a", "{shown}");
    let mut denials = shown["denials"].as_array().unwrap().clone();
    denials.sort_by_key(|denial| denial["rule"].to_string());
    assert_eq!(
        denials,
        [
            json!({"rule": "no-wipe", "reason": "hidden", "count": 1}),
            json!({"rule": "trial", "reason": "dry_run", "count": 1}),
        ]
    );
    assert_eq!(shown["servers"][0]["hours"][23]["state"], "ok", "{shown}");
}
