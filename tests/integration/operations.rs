//! REST operations on servers and tools: permissions, call statistics, and the duration of a
//! disconnect.

use crate::principals::{By, key};
use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, HeardMessage, Say, Upstream, Value, json, until};

fn get(path: &str) -> Request {
    Request::bare("GET", path, "")
}

fn post(path: &str) -> Request {
    Request::bare("POST", path, "")
}

fn code(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["code"].as_str().unwrap_or_default().to_owned())
}

/// Returns a server with tools that fail in every way.
fn odd() -> impl Fn(&HeardMessage) -> Say + Send + Sync + 'static {
    let usual = modern(&["good", "slow", "broken", "bad", "picky"]);
    move |heard| {
        let id = heard.body["id"].clone();
        let error = |code: i64| {
            Say::Json(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}}))
        };
        match (heard.method(), heard.body["params"]["name"].as_str()) {
            ("tools/call", Some("slow")) => Say::Nothing,
            ("tools/call", Some("broken")) => Say::Close,
            ("tools/call", Some("bad")) => Say::Json(json!({"jsonrpc": "2.0", "id": id, "result":
                {"resultType": "complete", "content": [], "isError": true}})),
            ("tools/call", Some("picky")) => error(-32602),
            _ => usual(heard),
        }
    }
}

async fn state_of(gate: &Gate, name: &str) -> Value {
    get(&format!("/api/servers/{name}")).send(gate.address).await.json()["state"].clone()
}

/// Returns the names on all pages of a list.
async fn names(gate: &Gate, path: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = get(&format!("{path}{cursor}")).send(gate.address).await.json();
        let items = page["items"].as_array().unwrap_or_else(|| panic!("{page}"));
        names.extend(items.iter().map(|item| item["name"].as_str().unwrap().to_owned()));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={}", next.replace('|', "%7C")),
            None => return names,
        }
    }
}

#[tokio::test]
async fn calls_are_counted_by_server_and_tool_with_where_they_failed() {
    let server = Upstream::http(odd()).await;
    let config = server.with(json!({"tool_timeouts": {"slow": 1}, "breaker": {"failures": 50}}));
    let gate = Gate::start(json!({"servers": {"a": config}})).await;
    let at = gate.address;
    for tool in ["good", "good", "slow", "broken", "bad", "picky"] {
        gate.call(&format!("a__{tool}")).await;
    }
    let a = get("/api/servers/a").send(at).await.json();
    let metrics = &a["metrics"];
    assert_eq!(metrics["calls"], 6, "{a}");
    let errors = json!({"connection": 1, "authentication": 0, "timeout": 1, "execution": 1,
        "validation": 1});
    assert_eq!(metrics["errors"], errors, "{a}");
    assert!(metrics["p50Ms"].as_f64() <= metrics["p95Ms"].as_f64(), "{a}");
    assert!(metrics["p95Ms"].as_f64().is_some_and(|ms| ms >= 900.0), "{a}");
    assert!(a["lastGood"].as_str().is_some_and(|time| time.ends_with('Z')), "{a}");
    let shown = async |tool: &str| get(&format!("/api/tools/a__{tool}")).send(at).await.json();
    let good = shown("good").await["metrics"].clone();
    assert_eq!((&good["invocations"], &good["successes"]), (&json!(2), &json!(2)), "{good}");
    assert_eq!(good["failures"], 0, "{good}");
    assert!(good["averageMs"].as_f64().is_some_and(|ms| ms > 0.0), "{good}");
    assert!(good["lastInvokedAt"].as_str().is_some_and(|time| time.ends_with('Z')), "{good}");
    let bad = shown("bad").await["metrics"].clone();
    assert_eq!((&bad["successes"], &bad["failures"]), (&json!(0), &json!(1)), "{bad}");
    // Sorted by statistics, over pages.
    let path = "/api/tools?server=a&sort=invocations&order=desc&limit=2";
    let sorted = names(&gate, path).await;
    assert_eq!(sorted, ["a__good", "a__bad", "a__broken", "a__picky", "a__slow"]);
    let reset = post("/api/tools/a__good/metrics/reset").send(at).await;
    assert_eq!(reset.status, 200, "{}", reset.text());
    let reset = reset.json()["metrics"].clone();
    assert_eq!((&reset["invocations"], &reset["lastInvokedAt"]), (&json!(0), &Value::Null));
    assert_eq!(get("/api/servers/a").send(at).await.json()["metrics"]["calls"], 6);
    let exported = get("/metrics").send(at).await.text();
    let line = "lockgate_calls_total{outcome=\"ok\",server=\"a\",tool=\"good\"} 2";
    assert!(exported.contains(line), "what is exported goes on:\n{exported}");
}

