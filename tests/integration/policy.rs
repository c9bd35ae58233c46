//! Policies from outside: what is listed may be called, what is not listed answers as if it did not exist, at every
//! endpoint, in both eras; arguments are judged and rewritten; a broken file keeps the old policies.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Gate, Upstream, Value, json, until};

const TOOLS: [&str; 3] = ["read_file", "write_file", "query"];
const ROUNDS: usize = 12;

/// A few policies over the names that there are, and over some that there are not.
fn policies() -> impl Strategy<Value = Vec<Value>> {
    let words = ["a/*", "b/*", "*__read*", "a__query", "b/{query,write_file}", "*", "c/*", "*_file"];
    let list = proptest::collection::vec(proptest::sample::select(words.to_vec()), 0..3);
    let one = (
        proptest::bool::weighted(0.7),
        list,
        proptest::option::weighted(0.2, proptest::sample::select(vec!["a", "b"])),
    )
        .prop_map(|(allow, tools, server)| {
            let mut what = json!({ "tools": tools });
            if let Some(server) = server {
                what["servers"] = json!([server]);
            }
            json!({"effect": if allow { "allow" } else { "deny" }, "what": what})
        });
    proptest::collection::vec(one, 0..5).prop_map(|mut all| {
        for (n, policy) in all.iter_mut().enumerate() {
            policy["name"] = format!("p{n}").into();
        }
        all
    })
}

/// The answer without what differs between any two requests: their ids and the name that was asked for.
fn plain(text: &str, name: &str) -> String {
    text.replace(name, "NAME")
}

#[tokio::test]
async fn what_is_listed_is_callable_and_the_rest_does_not_exist() {
    let (a, b) = (Upstream::http(modern(&TOOLS)).await, Upstream::http(modern(&TOOLS)).await);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    let mut runner = TestRunner::deterministic();
    for round in 0..ROUNDS {
        let set = policies().new_tree(&mut runner).unwrap().current();
        std::fs::write(&file, json!({ "policies": set }).to_string()).unwrap();
        let servers = json!({"a": a.config(), "b": b.config()});
        let gate = Gate::start(json!({"servers": servers, "policy": {"files": [file]}})).await;
        for path in ["/mcp", "/servers/a/mcp", "/servers/b/mcp"] {
            let listed = gate.modern(path, "tools/list", json!({})).await;
            if listed.status == 404 && path != "/mcp" {
                // A server of which nothing may be seen is no endpoint.
                let unknown = gate.modern("/servers/nobody/mcp", "tools/list", json!({})).await;
                assert_eq!(listed.text(), unknown.text(), "round {round}: {path}: {set:?}");
                continue;
            }
            // Where nothing may be seen at all, tools are no feature of the endpoint.
            let listed = listed.json()["result"]["tools"].as_array().cloned().unwrap_or_default();
            let listed: Vec<&str> = listed.iter().filter_map(|tool| tool["name"].as_str()).collect();
            let session = gate.session(path, "2025-11-25").await;
            for (server, own) in ["a", "b"].iter().flat_map(|server| TOOLS.map(|own| (*server, own))) {
                let name = if path == "/mcp" { format!("{server}__{own}") } else { own.to_owned() };
                let ask = |name: &str| json!({"name": name, "arguments": {}});
                let modern = gate.modern(path, "tools/call", ask(&name)).await;
                let legacy = session.ask("tools/call", ask(&name)).await;
                let there = listed.contains(&name.as_str());
                for (era, answer) in [("modern", &modern), ("legacy", &legacy)] {
                    assert_eq!(answer.code() == 0, there, "round {round}: {era} {path} {name}: {set:?}");
                }
                if !there {
                    let unknown = "zzz__no_such_tool";
                    let wanted = gate.modern(path, "tools/call", ask(unknown)).await;
                    assert_eq!(plain(&modern.text(), &name), plain(&wanted.text(), unknown), "{path} {name}");
                    let wanted = session.ask("tools/call", ask(unknown)).await;
                    assert_eq!(plain(&legacy.text(), &name), plain(&wanted.text(), unknown), "{path} {name}");
                }
            }
        }
    }
}

