//! Groups of servers as one, and composed endpoints: what clients see, and which tool policies,
//! rates, pins and records refer to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::console::{form, hidden_field};
use crate::rig::client::Request;
use crate::rig::gate::{command, create_key};
use crate::rig::upstream::{legacy, modern, modern_with, tool};
use crate::rig::{Client, Gate, Upstream, Value, json, until};
use crate::trust::{lockgate, text};

fn query(description: &str) -> Value {
    json!({"name": "query", "description": description, "inputSchema": {"type": "object",
        "properties": {"promql": {"type": "string"}}, "required": ["promql"]}})
}

/// Writes a policy file and returns its folder and the setting.
fn policy(rules: Value) -> (tempfile::TempDir, Value) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policies.yaml");
    std::fs::write(&file, json!({"policies": rules}).to_string()).unwrap();
    (folder, json!({"files": [file]}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_tools_of_a_group_are_one() {
    let eu = Upstream::http(modern_with(vec![query("Runs."), tool("flush"), tool("only")])).await;
    let us = Upstream::http(modern_with(vec![query("Runs."), query("x"), tool("flush")])).await;
    let other =
        json!({"name": "flush", "description": "Differs.", "inputSchema": {"type": "object"}});
    let ap = Upstream::http(modern_with(vec![query("Runs."), other])).await;
    let (_folder, policy) = policy(json!([
        {"name": "all", "effect": "allow", "what": {"tools": ["*"]}},
        {"name": "not-ap", "effect": "deny", "what": {"tools": ["ap/query"]}},
        {"name": "seldom", "effect": "deny", "what": {"tools": ["us/query"]},
            "rate": {"per_hour": 2}},
    ]));
    let trail = tempfile::tempdir().unwrap();
    let file = trail.path().join("audit.jsonl");
    let gate = Gate::start(json!({
        "servers": {"eu": eu.config(), "us": us.config(), "ap": ap.config()},
        "groups": {"prometheus": {"servers": ["eu", "us", "ap"], "argument": "cluster"}},
        "policy": policy, "audit": {"file": file},
    }))
    .await;
    for client in Client::both(&gate, "/mcp").await {
        assert_eq!(
            client.tools().await,
            ["ap__flush", "prometheus__query", "eu__flush", "prometheus__only", "us__flush",]
        );
        let listed = client.ask("tools/list", json!({})).await.result();
        let schema = &listed["tools"][1]["inputSchema"];
        assert_eq!(schema["properties"]["cluster"]["enum"], json!(["eu", "us"]), "not ap's");
        assert_eq!(schema["required"], json!(["promql", "cluster"]));
        let (called, is_error) =
            client.text("prometheus__query", json!({"cluster": "us", "promql": "up"})).await;
        assert!(!is_error, "{called}");
        for wrong in [json!({"promql": "up"}), json!({"cluster": "ap"}), json!({"cluster": 1})] {
            let (refused, _) = client.text("prometheus__query", wrong).await;
            assert_eq!(refused, "`cluster` must be one of eu, us");
        }
    }
    let heard = us.heard_of("tools/call");
    assert_eq!(heard.len(), 2);
    for heard in heard {
        assert_eq!(heard.body["params"]["name"], "query");
        assert_eq!(heard.body["params"]["arguments"], json!({"promql": "up"}));
    }
    assert_eq!(eu.count("tools/call") + ap.count("tools/call"), 0);
    let client = Client::Modern(&gate, "/mcp");
    let limited = client.call("prometheus__query", json!({"cluster": "us", "promql": "up"})).await;
    assert_eq!(limited.code(), -31029);
    let free = client.text("prometheus__query", json!({"cluster": "eu", "promql": "up"})).await;
    assert!(!free.1, "rates count by server: {}", free.0);
    let records = until("the call is recorded", async || {
        let records = std::fs::read_to_string(&file).unwrap();
        records.contains("eu__query").then_some(records)
    })
    .await;
    assert!(!records.contains("prometheus__query\""), "{records}");
    let check = text(&lockgate(gate.folder.path(), &["check"]));
    let why = "groups.prometheus: flush stays apart: its definitions of ap and eu differ";
    assert!(check.contains(why), "{check}");
}

#[tokio::test]
async fn groups_are_found_and_called_by_search() {
    let [eu, us] = [0, 1].map(|_| Upstream::http(modern_with(vec![query("Runs a query.")])));
    let (eu, us) = (eu.await, us.await);
    let gate = Gate::start(json!({"servers": {"eu": eu.config(), "us": us.config()},
        "groups": {"prometheus": {"servers": ["eu", "us"], "argument": "cluster"}},
        "tool_search": {"tools": "search"}}))
    .await;
    for client in Client::both(&gate, "/mcp").await {
        let (found, _) = client.text("find_tools", json!({"query": "run a query"})).await;
        assert_eq!(found.lines().count(), 1, "{found}");
        assert!(
            found.starts_with("prometheus__query(promql: string, cluster: \"eu\"|\"us\")"),
            "{found}"
        );
        for (query, server) in [("prometheus", "prometheus"), ("query", "eu"), ("query", "us")] {
            let (by_server, _) =
                client.text("find_tools", json!({"query": query, "server": server})).await;
            assert_eq!(by_server, found, "{server}");
        }
        let names = json!({"names": ["prometheus__query"]});
        let (described, _) = client.text("describe_tools", names).await;
        assert!(described.contains("\"cluster\""), "{described}");
        for call in [
            json!({"name": "prometheus__query", "arguments": {"cluster": "us", "promql": "1"}}),
            json!({"arguments": {"promql": "2", "cluster": "us"}, "name": "prometheus__query"}),
        ] {
            let (called, is_error) = client.text("call_tool", call).await;
            assert!(!is_error, "{called}");
        }
    }
    let heard = us.heard_of("tools/call");
    let arguments = heard.iter().map(|heard| heard.body["params"]["arguments"]["promql"].clone());
    assert_eq!(Vec::from_iter(arguments), ["1", "2", "1", "2"]);
    assert!(heard.iter().all(|heard| heard.body["params"]["name"] == "query"));
    assert_eq!(eu.count("tools/call"), 0);
}

/// Tools are found by the names and descriptions that the endpoint gives them.
#[tokio::test]
async fn renamed_tools_are_found_by_their_new_words() {
    let server = Upstream::http(modern_with(vec![query("Runs a query."), tool("flush")])).await;
    let gate = Gate::start(json!({
        "servers": {"a": server.config()}, "tool_search": {"tools": "search"},
        "endpoints": {"support": {"tools": ["a/*"], "rename": {"a/query": "report_bug"},
            "describe": {"a/query": "Reports a defect to maintainers."}}},
    }))
    .await;
    for client in Client::both(&gate, "/endpoints/support/mcp").await {
        for words in ["report a bug", "defect"] {
            let (found, _) = client.text("find_tools", json!({"query": words})).await;
            assert!(found.starts_with("report_bug(promql: string) – Reports a defect"), "{found}");
        }
        let (old, _) = client.text("find_tools", json!({"query": "runs", "server": "a"})).await;
        assert_eq!(old, "No tool matches. Use other words.");
        let (rest, _) = client.text("find_tools", json!({"query": "flush"})).await;
        assert!(rest.starts_with("a__flush("), "{rest}");
    }
    let (found, _) =
        Client::Modern(&gate, "/mcp").text("find_tools", json!({"query": "runs"})).await;
    assert!(found.starts_with("a__query("), "{found}");
}

/// The lock file has the servers' own tools, so that a changed definition is missed in no group.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pins_of_a_group_are_those_of_its_servers() {
    let has_changed = Arc::new(AtomicBool::new(false));
    let changes = Arc::clone(&has_changed);
    let eu = Upstream::http(modern_with(vec![query("Runs.")])).await;
    let us = Upstream::http(move |heard| {
        let words = if changes.load(Ordering::SeqCst) { "Sends secrets." } else { "Runs." };
        modern_with(vec![query(words)])(heard)
    })
    .await;
    let pins = tempfile::tempdir().unwrap();
    let lock = pins.path().join("lockgate.pins.json");
    let config = |us: Value| {
        json!({"servers": {"eu": eu.config(), "us": us}, "pins": {"file": lock},
            "groups": {"prometheus": {"servers": ["eu", "us"], "argument": "cluster"}}})
    };
    let gate = Gate::start(config(us.config())).await;
    let client = Client::Modern(&gate, "/mcp");
    let servers = async || {
        let listed = client.ask("tools/list", json!({})).await.json();
        let tool = &listed["result"]["tools"][0];
        assert!(tool.is_null() || tool["name"] == "prometheus__query", "{listed}");
        tool["inputSchema"]["properties"]["cluster"]["enum"].clone()
    };
    assert_eq!(servers().await, Value::Null, "nothing is approved");
    let approved = text(&lockgate(gate.folder.path(), &["pins", "approve", "--all"]));
    assert!(approved.contains("eu/query") && approved.contains("us/query"), "{approved}");
    let both = json!(["eu", "us"]);
    until("the group is there", async || (servers().await == both).then_some(())).await;
    let call = async |server: &str| {
        client.text("prometheus__query", json!({"cluster": server, "promql": "up"})).await
    };
    assert!(!call("us").await.1);
    has_changed.store(true, Ordering::SeqCst);
    // Reconnected, so that the lists are refreshed immediately.
    gate.configure(config(us.with(json!({"headers": {"x-new": "1"}}))));
    let one = json!(["eu"]);
    until("the changed member is gone", async || (servers().await == one).then_some(())).await;
    assert_eq!(call("us").await.0, "`cluster` must be one of eu");
    assert_ne!(client.call("us__query", json!({"promql": "up"})).await.code(), 0);
    assert!(!call("eu").await.1);
    assert_eq!((us.count("tools/call"), eu.count("tools/call")), (1, 1));
    let diff = text(&lockgate(gate.folder.path(), &["pins", "diff"]));
    assert!(diff.contains("changed  us/query@") && !diff.contains("prometheus"), "{diff}");
}

#[tokio::test]
async fn a_composed_endpoint_has_chosen_and_renamed_items() {
    let a = Upstream::http(modern_with(vec![query("Runs."), tool("secret"), tool("other")])).await;
    let b = Upstream::http(legacy("2025-11-25", &["query", "t"])).await;
    let (_folder, policy) = policy(json!([
        {"name": "all", "effect": "allow", "what": {"tools": ["*"]}},
        {"name": "no", "effect": "deny", "what": {"tools": ["a/secret"]}},
        {"name": "seldom", "effect": "deny", "what": {"tools": ["a/query"]},
            "rate": {"per_hour": 2}},
    ]));
    let trail = tempfile::tempdir().unwrap();
    let file = trail.path().join("audit.jsonl");
    let gate = Gate::start(json!({
        "servers": {"a": a.config(), "b": b.config()}, "policy": policy,
        "audit": {"file": file},
        "endpoints": {"ops": {
            "tools": ["a/query", "a/secret", "b/t"],
            "rename": {"a/query": "ask_metrics", "a/secret": "harmless", "b/t": "b__t2"},
            "describe": {"a/query": "Answers \"how many\"."},
        }},
    }))
    .await;
    let path = "/endpoints/ops/mcp";
    for client in Client::both(&gate, path).await {
        let listed = client.ask("tools/list", json!({})).await.result();
        assert_eq!(client.tools().await, ["ask_metrics", "b__t2"]);
        assert_eq!(listed["tools"][0]["description"], "Answers \"how many\".");
        for (name, is_there) in [
            ("ask_metrics", true),
            ("b__t2", true),
            ("harmless", false),
            ("a__other", false),
            ("a__secret", false),
        ] {
            let called = client.call(name, json!({"promql": "up"})).await.json();
            let is_ok = called["result"].is_object() && called["result"].get("isError").is_none();
            assert_eq!(is_ok, is_there, "{name}: {called}");
        }
    }
    let heard = a.heard_of("tools/call");
    assert!(heard.iter().all(|heard| heard.body["params"]["name"] == "query"));
    assert_eq!(heard.len(), 2);
    let limited = Client::Modern(&gate, path).call("ask_metrics", json!({"promql": "up"})).await;
    assert_eq!(limited.code(), -31029);
    let records = std::fs::read_to_string(&file).unwrap();
    assert!(records.contains("a__query") && !records.contains("ask_metrics"), "{records}");
    let none = gate.modern("/endpoints/other/mcp", "tools/list", json!({})).await;
    assert_eq!(none.status, 404);
}

#[tokio::test]
async fn a_new_name_is_not_that_of_a_group() {
    let [eu, us] = [0, 1].map(|_| Upstream::http(modern_with(vec![query("Runs.")])));
    let (eu, us) = (eu.await, us.await);
    let ap = Upstream::http(modern_with(vec![tool("other")])).await;
    let gate = Gate::start(json!({
        "servers": {"eu": eu.config(), "us": us.config(), "ap": ap.config()},
        "groups": {"prometheus": {"servers": ["eu", "us"], "argument": "cluster"}},
        "endpoints": {"ops": {"tools": ["*"], "rename": {"ap/other": "prometheus__query"}}},
    }))
    .await;
    for client in Client::both(&gate, "/endpoints/ops/mcp").await {
        assert_eq!(client.tools().await, ["prometheus__query", "eu__query", "us__query"]);
        assert_eq!(client.call("prometheus__query", json!({})).await.code(), 0);
    }
    assert_eq!(ap.count("tools/call"), 2);
    assert_eq!(eu.count("tools/call") + us.count("tools/call"), 0);
}

#[tokio::test]
async fn resources_of_a_composed_endpoint_are_chosen_by_pattern() {
    let plain = modern(&["t"]);
    let server = Upstream::http(move |heard| {
        let page = |member: &str, items: Value| {
            crate::rig::Say::Json(heard.result(json!({"resultType": "complete", "ttlMs": 0,
                "cacheScope": "private", member: items})))
        };
        let uri = &heard.body["params"]["uri"];
        match heard.method() {
            "server/discover" => crate::rig::Say::Json(heard.result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
                "cacheScope": "private", "capabilities": {"tools": {}, "resources": {}}}))),
            "resources/list" => page(
                "resources",
                json!([
                {"uri": "wiki://home", "name": "home"}, {"uri": "db://rows", "name": "rows"}]),
            ),
            "resources/templates/list" => page("resourceTemplates", json!([])),
            "resources/read" => page("contents", json!([{"uri": uri, "text": "…"}])),
            _ => plain(heard),
        }
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": server.config()},
        "endpoints": {"docs": {"resources": ["wiki://*"],
            "describe": {"a/wiki://home": "Start."}}}}))
    .await;
    let path = "/endpoints/docs/mcp";
    for client in Client::both(&gate, path).await {
        let listed = client.ask("resources/list", json!({})).await.result();
        let home = json!({"uri": "a+wiki://home", "name": "home", "description": "Start."});
        assert_eq!(listed["resources"], json!([home]));
        for (uri, code) in [("a+wiki://home", 0), ("a+wiki://unlisted", 0)] {
            let read = client.ask("resources/read", json!({"uri": uri})).await;
            assert_eq!(read.code(), code, "{uri}: {}", read.text());
        }
        assert_ne!(client.ask("resources/read", json!({"uri": "a+db://rows"})).await.code(), 0);
        assert_eq!(client.tools().await, [""; 0]);
    }
}