#[tokio::test]
async fn a_disconnected_server_stays_away_until_its_entry_changes_or_somebody_connects_it() {
    let (one, two) = (Upstream::http(modern(&["t"])).await, Upstream::http(modern(&["u"])).await);
    let gate = Gate::start(json!({"servers": {"a": one.config()}})).await;
    let at = gate.address;
    assert_eq!(gate.call("a__t").await.code(), 0);
    let away = post("/api/servers/a/disconnect").send(at).await;
    assert_eq!((away.status, &away.json()["state"]), (200, &json!("disabled")), "{}", away.text());
    assert_ne!(gate.call("a__t").await.code(), 0);
    assert_eq!(code(&post("/api/servers/a/reconnect").send(at).await).0, 409);
    // A reload that adds another server leaves this server disconnected.
    gate.configure(json!({"servers": {"a": one.config(), "b": two.config()}}));
    until("b is there", async || (state_of(&gate, "b").await == "connected").then_some(())).await;
    assert_eq!(state_of(&gate, "a").await, "disabled");
    assert_eq!(names(&gate, "/api/servers?state=disabled&limit=1").await, ["a"]);
    let back = post("/api/servers/a/connect").send(at).await;
    assert_eq!(back.status, 200, "{}", back.text());
    until("a is back", async || (state_of(&gate, "a").await == "connected").then_some(())).await;
    until("it is called", async || (gate.call("a__t").await.code() == 0).then_some(())).await;
    assert_eq!(post("/api/servers/a/connect").send(at).await.status, 200, "once more is the same");
    assert_eq!(post("/api/servers/a/toggle").send(at).await.json()["state"], "disabled");
    // A change of its own entry reconnects the server.
    let changed = one.with(json!({"timeout": 20}));
    gate.configure(json!({"servers": {"a": changed, "b": two.config()}}));
    until("a is back", async || (state_of(&gate, "a").await == "connected").then_some(())).await;
    assert_eq!(post("/api/servers/a/toggle").send(at).await.json()["state"], "disabled");
    assert_ne!(post("/api/servers/a/toggle").send(at).await.json()["state"], "disabled");
    let builtin = code(&post("/api/servers/nothing/disconnect").send(at).await);
    assert_eq!(builtin, (404, "SERVER_NOT_FOUND".to_owned()));
}

/// Only operators disconnect shared servers and see their statistics, which reveal the activity of
/// other organisations.
#[tokio::test]
async fn what_all_share_is_switched_and_counted_for_operators_alone() {
    let server = Upstream::http(modern(&["t"])).await;
    let config = json!({"servers": {"a": server.config()}, "auth": {"keys_file": "keys.yaml"}});
    let gate = Gate::start(config).await;
    let at = gate.address;
    let user = key(&gate, "user", &[]).await;
    let admin = key(&gate, "admin", &["--role", "admin", "--organisation", "acme"]).await;
    let operator = key(&gate, "operator", &["--role", "operator"]).await;
    let called = post("/api/tools/a__t/execute").by(&user).send(at).await;
    assert_eq!(called.status, 200, "{}", called.text());
    key(&gate, "elsewhere", &["--organisation", "other"]).await;
    for (holder, switches, sees) in
        [(&user, false, false), (&admin, false, false), (&operator, true, true)]
    {
        for path in ["connect", "disconnect", "toggle", "reconnect"] {
            let path = format!("/api/servers/a/{path}");
            let answer = post(&path).by(holder).send(at).await;
            let is_done = answer.status == 200 || code(&answer).1 == "SERVER_DISCONNECTED";
            assert_eq!(is_done, switches, "{path}: {}", answer.text());
            assert!(switches || code(&answer) == (403, "FORBIDDEN".into()), "{}", answer.text());
        }
        let reset = post("/api/tools/a__t/metrics/reset").by(holder).send(at).await.status;
        assert!(reset == 403 || switches, "{reset}");
        let shown = get("/api/servers/a").by(holder).send(at).await.json();
        assert_eq!(shown["metrics"].is_object(), sees, "{shown}");
        assert_eq!(shown["operator"].is_object(), sees, "{shown}");
        let tool = get("/api/tools?server=a").by(holder).send(at).await.json();
        let tool = &tool["items"][0];
        assert!(tool["metrics"].is_null() || sees, "{tool}");
        assert!(sees || shown["lastHeard"].is_null(), "it moves with calls of others: {shown}");
        let exported = get("/metrics").by(holder).send(at).await.text();
        assert_eq!(exported.contains("server=\"a\""), sees, "{exported}");
        let is_told = exported.contains("lockgate_requests_rejected_total");
        assert_eq!(is_told, holder != &admin, "other organisations see no totals: {exported}");
        let elsewhere = get("/api/servers?organizationId=other").by(holder).send(at).await.status;
        assert_eq!(elsewhere == 200, sees, "{elsewhere}");
    }
    assert_eq!(get("/api/servers?organizationId=acme").by(&admin).send(at).await.status, 200);
}

