//! Items of agents: chosen, renamed and described by their owners, over the API, the console and
//! the command line, and never more than policy and the assignments permit.

use crate::commands::{read, run};
use crate::console::{form, hidden_field};
use crate::principals::{By, key};
use crate::rig::client::Request;
use crate::rig::upstream::{legacy, modern, modern_with, tool};
use crate::rig::{Answer, Client, Gate, Upstream, Value, json, until};

async fn send(gate: &Gate, verb: &'static str, path: &str, body: Value, by: &str) -> Answer {
    let request = Request::bare(verb, &format!("/api{path}"), body.to_string());
    request.by(by).send(gate.address).await
}

/// Creates an agent with these servers of the operator; returns its id.
async fn create(gate: &Gate, by: &str, servers: &[&str]) -> String {
    let made = send(gate, "POST", "/agents", json!({"name": "Desk"}), by).await.json();
    assert_eq!(made["items"], Value::Null, "{made}");
    let id = made["id"].as_str().unwrap().to_owned();
    for server in servers {
        let path = format!("/agents/{id}/servers/{server}");
        let assigned = send(gate, "PATCH", &path, json!({"assigned": true}), by).await;
        assert_eq!(assigned.status, 200, "{}", assigned.text());
    }
    id
}

async fn choose(gate: &Gate, by: &str, id: &str, items: Value) -> Answer {
    send(gate, "PATCH", &format!("/agents/{id}"), json!({"items": items}), by).await
}

/// Starts a gateway with these rules and keys.
async fn start(rules: Value, servers: Value) -> (Gate, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policies.yaml");
    std::fs::write(&file, json!({"policies": rules}).to_string()).unwrap();
    let gate = Gate::start(json!({
        "servers": servers, "policy": {"files": [file]}, "auth": {"keys_file": "keys.yaml"},
        "audit": {"output": "file", "file": "audit.jsonl"},
    }))
    .await;
    (gate, folder)
}

#[tokio::test]
async fn an_agent_has_chosen_and_renamed_items() {
    let tools = vec![tool("query"), tool("other"), tool("off")];
    let a = Upstream::http(modern_with(tools)).await;
    let b = Upstream::http(legacy("2025-11-25", &["query", "t"])).await;
    let gate = Gate::start(json!({"servers": {"a": a.config(), "b": b.config()},
        "audit": {"output": "file", "file": "audit.jsonl"}}))
    .await;
    let id = create(&gate, "", &["a", "b"]).await;
    let items = json!({"tools": ["a/query", "a/off", "b/t"], "prompts": [], "resources": [],
        "rename": {"a/query": "ask_metrics"}, "describe": {"a/query": "Answers \"how many\"."}});
    let set = choose(&gate, "", &id, items.clone()).await.json();
    assert_eq!((&set["items"], &set["version"]), (&items, &json!(2)), "{set}");
    let off = json!({"tools": {"off": false}});
    send(&gate, "PATCH", &format!("/agents/{id}/servers/a"), off, "").await;
    let path = format!("/agents/{id}/mcp");
    for client in Client::both(&gate, &path).await {
        let listed = client.ask("tools/list", json!({})).await.result();
        assert_eq!(client.tools().await, ["ask_metrics", "b__t"]);
        assert_eq!(listed["tools"][0]["description"], "Answers \"how many\".");
        assert_eq!(client.call("ask_metrics", json!({})).await.code(), 0);
        for name in ["a__other", "a__off", "b__query", "a__query_"] {
            assert_ne!(client.call(name, json!({})).await.code(), 0, "{name}");
        }
    }
    let heard = a.heard_of("tools/call");
    assert!(heard.len() == 2 && heard.iter().all(|one| one.body["params"]["name"] == "query"));
    let records = until("the calls of both clients are recorded", async || {
        let records = std::fs::read_to_string(gate.folder.path().join("audit.jsonl")).unwrap();
        (records.matches("a__query_").count() >= 2).then_some(records)
    })
    .await;
    assert!(records.contains("\"a__query\"") && !records.contains("\"name\":\"ask_metrics\""));
    assert!(records.contains("Answers"), "the change is recorded: {records}");
    let searched = json!({"tools": "search"});
    send(&gate, "PATCH", &format!("/agents/{id}"), searched, "").await;
    let client = Client::Modern(&gate, &path);
    let (found, _) = client.text("find_tools", json!({"query": "metrics query"})).await;
    assert!(found.starts_with("ask_metrics("), "{found}");
    let wrapped = json!({"name": "ask_metrics", "arguments": {}});
    assert_eq!(client.call("call_tool", wrapped).await.code(), 0);
    choose(&gate, "", &id, Value::Null).await;
    let all = read(&gate, &["agents", "items", "Desk"]).await;
    assert_eq!(all["items"], Value::Null);
    let shown = run(&gate, &["agents", "items", "Desk"], "").await;
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.trim_end().ends_with(" all"), "{shown}");
    send(&gate, "PATCH", &format!("/agents/{id}"), json!({"tools": "full"}), "").await;
    assert_eq!(client.tools().await, ["a__query", "a__other", "b__query", "b__t"]);
    assert_eq!(gate.tools("/mcp").await.0.len(), 5, "only for this agent");
}

