//! Policies from outside: arguments are checked and rewritten; a broken file keeps the old
//! policies; rate limits report the time to wait.

use crate::rig::client::Request;
use crate::rig::gate::command;
use crate::rig::upstream::modern;
use crate::rig::{Gate, HeardMessage, Say, Upstream, Value, json, until};

#[tokio::test]
async fn arguments_are_judged_rewritten_and_refused_in_words() {
    let a = Upstream::http(modern(&["query"])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("db.yaml");
    let text = "policies:\n  - name: select-only\n    effect: allow\n    what: { tools: [a/query] }\n    arguments:\n      /sql: { sql: { max_rows: 5 } }\n      /mode: { set: { to: safe } }\n";
    std::fs::write(&file, text).unwrap();
    let gate =
        Gate::start(json!({"servers": {"a": a.config()}, "policy": {"files": [file]}})).await;
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
    let gate =
        Gate::start(json!({"servers": {"a": a.config()}, "policy": {"files": [file]}})).await;
    assert_eq!(gate.tools("/mcp").await.0, ["a__t"]);
    save("policies:\n  - { name: one, effect: allow, what: { tools: [a/u] } }\n");
    until("the policy is replaced", async || {
        (gate.tools("/mcp").await.0 == ["a__u"]).then_some(())
    })
    .await;
    let told = r#": what {\"tools\":[\"a/t\"]} -> {\"tools\":[\"a/u\"]}"#;
    // The log is written after the change.
    let line = until("the change is logged", async || {
        gate.log().lines().find(|line| line.contains("policy changed")).map(str::to_owned)
    })
    .await;
    assert!(line.contains("~ one (") && line.contains(told), "{line}");
    save("policies:\n  - { name: one, efect: allow }\n");
    until("the mistake is told", async || {
        gate.log().contains("did you mean `effect`?").then_some(())
    })
    .await;
    assert!(!gate.log().contains(r"\u{a}"), "a line of the log is a line: {}", gate.log());
    assert_eq!(gate.tools("/mcp").await.0, ["a__u"]);
}

/// Mistakes in policies are the output of `policy check --json`, for named files and for those of a
/// configuration. For other commands they are errors.
#[test]
fn mistakes_are_data_where_data_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (file, config) = (folder.path().join("p.yaml"), folder.path().join("lockgate.yaml"));
    std::fs::write(&file, "policies:\n  - { name: one, efect: allow }\n").unwrap();
    std::fs::write(&config, "policy: { files: p.yaml }\n").unwrap();
    let run = |words: &[&str]| command().args(words).current_dir(folder.path()).output().unwrap();
    for words in [&["policy", "check", "--json", "p.yaml"][..], &["policy", "check", "--json"]] {
        let done = run(words);
        let told: Value =
            serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
        assert_eq!(
            (done.status.code(), &told["problems"][0]["line"]),
            (Some(1), &json!(2)),
            "{told}"
        );
    }
    let done = run(&["policy", "check"]);
    assert!(String::from_utf8_lossy(&done.stdout).contains("p.yaml:2:"), "{done:?}");
    let done = run(&["policy", "explain", "--json", "--call", "a/t"]);
    let told: Value = serde_json::from_slice(&done.stderr).unwrap_or_else(|_| panic!("{done:?}"));
    assert!(done.stdout.is_empty() && told["problems"].is_array(), "{told}");
}