/// Behind a local proxy, every client would otherwise count as the local user.
#[tokio::test]
async fn whom_a_proxy_brings_is_no_operator_anywhere() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let at = gate.address;
    assert!(get("/metrics").send(at).await.text().contains("server=\"a\""));
    for name in [
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "Forwarded",
        "Via",
        "X-Real-IP",
        "X-Client-IP",
        "CF-Connecting-IP",
        "True-Client-IP",
        "Fly-Client-IP",
        "X-Azure-ClientIP",
    ] {
        let forwarded = |request: Request| request.with(name, "for=192.0.2.1");
        let exported = forwarded(get("/metrics")).send(at).await.text();
        assert!(!exported.contains("server="), "{exported}");
        let shown = forwarded(get("/api/servers/a")).send(at).await.json();
        assert!(shown["operator"].is_null(), "{shown}");
    }
}

#[tokio::test]
async fn lists_refuse_what_nobody_knows_how_to_sort() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    for query in [
        "servers?state=great",
        "servers?sort=size",
        "servers?order=up",
        "servers?sort=calls&cursor=a",
        "servers?limit=18446744073709551616",
        "tools?server=a&sort=",
        "tools?sort=name&sort=name",
        "tools?limit=-1",
    ] {
        let answer = get(&format!("/api/{query}")).send(gate.address).await;
        assert_eq!(code(&answer), (400, "INVALID_QUERY".into()), "{query}: {}", answer.text());
    }
    for name in ["%00", "..%2F..", "a%20b", "a%0d%0aX:1", "%F0%9F%98%80", "a;drop", "%7B%7D"] {
        for path in ["disconnect", "connect"] {
            let answer = post(&format!("/api/servers/{name}/{path}")).send(gate.address).await;
            assert_eq!(code(&answer), (404, "SERVER_NOT_FOUND".into()), "{name}");
        }
        let answer = post(&format!("/api/tools/{name}/metrics/reset")).send(gate.address).await;
        assert_eq!(code(&answer), (404, "TOOL_NOT_FOUND".into()), "{name}");
    }
}

/// Built-in tools have more metadata, are found by category, and accept the argument names of the
/// tRPC procedures too.
#[tokio::test]
async fn built_in_tools_are_found_by_category_and_take_other_spellings() {
    let server = Upstream::http(modern(&["read"])).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(".hidden"), "x").unwrap();
    let file = json!({"roots": [{"path": folder.path()}]});
    let servers = json!({"a": server.config()});
    let gate = Gate::start(json!({"servers": servers, "builtin": {"file": file}})).await;
    let tools = async |query: &str| {
        let path = format!("/api/tools?{query}");
        Request::bare("GET", &path, "").send(gate.address).await.json()
    };
    let all = tools("category=file").await;
    assert!(all["total"].as_u64().unwrap() > 3, "{all}");
    for tool in all["items"].as_array().unwrap() {
        assert_eq!((&tool["server"], &tool["version"]), (&json!("file"), &json!("1.0.0")));
        assert!(tool["tags"].as_array().unwrap().contains(&json!("files")), "{tool}");
        assert!(tool["permissions"].is_array(), "{tool}");
    }
    assert_eq!(tools("category=a").await["total"], 0, "no category has this name");
    assert_eq!(tools("category=file&server=a").await["total"], 0);
    let other = tools("server=a").await["items"][0].clone();
    assert_eq!((&other["tags"], &other["version"]), (&json!([]), &Value::Null), "{other}");
    let list = async |arguments: Value| {
        let body = json!({"arguments": arguments}).to_string();
        let path = "/api/tools/file__list/execute";
        Request::bare("POST", path, body).send(gate.address).await.json()
    };
    let path = folder.path().canonicalize().unwrap();
    for spelling in ["hidden", "includeHidden"] {
        let listed = list(json!({"path": path, spelling: true})).await;
        assert!(listed.to_string().contains(".hidden"), "{spelling}: {listed}");
    }
    let both = list(json!({"path": path, "hidden": true, "includeHidden": true})).await;
    assert_eq!(both["errors"][0]["pointer"], "#/arguments/includeHidden", "{both}");
}