#[tokio::test]
async fn endpoints_are_found_by_cards_and_as_a_registry() {
    let server = Upstream::http(modern(&["hidden_tool"])).await;
    let public = "https://mcp.example.com/gate";
    let config = |discovery: Value, auth: Value| {
        json!({"servers": {"a": server.config()}, "endpoints": {"ops": {"tools": ["a/*"]}},
            "http": {"public_url": public}, "discovery": discovery, "auth": auth})
    };
    let keys = json!({"keys_file": "keys.yaml"});
    let gate = Gate::start(config(json!({"cards": true, "registry": "members"}), keys)).await;
    let bearer = format!("Bearer {}", create_key(&gate, "ann").await);
    let get = async |path: &str| Request::bare("GET", path, "").send(gate.address).await;
    let card = get("/servers/a/mcp/server-card").await;
    assert_eq!(card.header("content-type"), Some("application/mcp-server-card+json"));
    assert_eq!(card.header("access-control-allow-origin"), Some("*"));
    assert_eq!(card.json()["name"], "com.example.mcp/servers.a");
    assert_eq!(card.json()["remotes"][0]["url"], format!("{public}/servers/a/mcp"));
    let catalog = get("/.well-known/ai-catalog.json").await;
    assert_eq!(catalog.header("content-type"), Some("application/ai-catalog+json"));
    let names: Vec<_> = catalog.json()["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["displayName"].as_str().unwrap().to_owned())
        .collect();
    assert!(names.contains(&"endpoints.ops".to_owned()), "{names:?}");
    for document in [card, catalog] {
        let text = document.text();
        assert!(!text.contains("hidden_tool") && !text.contains("127.0.0.1"), "{text}");
    }
    assert_eq!(get("/servers/none/mcp/server-card").await.status, 404);
    assert_eq!(get("/v0.1/servers").await.status, 401, "members only");
    let page = Request::bare("GET", "/v0.1/servers?search=servers.a&version=latest", "")
        .with("authorization", &bearer)
        .send(gate.address)
        .await
        .json();
    assert_eq!(page["metadata"]["count"], 1);
    let url = format!("{public}/servers/a/mcp");
    assert_eq!(
        page["servers"][0]["server"]["remotes"],
        json!([{"type": "streamable-http", "url": url}])
    );
    let wrong = Request::bare("GET", "/v0.1/servers?limit=0", "")
        .with("authorization", &bearer)
        .send(gate.address)
        .await;
    assert_eq!(wrong.status, 400);
    let off = Gate::start(config(json!({}), json!({}))).await;
    for path in ["/mcp/server-card", "/.well-known/ai-catalog.json", "/v0.1/servers"] {
        assert_eq!(Request::bare("GET", path, "").send(off.address).await.status, 404, "{path}");
    }
}

/// The registry of one gateway is the source of another's configuration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_imported_from_a_registry() {
    let gate = Gate::start(json!({"servers": {}, "auth": {"keys_file": "keys.yaml"},
        "http": {"public_url": "https://mcp.example.com"}, "discovery": {"registry": "public"}}))
    .await;
    let folder = tempfile::tempdir().unwrap();
    let registry = format!("http://{}", gate.address);
    let init_from = |registry: &str, name: &str| {
        let from = ["init", "--from", "registry", name, "--registry", registry];
        text(&command().args(from).current_dir(folder.path()).output().unwrap())
    };
    let init = |name: &str| init_from(&registry, name);
    let away = init_from("http://127.0.0.1:1", "com.example.mcp/mcp");
    assert!(away.contains("the registry at http://127.0.0.1:1 is unreachable"), "{away}");
    let unknown = init("com.example.mcp/none");
    assert!(unknown.contains("com.example.mcp/none") && unknown.contains("not found"), "{unknown}");
    let done = init("com.example.mcp/mcp");
    assert!(done.contains("wrote lockgate.yaml, with mcp"), "{done}");
    let written = std::fs::read_to_string(folder.path().join("lockgate.yaml")).unwrap();
    let source = format!("# From the registry: com.example.mcp/mcp {}", env!("CARGO_PKG_VERSION"));
    assert!(written.contains(&source), "{written}");
    assert!(written.contains("url: https://mcp.example.com/mcp"), "{written}");
}