/// A `set` rule is bypassed if another policy permits the call.
#[test]
fn a_check_tells_of_a_set_that_is_got_past() {
    let folder = tempfile::tempdir().unwrap();
    let check = |tools: &str| {
        let text = format!(
            "policies:\n  - {{ name: open, effect: allow, what: {{ tools: [{tools:?}] }} }}\n  - name: limited\n    effect: allow\n    what: {{ tools: [x/echo] }}\n    arguments: {{ /limit: {{ set: {{ to: 10 }} }} }}\n"
        );
        std::fs::write(folder.path().join("p.yaml"), text).unwrap();
        let out = command()
            .args(["policy", "check", "p.yaml"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    let told = check("x/*");
    assert!(
        told.starts_with("warning: p.yaml:3")
            && told.contains("policy limited adds values")
            && told.contains("policy open"),
        "{told}"
    );
    assert!(check("y/*").starts_with("ok: 2 policies"));
    // So are other argument rules, except those of a denying policy.
    let check = |effect: &str| {
        let text = format!(
            "policies:\n  - {{ name: open, effect: allow }}\n  - name: limited\n    effect: {effect}\n    what: {{ tools: [x/echo] }}\n    arguments: {{ /limit: {{ value: {{ max: 10 }} }} }}\n"
        );
        std::fs::write(folder.path().join("p.yaml"), text).unwrap();
        let out = command()
            .args(["policy", "check", "p.yaml"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    assert!(
        check("allow").contains("policy limited checks arguments, but policy open may allow"),
        "{}",
        check("allow")
    );
    assert!(check("deny").starts_with("ok: 2 policies"));
}

#[tokio::test]
async fn rows_that_a_policy_cuts_off_are_said_to_be_missing() {
    let policy = "policies:\n  - name: few\n    effect: allow\n    what: { tools: [database/query] }\n    \
        arguments: { /sql: { sql: { dialect: sqlite, max_rows: 2 } } }\n";
    let gate =
        Gate::launch(json!({"builtin": {"database": {"embedded": {"folder": "data"}}}})).await;
    gate.ready().await;
    std::fs::write(gate.folder.path().join("p.yaml"), policy).unwrap();
    gate.configure(json!({
        "builtin": {"database": {"embedded": {"folder": "data"}}},
        "policy": {"files": ["p.yaml"]},
    }));
    let rows = async |count: usize| {
        let sql = vec!["SELECT 1 AS x"; count].join(" UNION ALL ");
        let params = json!({"name": "database__query", "arguments": {"sql": sql}});
        let answer = gate.modern("/mcp", "tools/call", params).await.json();
        answer["result"]["structuredContent"].clone()
    };
    let cut = until("the policy is in force", async || {
        let answer = rows(5).await;
        (answer["row_count"] == 2).then_some(answer)
    })
    .await;
    assert_eq!(cut["truncated"], "limit", "{cut}");
    let whole = rows(1).await;
    assert_eq!((&whole["row_count"], &whole["truncated"]), (&json!(1), &Value::Null), "{whole}");
}

/// Explaining an unknown item is an error rather than a policy decision.
#[test]
fn an_explanation_names_what_the_gateway_does_not_have() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "p.yaml",
        "policies:\n  - { name: notes, effect: allow, what: { tools: [notes/*] } }\n  \
            - { name: team, effect: allow, who: { roles: [dev] }, what: { tools: [a/t] } }\n",
    );
    write(
        "lockgate.yaml",
        "auth: { keys_file: keys.yaml }\npolicy: { files: [p.yaml] }\nservers:\n  \
            a: { url: 'http://127.0.0.1:1/mcp' }\n  notes: { url: 'http://127.0.0.1:1/mcp' }\n",
    );
    let run = |words: &[&str]| {
        let done = command().args(words).current_dir(folder.path()).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    run(&["keys", "create", "ci", "--role", "dev", "--file", "keys.yaml"]);
    let explain =
        |caller: &str, tool: &str| run(&["policy", "explain", "--as", caller, "--call", tool]);
    let allowed = explain("ci", "a/t");
    assert!(allowed.starts_with("allow, by team"), "{allowed}");
    for (caller, tool, words) in [
        ("other", "a/t", "hidden, by default: there is no key `other`"),
        ("ci", "b/t", "hidden, by default: the configuration has no server `b`"),
        ("ci", "system/nothing", "`system` has no tool `nothing`; it has "),
    ] {
        let told = explain(caller, tool);
        assert!(told.contains(words) && !told.contains("no policy allows it"), "{told}");
        assert!(!told.contains("notes"), "an unrelated policy: {told}");
    }
    for wrong in ["x", "[1]", "{} {}"] {
        let words = ["policy", "explain", "--call", "a/t", "--arguments", wrong];
        let done = command().args(words).current_dir(folder.path()).output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(told.contains("must be a JSON object"), "{told}");
        assert_eq!(done.status.code(), Some(2), "{told}");
    }
    let other = explain("local|user", "a/t");
    assert!(other.contains("policy team would allow it, if this matched: who.roles"), "{other}");
    let gone = "key|0123456789abcdef";
    write(
        "q.yaml",
        &format!(
            "policies:\n  - {{ name: x, effect: allow, who: {{ principals: ['{gone}'] }} }}\n"
        ),
    );
    write("lockgate.yaml", "auth: { keys_file: keys.yaml }\npolicy: { files: [q.yaml] }\n");
    let checked = run(&["policy", "check"]);
    assert!(checked.contains("the keys file has no key `0123456789abcdef`"), "{checked}");
}

/// Explanations of built-in tools match the gateway's decisions.
#[test]
fn built_in_tools_are_explained_as_they_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::create_dir(here.join("data")).unwrap();
    let policies = json!({"policies": [
        {"name": "readers", "effect": "allow", "what": {"categories": ["file"], "annotations": {"read_only": true}}},
        {"name": "certified", "effect": "allow", "who": {"principals": ["certificate:My CA|cn:alice"]}, "what": {"tools": ["file/delete"]}},
    ]});
    std::fs::write(here.join("p.yaml"), policies.to_string()).unwrap();
    let config = json!({
        "builtin": {"system": false, "example": false, "file": {"roots": [{"path": here.join("data"), "write": true}]}},
        "policy": {"files": ["p.yaml"]},
    });
    std::fs::write(here.join("lockgate.yaml"), config.to_string()).unwrap();
    let run = |arguments: &[&str]| {
        let out = command()
            .args(arguments)
            .args(["--json", "--config", "lockgate.yaml"])
            .current_dir(here)
            .output()
            .unwrap();
        assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice::<Value>(&out.stdout).unwrap()
    };
    let decision = |arguments: &[&str]| {
        run(&[&["policy", "explain", "--call"], arguments].concat())["decision"].clone()
    };
    let listed = run(&["tools"]).to_string();
    for own in ["list", "read", "write", "delete"] {
        let shown = listed.contains(&format!("\"file__{own}\""));
        let wanted = if shown { "allow" } else { "hidden" };
        assert_eq!(decision(&[&format!("file/{own}")]), wanted, "{own}: {listed}");
    }
    assert!(listed.contains("\"file__read\"") && !listed.contains("\"file__delete\""), "{listed}");
    assert_eq!(decision(&["file/none", "--annotations", r#"{"readOnlyHint": true}"#]), "allow");
    assert_eq!(decision(&["file/read", "--category", "web"]), "hidden");
    assert_eq!(decision(&["file/delete", "--as", r#""certificate:My CA|cn:alice""#]), "allow");
    assert_eq!(decision(&["other/read"]), "hidden");
    // Named policy files are evaluated without the configuration.
    assert_eq!(decision(&["file/read", "--policies", "p.yaml"]), "hidden");
}

/// Explanations and tests use the names that the gateway exposes.
#[tokio::test]
async fn names_are_explained_as_they_are_exposed() {
    let a = Upstream::http(modern(&["echo", "other"])).await;
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let deny = json!({"tools": ["a.echo"], "resources": ["ui://a+panel/*"]});
    let policies = json!([{"name": "all", "effect": "allow"}, {"name": "not", "effect": "deny", "what": deny}]);
    std::fs::write(here.join("p.yaml"), json!({"policies": policies}).to_string()).unwrap();
    let case =
        |kind: &str, name: &str, expect: &str| json!({"name": name, kind: name, "expect": expect});
    let cases = json!({"cases": [
        case("call", "a/echo", "hidden"),
        case("call", "a/other", "allow"),
        case("resource", "a/ui://panel/main", "hidden"),
        case("resource", "a/file:///x", "allow"),
        case("resource", "a/file:/x", "hidden"),
    ]});
    std::fs::create_dir(here.join("cases")).unwrap();
    std::fs::write(here.join("cases/p.yaml"), cases.to_string()).unwrap();
    let config = json!({"servers": {"a": a.config()}, "names": {"separator": "."}, "policy": {"files": [here.join("p.yaml")]}});
    std::fs::write(here.join("lockgate.yaml"), config.to_string()).unwrap();
    let gate = Gate::start(config).await;
    assert_eq!(gate.tools("/mcp").await.0, ["a.other"]);
    let run = |words: &[&str]| {
        let all = [words, &["--json", "--config", "lockgate.yaml"]].concat();
        let out = command().args(&all).current_dir(here).output().unwrap();
        serde_json::from_slice::<Value>(&out.stdout).unwrap_or_else(|_| panic!("{out:?}"))
    };
    for (kind, name, decision) in [
        ("--call", "a/echo", "hidden"),
        ("--call", "a/other", "allow"),
        ("--resource", "a/ui://panel/main", "hidden"),
        ("--resource", "a/file:///x", "allow"),
        ("--resource", "a/file:///{x}", "allow"),
        ("--resource", "a/file:/x", "hidden"),
        ("--resource", "a/file:///x/../y", "hidden"),
    ] {
        assert_eq!(run(&["policy", "explain", kind, name])["decision"], decision, "{name}");
    }
    let tested = run(&["policy", "test"]);
    assert_eq!((&tested["passed"], &tested["failed"]), (&json!(5), &json!(0)), "{tested}");
}

/// Returns a server that lists and completes prompts and templates with these names.
fn completing(
    names: &'static [&'static str],
) -> impl Fn(&HeardMessage) -> Say + Send + Sync + 'static {
    let caps = json!({"prompts": {}, "resources": {}, "completions": {}});
    let listed = |key: &str, list: Vec<Value>| {
        let mut result = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
        result[key] = list.into();
        result
    };
    move |heard| {
        let result = match heard.method() {
            "server/discover" => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": caps, "ttlMs": 0,
                "cacheScope": "private",
            }),
            "prompts/list" => {
                listed("prompts", names.iter().map(|name| json!({"name": name})).collect())
            }
            "resources/list" => listed("resources", vec![]),
            "resources/templates/list" => {
                let template =
                    |name| json!({"uriTemplate": format!("mem://{name}/{{x}}"), "name": name});
                listed("resourceTemplates", names.iter().map(template).collect())
            }
            _ => json!({"resultType": "complete", "completion": {"values": ["a"]}}),
        };
        Say::Json(heard.result(result))
    }
}

/// Completions of prompts and templates: explanations and tests match the gateway's decisions, even
/// if the item itself is hidden.
#[tokio::test]
async fn completions_are_explained_as_they_are_decided() {
    let a = Upstream::http(completing(&["open", "values", "closed"])).await;
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let things = json!({"prompts": ["a/open", "a/closed"], "resources": ["a/mem://open/*", "a/mem://closed/*"]});
    let policies = json!([
        {"name": "things", "effect": "allow", "what": things},
        {"name": "values", "effect": "allow", "what": {"completion": ["a/values", "a/mem://values/*"]}},
        {"name": "closed", "effect": "deny", "what": {"completion": ["a/closed", "a/mem://closed/*"]}},
    ]);
    std::fs::write(here.join("p.yaml"), json!({"policies": policies}).to_string()).unwrap();
    let config = json!({"servers": {"a": a.config()}, "policy": {"files": [here.join("p.yaml")]}});
    std::fs::write(here.join("lockgate.yaml"), config.to_string()).unwrap();
    let gate = Gate::start(config).await;
    let run = |words: &[&str]| {
        let out = command()
            .args(words)
            .args(["--json", "--config", "lockgate.yaml"])
            .current_dir(here)
            .output()
            .unwrap();
        serde_json::from_slice::<Value>(&out.stdout).unwrap_or_else(|_| panic!("{out:?}"))
    };
    let mut cases = Vec::new();
    for (name, expect, rule) in [
        ("open", "allow", "things"),
        ("values", "hidden", "default"),
        ("closed", "hidden", "closed"),
    ] {
        let of = [
            (
                "completion",
                format!("a/{name}"),
                json!({"type": "ref/prompt", "name": format!("a__{name}")}),
            ),
            (
                "template",
                format!("a/mem://{name}/{{x}}"),
                json!({"type": "ref/resource", "uri": format!("a+mem://{name}/{{x}}")}),
            ),
        ];
        for (kind, own, reference) in of {
            let params = json!({"ref": reference, "argument": {"name": "x", "value": ""}});
            let answer = gate.modern("/mcp", "completion/complete", params).await;
            assert_eq!(
                answer.code(),
                if expect == "allow" { 0 } else { -32602 },
                "{own}: {}",
                answer.text()
            );
            let told = run(&["policy", "explain", &format!("--{kind}"), &own]);
            assert_eq!(
                (&told["decision"], &told["rule"]),
                (&json!(expect), &json!(rule)),
                "{own}: {told}"
            );
            cases.push(json!({"name": own, kind: own, "expect": expect, "rule": rule}));
        }
    }
    std::fs::create_dir(here.join("cases")).unwrap();
    std::fs::write(here.join("cases/p.yaml"), json!({"cases": cases}).to_string()).unwrap();
    let tested = run(&["policy", "test"]);
    assert_eq!((&tested["passed"], &tested["failed"]), (&json!(6), &json!(0)), "{tested}");
    // A policy that permits the item would permit its completion.
    let told = run(&["policy", "explain", "--completion", "a/values"]);
    assert!(told["changes"][0].as_str().is_some_and(|line| line.contains("things")), "{told}");
}

#[tokio::test]
async fn rates_say_how_long_to_wait_for_lists_too() {
    let a = Upstream::http(modern(&["t"])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rates.yaml");
    let text = "policies:\n  - { name: all, effect: allow }\n  - { name: lists, effect: deny, what: { methods: [tools/list] }, rate: { per_hour: 2 } }\n  - { name: calls, effect: deny, what: { tools: [\"*\"] }, rate: { per_hour: 1, by: [tool] } }\n";
    std::fs::write(&file, text).unwrap();
    let gate =
        Gate::start(json!({"servers": {"a": a.config()}, "policy": {"files": [file]}})).await;
    for wanted in [0, 0, -31029] {
        assert_eq!(gate.modern("/mcp", "tools/list", json!({})).await.code(), wanted);
    }
    assert_eq!(gate.call("a__t").await.code(), 0);
    let limited = Request::modern("/mcp", "tools/call", json!({"name": "a__t", "arguments": {}}))
        .send(gate.address)
        .await;
    let body: Value = serde_json::from_str(&limited.text()).unwrap();
    assert_eq!(body["error"]["code"], -31029);
    assert!(body["error"]["data"]["retryAfter"].as_f64().unwrap() > 1000.0, "{body}");
    assert!(body["error"]["message"].as_str().unwrap().contains("policy calls"), "{body}");
}

/// Rate limits apply to both, so that names cannot be guessed or told apart by their rates.
#[tokio::test]
async fn unknown_and_hidden_names_count_by_method() {
    let a = Upstream::http(modern(&["t", "hidden"])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rates.yaml");
    let text = "policies:\n  - { name: t, effect: allow, what: { tools: [a/t] } }\n  - { name: calls, effect: deny, what: { methods: [tools/call, prompts/get, resources/read, completion/complete, tasks/get] }, rate: { per_hour: 2, by: [principal] } }\n";
    for names in [
        ["a__hidden", "a__hidden", "a__t"],
        ["a__none", "a__none", "a__none"],
        ["a__t", "a__none", "a__hidden"],
    ] {
        std::fs::write(&file, text).unwrap();
        let gate =
            Gate::start(json!({"servers": {"a": a.config()}, "policy": {"files": [file]}})).await;
        let mut codes = Vec::new();
        for name in names {
            codes.push(gate.call(name).await.code());
        }
        let wanted = names.map(|name| if name == "a__t" { 0 } else { -32602 });
        assert_eq!(codes, [wanted[0], wanted[1], -31029], "{names:?}");
    }
}

#[tokio::test]
async fn a_task_is_answered_as_its_tool() {
    let server = Upstream::lines(crate::streams::with_tasks).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    let save = |more: &str| {
        let new = folder.path().join("new");
        std::fs::write(
            &new,
            format!("policies:\n  - {{ name: all, effect: allow }}\n  - {more}\n"),
        )
        .unwrap();
        std::fs::rename(new, &file).unwrap();
    };
    save(
        "{ name: links, effect: deny, what: { tools: [a/start] }, response: { link_schemes: [https] } }",
    );
    let gate =
        Gate::start(json!({"servers": {"a": server.config()}, "policy": {"files": [file]}})).await;
    let able = json!({"io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let start = json!({"name": "a__start", "arguments": {}, "_meta": able});
    let created = gate.modern("/mcp", "tools/call", start).await.result();
    let get = json!({"taskId": created["taskId"], "_meta": able});
    let done = gate.modern("/mcp", "tasks/get", get.clone()).await.result();
    assert_eq!(
        (&done["status"], &done["result"]["content"]),
        (&json!("completed"), &json!([])),
        "{done}"
    );
    save("{ name: none, effect: deny, what: { tools: [a/start] } }");
    until("the tool is hidden", async || (gate.tools("/mcp").await.0 == ["a__poke"]).then_some(()))
        .await;
    let asked = server.count("tasks/get");
    let (hidden, mut unknown) = (gate.modern("/mcp", "tasks/get", get.clone()).await, get);
    unknown["taskId"] = "none".into();
    assert_eq!(hidden.text(), gate.modern("/mcp", "tasks/get", unknown).await.text());
    assert_eq!((hidden.code(), server.count("tasks/get")), (-32602, asked));
}