#[tokio::test]
async fn arguments_are_judged_rewritten_and_refused_in_words() {
    let a = Upstream::http(modern(&["query"])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("db.yaml");
    let text = "policies:\n  - name: select-only\n    effect: allow\n    what: { tools: [a/query] }\n    arguments:\n      /sql: { sql: { max_rows: 5 } }\n      /mode: { set: { to: safe } }\n";
    std::fs::write(&file, text).unwrap();
    let gate = Gate::start(json!({"servers": {"a": a.config()}, "policy": {"files": [file]}})).await;
    let call = async |sql: &str| {
        let params = json!({"name": "a__query", "arguments": {"sql": sql, "mode": "wild"}});
        gate.modern("/mcp", "tools/call", params).await
    };
    assert_eq!(call("SELECT 1 FROM t").await.code(), 0);
    let heard = a.heard_of("tools/call").pop().unwrap();
    let sent = &heard.body["params"]["arguments"];
    assert!(sent["sql"].as_str().unwrap().ends_with("LIMIT 5") && sent["mode"] == "safe", "{sent}");
    let refused = call("DROP TABLE t").await;
    let result = refused.result();
    assert_eq!((refused.status, &result["isError"]), (200, &json!(true)));
    let words = result["content"][0]["text"].as_str().unwrap();
    assert!(words.starts_with("refused by policy select-only: the argument /sql"), "{words}");
    assert_eq!(a.count("tools/call"), 1);
    let twice = r#"{"name":"a__query","arguments":{"sql":"SELECT 1","sql":"DROP TABLE t"}}"#;
    let session = gate.session("/mcp", "2025-11-25").await;
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{twice}}}"#);
    let answer = session.post(body).send(gate.address).await;
    assert_eq!(answer.result()["isError"], json!(true), "{}", answer.text());
    assert_eq!(a.count("tools/call"), 1);
}

#[tokio::test]
async fn a_saved_policy_takes_effect_and_a_broken_one_does_not() {
    let a = Upstream::http(modern(&["t", "u"])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    let save = |text: &str| {
        let new = folder.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &file).unwrap();
    };
    save("policies:\n  - { name: one, effect: allow, what: { tools: [a/t] } }\n");
    let gate = Gate::start(json!({"servers": {"a": a.config()}, "policy": {"files": [file]}})).await;
    assert_eq!(gate.tools("/mcp").await.0, ["a__t"]);
    save("policies:\n  - { name: one, effect: allow, what: { tools: [a/u] } }\n");
    until("the policy is replaced", async || (gate.tools("/mcp").await.0 == ["a__u"]).then_some(())).await;
    assert!(gate.log().contains("~ one ("), "{}", gate.log());
    save("policies:\n  - { name: one, efect: allow }\n");
    until("the mistake is told", async || gate.log().contains("did you mean `effect`?").then_some(())).await;
    assert_eq!(gate.tools("/mcp").await.0, ["a__u"]);
}

#[tokio::test]
async fn rates_say_how_long_to_wait_for_lists_too() {
    let a = Upstream::http(modern(&["t"])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rates.yaml");
    let text = "policies:\n  - { name: all, effect: allow }\n  - { name: lists, effect: deny, what: { methods: [tools/list] }, rate: { per_hour: 2 } }\n  - { name: calls, effect: deny, what: { tools: [\"*\"] }, rate: { per_hour: 1, by: [tool] } }\n";
    std::fs::write(&file, text).unwrap();
    let gate = Gate::start(json!({"servers": {"a": a.config()}, "policy": {"files": [file]}})).await;
    for wanted in [0, 0, -31029] {
        assert_eq!(gate.modern("/mcp", "tools/list", json!({})).await.code(), wanted);
    }
    assert_eq!(gate.call("a__t").await.code(), 0);
    let limited =
        Request::modern("/mcp", "tools/call", json!({"name": "a__t", "arguments": {}})).send(gate.address).await;
    let body: Value = serde_json::from_str(&limited.text()).unwrap();
    assert_eq!(body["error"]["code"], -31029);
    assert!(body["error"]["data"]["retryAfter"].as_f64().unwrap() > 1000.0, "{body}");
    assert!(body["error"]["message"].as_str().unwrap().contains("policy calls"), "{body}");
}