/// The registry of one gateway is that of another's administrators.
#[tokio::test]
async fn an_administrator_imports_a_server_from_the_registry() {
    let source = Gate::start(json!({"servers": {}, "auth": {"keys_file": "keys.yaml"},
        "http": {"public_url": "https://mcp.example.com"}, "discovery": {"registry": "public"}}))
    .await;
    let registry = format!("http://{}", source.address);
    let gate = Gate::start(json!({"servers": {}, "admin": {"import_registry": registry}})).await;
    let (name, version) = ("com.example.mcp/mcp", env!("CARGO_PKG_VERSION"));
    let path = "/api/mcp-integrations/registry";
    let get = async |path: &str| Request::bare("GET", path, "").send(gate.address).await;
    let found = get(&format!("{path}?server=com.example.mcp%2Fmcp")).await.json();
    let url = "https://mcp.example.com/mcp";
    assert_eq!((&found["version"], &found["url"]), (&json!(version), &json!(url)), "{found}");
    assert_eq!(found["inputs"], json!([]));
    for wrong in ["com.example.mcp%2Fnone", "..", "%0A"] {
        let unknown = get(&format!("{path}?server={wrong}")).await;
        assert_eq!(unknown.status, 404, "{wrong}: {}", unknown.text());
    }
    let post =
        async |body: Value| Request::bare("POST", path, body.to_string()).send(gate.address).await;
    let latest = post(json!({"server": name, "version": "latest"})).await;
    assert_eq!((latest.status, latest.code()), (400, 0), "a name of a version is not pinned");
    let wrong = post(json!({"server": name, "version": version, "inputs": {"x": "y"}})).await;
    assert_eq!(wrong.json()["errors"][0]["pointer"], "#/inputs/x", "{}", wrong.text());
    let old = "https://old.example.com/mcp";
    let changed = post(json!({"server": name, "version": version, "url": old})).await;
    assert_eq!(changed.json()["errors"][0]["pointer"], "#/url", "{}", changed.text());
    let command = post(json!({"server": name, "version": version, "command": "sh"})).await;
    assert_eq!(command.status, 400);
    let shown = json!({"server": name, "version": version, "name": "Other", "url": url});
    let added = post(shown).await;
    assert_eq!(added.status, 201, "{}", added.text());
    let added = added.json();
    assert_eq!(added["source"], format!("{name}@{version}"));
    assert_eq!(added["serverUrl"], url);
    let page = get("/console/registry?server=com.example.mcp%2Fmcp").await;
    assert!(page.text().contains("name=\"name\" value=\"mcp\""), "{}", page.text());
    assert_eq!(hidden_field(&page, "url"), url);
    let form_of_name = get("/console/integrations/new").await.text();
    assert!(form_of_name.contains("From the registry"), "{form_of_name}");
    let at = "/console/registry?server=com.example.mcp%2Fmcp&version=".to_owned() + version;
    let (token, number) = (hidden_field(&page, "token"), hidden_field(&page, "page"));
    let fields = [("token", &*token), ("page", &number), ("name", "Third"), ("action", "force")];
    let added = form(gate.address, &at, &fields).send(gate.address).await;
    assert_eq!(added.status, 303, "{}", added.text());
    let all = get("/api/mcp-integrations").await.json();
    assert_eq!(all["total"], 2, "{all}");
    drop(source);
    let failed = get(&format!("{path}?server=com.example.mcp%2Fmcp")).await;
    assert_eq!((failed.status, &failed.json()["code"]), (502, &json!("REGISTRY_FAILED")));
    assert!(!failed.text().contains("127.0.0.1"), "{}", failed.text());
    let none = Gate::start(json!({"servers": {}})).await;
    let off = Request::bare("GET", &format!("{path}?server=a"), "").send(none.address).await;
    assert_eq!((off.status, &off.json()["code"]), (404, &json!("NO_REGISTRY")));
}