#[tokio::test]
async fn items_are_set_from_a_terminal_and_in_the_console() {
    let a = Upstream::http(modern(&["t", "u"])).await;
    let gate = Gate::start(json!({"servers": {"a": a.config()}})).await;
    let id = create(&gate, "", &["a"]).await;
    let path = format!("/agents/{id}/mcp");
    let set = run(&gate, &["agents", "items", "Desk", "-"], r#"{"tools":["a/u"]}"#).await;
    assert!(set.status.success(), "{set:?}");
    assert_eq!(gate.tools(&path).await.0, ["a__u"]);
    let shown = run(&gate, &["agents", "items", "Desk"], "").await;
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains(r#"{"tools":["a/u"],"#), "{shown}");
    let wrong = run(&gate, &["agents", "items", "Desk", "-"], r#"{"tolls":["a/u"]}"#).await;
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("unknown field `tolls`"), "{wrong:?}");
    let page = format!("/console/agents/{id}/items");
    let open = async || Request::bare("GET", &page, "").send(gate.address).await;
    let shown = open().await;
    assert!(shown.text().contains(">a/u</textarea>"), "{}", shown.text());
    let post = async |more: &[(&str, &str)]| {
        let shown = open().await;
        let fields = ["token", "page", "version"].map(|name| (name, hidden_field(&shown, name)));
        let mut fields: Vec<_> = fields.iter().map(|(name, value)| (*name, &**value)).collect();
        fields.extend(more);
        form(gate.address, &page, &fields).send(gate.address).await
    };
    let chosen = [("tools", "a/t%0D%0Aa/u%0D%0A"), ("rename", "a/t+%3D+first")];
    assert_eq!(post(&chosen).await.status, 303);
    assert_eq!(gate.tools(&path).await.0, ["first", "a__u"]);
    let taken = post(&[("tools", "*"), ("rename", "a/t+%3D+A__u")]).await;
    assert_eq!(taken.status, 422);
    let text = taken.text();
    assert!(text.contains("id=\"rename-mistake\"") && text.contains("a/t = A__u"), "{text}");
    let formless = post(&[("tools", "*"), ("rename", "a/t+is+first")]).await;
    assert_eq!(formless.status, 422);
    assert!(formless.text().contains("must have the form `name = text`"), "{}", formless.text());
    assert_eq!(gate.tools(&path).await.0, ["first", "a__u"], "nothing was changed");
    assert_eq!(post(&[("action", "all")]).await.status, 303);
    assert_eq!(gate.tools(&path).await.0, ["a__t", "a__u"]);
    assert!(open().await.text().contains(">*</textarea>"));
}

#[tokio::test]
async fn names_of_groups_and_too_many_patterns_are_refused() {
    let [eu, us, ap] = [0, 1, 2].map(|_| Upstream::http(modern(&["query"])));
    let (eu, us, ap) = (eu.await, us.await, ap.await);
    let gate = Gate::start(json!({
        "servers": {"eu": eu.config(), "us": us.config(), "ap": ap.config()},
        "groups": {"prometheus": {"servers": ["eu", "us"], "argument": "cluster"}},
    }))
    .await;
    let id = create(&gate, "", &["eu", "us", "ap"]).await;
    let many = vec!["ap/*"; 101];
    for (items, pointer, words) in [
        (json!({"rename": {"ap/query": "Prometheus__query"}}), "#/items/rename/ap~1query", "name"),
        (json!({"tools": many}), "#/items/tools", "100 patterns"),
        (json!({"resources": ["?".repeat(101)]}), "#/items/resources", "100 wildcards"),
    ] {
        let refused = choose(&gate, "", &id, items).await;
        assert_eq!(refused.status, 400);
        assert_eq!(refused.json()["errors"][0]["pointer"], pointer, "{}", refused.text());
        assert!(refused.text().contains(words), "{}", refused.text());
    }
    let most = json!({"tools": vec!["ap/*"; 100]});
    assert_eq!(choose(&gate, "", &id, most).await.status, 200);
}

/// No pattern or name opens what policy, the assignments or the switches of tools hide.
#[tokio::test]
async fn items_open_nothing_that_is_hidden() {
    let a = Upstream::http(modern(&["query", "secret"])).await;
    let b = Upstream::http(modern(&["t"])).await;
    let rules = json!([
        {"name": "all", "effect": "allow", "what": {"tools": ["*"], "resources": ["*"]}},
        {"name": "no", "effect": "deny", "who": {"organisations": ["acme"]},
            "what": {"tools": ["a/secret"]}},
    ]);
    let (gate, _folder) = start(rules, json!({"a": a.config(), "b": b.config()})).await;
    let admin = key(&gate, "admin", &["--organisation", "acme", "--role", "admin"]).await;
    let user = key(&gate, "user", &["--organisation", "acme"]).await;
    let other = key(&gate, "other", &["--organisation", "globex", "--role", "admin"]).await;
    let id = create(&gate, &admin, &["a"]).await;
    let items = json!({"tools": ["*", "*/*", "a/secret", "a__secret", "b/t"], "resources": ["*"],
        "rename": {"a/secret": "harmless", "b/t": "stolen"},
        "describe": {"a/secret": "Harmless.", "b/t": "Stolen."}});
    assert_eq!(choose(&gate, &admin, &id, items.clone()).await.status, 200);
    let path = format!("/agents/{id}/mcp");
    let ask = async |method: &str, params: Value| {
        Request::modern(&path, method, params).by(&admin).send(gate.address).await
    };
    let listed = ask("tools/list", json!({})).await.result();
    let names: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
    assert_eq!(names, ["a__query"]);
    let call = async |name: &str| {
        let answer = ask("tools/call", json!({"name": name, "arguments": {}})).await;
        (answer.status, answer.text().replace(name, "NAME"))
    };
    let absent = call("a__absent").await;
    for name in ["harmless", "stolen", "a__secret", "b__t", "a/secret"] {
        assert_eq!(call(name).await, absent, "{name}");
    }
    assert_eq!(a.count("tools/call") + b.count("tools/call"), 0);
    for by in [&user, &other] {
        let refused = choose(&gate, by, &id, items.clone()).await;
        assert_eq!(
            (refused.status, refused.json()["code"].as_str()),
            (404, Some("AGENT_NOT_FOUND"))
        );
    }
}

#[tokio::test]
async fn a_new_name_shadows_nothing() {
    let a = Upstream::http(modern(&["query", "other"])).await;
    let late = Upstream::http(modern(&["new"])).await;
    let gate = Gate::start(json!({"servers": {"a": a.config()}})).await;
    let id = create(&gate, "", &["a"]).await;
    let many = |count: usize| -> Value { (0..count).map(|at| format!("a/{at:060}")).collect() };
    for (items, pointer, words) in [
        (json!({"rename": {"a/query": "A__Other"}}), "/rename/a~1query", "another item"),
        (json!({"rename": {"a/query": "x", "a/other": "X"}}), "/rename/a~1query", "another item"),
        (json!({"rename": {"a/query": "call_tool"}}), "/rename/a~1query", "gateway"),
        (json!({"rename": {"a/query": "a b"}}), "/rename/a~1query", "1 to 64 letters"),
        (json!({"rename": {"query": "ask"}}), "/rename/query", "server/name"),
        (json!({"describe": {"a/query": "x\u{200b}"}}), "/describe/a~1query", "invisible"),
        (json!({"describe": {"a/query": "x".repeat(4097)}}), "/describe/a~1query", "4096"),
        (json!({"tools": ["["]}), "/tools", "valid pattern"),
        (json!({"tools": many(101)}), "/tools", "100"),
        (json!({"tools": many(100), "prompts": many(100), "resources": many(100)}), "", "16384"),
        (json!({"tool": []}), "/tool", "unknown field"),
        (json!("x"), "", "invalid type"),
    ] {
        let refused = choose(&gate, "", &id, items.clone()).await;
        let error = &refused.json()["errors"][0];
        assert_eq!(error["pointer"], format!("#/items{pointer}"), "{items}: {}", refused.text());
        assert!(error["detail"].as_str().unwrap().contains(words), "{error}");
        assert_eq!(refused.status, 400);
    }
    let own = json!({"tools": ["*"], "rename": {"a/query": "b__new"}});
    assert_eq!(choose(&gate, "", &id, own).await.status, 200);
    let path = format!("/agents/{id}/mcp");
    assert_eq!(gate.tools(&path).await.0, ["b__new", "a__other"]);
    let url = format!("http://{}/mcp", late.address);
    let new = json!({"name": "b", "serverUrl": url, "authMethod": "none"});
    let added = send(&gate, "POST", "/mcp-integrations/custom", new, "").await;
    assert_eq!(added.status, 201, "{}", added.text());
    send(&gate, "PATCH", &format!("/agents/{id}/servers/b"), json!({"assigned": true}), "").await;
    let tools = until("the new server is listed", async || {
        let tools = gate.tools(&path).await.0;
        (tools.len() == 3).then_some(tools)
    })
    .await;
    assert_eq!(tools, ["a__query", "a__other", "b__new"], "the own name of a tool wins");
    let called = gate.modern(&path, "tools/call", json!({"name": "b__new", "arguments": {}})).await;
    assert_eq!(called.code(), 0);
    assert_eq!((a.count("tools/call"), late.count("tools/call")), (0, 1));
}
