//! The audit trail from outside: every refusal has a record with more detail than the response, and
//! a full disk stops calls or drops records, as configured.

use std::path::Path;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::rig::client::{Answer, Request};
use crate::rig::gate::command;
use crate::rig::upstream::modern;
use crate::rig::{Gate, HeardMessage, Say, Session, Upstream, Value, json, until};
use crate::stdio::Pipe;

const POLICIES: &str = "policies:
  - { name: most, effect: allow, what: { tools: ['a/t', 'a/u'], prompts: ['*'], resources: ['*'] } }
  - { name: not-that-tool, effect: deny, what: { tools: ['a/u'] } }
  - { name: not-that-note, effect: deny, what: { resources: ['*secret*'] } }
  - { name: not-that-prompt, effect: deny, what: { prompts: ['a/p'] } }
  - { name: not-that-often, effect: deny, what: { methods: [resources/templates/list] }, rate: { per_hour: 1 } }
";

/// Answers as an upstream with three tools, a prompt and resources.
fn server(heard: &HeardMessage) -> Say {
    match heard.method() {
        "initialize" => Say::Json(heard.result(json!({
            "protocolVersion": "2025-11-25", "serverInfo": {"name": "old", "version": "1"},
            "capabilities": {"tools": {}, "prompts": {}, "resources": {"subscribe": true}, "completions": {}},
        }))),
        "server/discover" => Say::Status(400, Vec::new(), heard.error(-32000, "no session")),
        "prompts/list" => Say::Json(heard.result(json!({"prompts": [{"name": "p"}]}))),
        "resources/list" => Say::Json(heard.result(json!({"resources": [
            {"uri": "note://open", "name": "open"}, {"uri": "note://secret", "name": "secret"},
        ]}))),
        "resources/templates/list" => Say::Json(heard.result(json!({"resourceTemplates": []}))),
        "resources/subscribe" | "ping" => Say::Json(heard.result(json!({}))),
        _ => modern(&["t", "u", "v"])(heard),
    }
}

/// Returns the records of a trail so far.
fn records(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns whether a record has all of these members.
fn has(record: &Value, wanted: &Value) -> bool {
    wanted
        .as_object()
        .unwrap()
        .iter()
        .all(|(key, value)| record.get(key).unwrap_or(&Value::Null) == value)
}

async fn recorded(file: &Path, wanted: Value) -> Value {
    until(&format!("a record like {wanted}"), async || {
        records(file).into_iter().find(|record| has(record, &wanted))
    })
    .await
}

fn key(folder: &Path, name: &str) -> String {
    let made = command()
        .args(["keys", "create", name, "--json", "--file"])
        .arg(folder.join("keys.yaml"))
        .output()
        .unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    format!("Bearer {}", made["key"].as_str().unwrap())
}

fn verified(file: &Path) -> Value {
    let done = command().args(["audit", "verify", "--json"]).arg(file).output().unwrap();
    let report: Value = serde_json::from_slice(&done.stdout).unwrap_or_default();
    assert_eq!(done.status.code(), Some(0), "{report}");
    report
}

/// Runs `lockgate audit verify` on the files of a glob; returns its exit code and output.
fn verify_all(folder: &Path, more: &[&str]) -> (Option<i32>, String) {
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.file_name().unwrap().to_str().unwrap().starts_with("audit.jsonl"));
    let done = command().args(["audit", "verify"]).args(more).args(files).output().unwrap();
    (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
}

/// A trail with a missing file, and a trail with only its anchor left.
#[tokio::test]
async fn a_trail_without_one_of_its_files_is_not_intact() {
    let server = Upstream::http(modern(&["t"])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let audit = json!({"file": file, "rotate_size": "64KiB"});
    let config = json!({"servers": {"a": server.config()}, "audit": audit});
    let mut gate = Gate::start(config).await;
    let first = folder.path().join("audit.jsonl.0000000000000001");
    until("a file is set aside", async || {
        gate.call("a__t").await;
        first.exists().then_some(())
    })
    .await;
    gate.terminate();
    gate.ended().await;
    // The trail of `lockgate call` matches the same glob.
    for end in ["", ".head", ".lock"] {
        std::fs::write(folder.path().join(format!("audit.jsonl.call{end}")), "").unwrap();
    }
    let (code, said) = verify_all(folder.path(), &[]);
    assert!(
        code == Some(0)
            && said.contains("audit.jsonl.call belongs to the trail of `lockgate call`"),
        "{said}"
    );
    std::fs::rename(&first, folder.path().join("elsewhere")).unwrap();
    let (code, said) = verify_all(folder.path(), &[]);
    assert!(code == Some(1) && said.starts_with("BROKEN: records 1 to "), "{said}");
    let (code, said) = verify_all(folder.path(), &["--part"]);
    assert!(code == Some(0) && said.contains("are not in these files"), "{said}");
    std::fs::rename(folder.path().join("elsewhere"), &first).unwrap();
    std::fs::remove_file(&file).unwrap();
    for given in [vec![&first], vec![]] {
        let done = command()
            .args(["audit", "verify"])
            .args(given)
            .arg(file.with_extension("jsonl.head"))
            .output();
        let done = done.unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.code() == Some(1) && said.contains("are missing at the end"), "{said}");
    }
    let done = command().args(["audit", "verify"]).arg(&first).output().unwrap();
    assert_eq!(done.status.code(), Some(1), "the anchor beside it knows more");
}

/// A keyed trail without its first records, and a file removed while the gateway runs.
#[tokio::test]
async fn what_is_taken_from_a_trail_is_missed_and_said() {
    let server = Upstream::http(modern(&["t"])).await;
    let folder = tempfile::tempdir().unwrap();
    let (file, secret) = (folder.path().join("audit.jsonl"), folder.path().join("secret"));
    std::fs::write(&secret, "0123456789abcdef0123456789abcdef").unwrap();
    let audit =
        json!({"file": file, "key": format!("file:{}", secret.display()), "rotate_size": "64KiB"});
    let config = json!({"servers": {"a": server.config()}, "audit": audit});
    let by_key = ["--key-file", secret.to_str().unwrap()];
    let mut gate = Gate::start(config.clone()).await;
    for _ in 0..7 {
        assert_eq!(gate.call("a__t").await.code(), 0);
    }
    gate.terminate();
    gate.ended().await;
    assert_eq!(verify_all(folder.path(), &by_key).0, Some(0));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.splitn(4, '\n').last().unwrap()).unwrap();
    let (code, said) = verify_all(folder.path(), &by_key);
    assert!(
        code == Some(1) && said.starts_with("BROKEN: records up to 3 are missing at the beginning"),
        "{said}"
    );
    assert_eq!(verify_all(folder.path(), &[by_key[0], by_key[1], "--part"]).0, Some(0));

    let mut gate = Gate::start(config).await;
    recorded(&file, json!({"kind": "open", "why": "start", "gone_from": 1})).await;
    let (code, said) = verify_all(folder.path(), &by_key);
    assert!(
        code == Some(1) && said.starts_with("BROKEN: records ") && said.contains(" 3 are missing"),
        "{said}"
    );
    std::fs::remove_file(&file).unwrap();
    recorded(&file, json!({"kind": "open", "why": "removed"})).await;
    // Rotation recovers from the removal.
    until("a file is set aside", async || {
        assert_eq!(gate.call("a__t").await.code(), 0);
        let aside = |name: &str| name.starts_with("audit.jsonl.0");
        let mut all = std::fs::read_dir(folder.path()).unwrap();
        all.any(|entry| aside(entry.unwrap().file_name().to_str().unwrap())).then_some(())
    })
    .await;
    gate.terminate();
    gate.ended().await;
    let log = gate.log();
    assert!(
        log.contains("missing that rotation did not remove") && log.contains("file was removed"),
        "{log}"
    );
    assert_eq!(verify_all(folder.path(), &by_key).0, Some(1));
}

#[tokio::test]
async fn every_refusal_leaves_a_record_that_says_more_than_the_caller_is_told() {
    let server = Upstream::http(server).await;
    let folder = tempfile::tempdir().unwrap();
    let (file, policies) = (folder.path().join("audit.jsonl"), folder.path().join("all.yaml"));
    std::fs::write(&policies, POLICIES).unwrap();
    let (one, two) = (key(folder.path(), "one"), key(folder.path(), "two"));
    let gate = Gate::start(json!({
        "servers": {"a": server.config()}, "auth": {"keys_file": folder.path().join("keys.yaml")},
        "audit": {"file": file}, "policy": {"files": [policies]},
    }))
    .await;
    let at = gate.address;
    let send = async |request: Request| request.with("Authorization", &one).send(at).await;
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    }});
    let session = send(Request::bare("POST", "/mcp", initialize.to_string())).await;
    let session = session.header("mcp-session-id").unwrap().to_owned();
    let list = || Request::modern("/mcp", "tools/list", json!({}));
    let in_session = |id: &str| Request::legacy("/mcp", id, 1, "tools/list", &json!({}));

    let nobody = list().send(at).await;
    assert_eq!(nobody.status, 401);
    let foreign = in_session(&session).with("Authorization", &two).send(at).await;
    let unknown = in_session("0123").with("Authorization", &two).send(at).await;
    assert_eq!((foreign.status, foreign.text()), (unknown.status, unknown.text()));
    for (request, status) in [
        (list().with("Host", "elsewhere.example"), 421),
        (list().with("Origin", "https://elsewhere.example"), 403),
        (list().with("Content-Type", "text/plain"), 415),
        (list().body("{"), 400),
        (list().with("Mcp-Method", "tools/call"), 400),
        (Request::modern("/servers/nobody/mcp", "tools/list", json!({})), 404),
    ] {
        assert_eq!(send(request).await.status, status);
    }
    recorded(&file, json!({"kind": "refusal", "reason": "unauthenticated", "who": null})).await;
    let foreign = recorded(&file, json!({"kind": "refusal", "reason": "session"})).await;
    assert!(foreign["words"].as_str().unwrap().contains("another caller"), "{foreign}");
    assert_eq!(foreign["issuer"], "key");
    recorded(
        &file,
        json!({"reason": "session", "words": "no such session", "who": foreign["who"]}),
    )
    .await;
    for reason in ["host", "origin", "unsupported", "malformed", "mismatch"] {
        recorded(&file, json!({"kind": "refusal", "reason": reason})).await;
    }
    recorded(
        &file,
        json!({"kind": "refusal", "reason": "not_found", "endpoint": "/servers/nobody/mcp"}),
    )
    .await;

    let told = denied(&gate, &one, &session).await;
    let deny = |rule: Value, more: Value| {
        let mut wanted = json!({"kind": "decision", "decision": "deny", "rule": rule});
        wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        wanted
    };
    for (rule, more) in [
        (json!("not-that-tool"), json!({"name": "a__u", "server": "a", "endpoint": null})),
        (json!("not-that-tool"), json!({"name": "u", "server": "a", "endpoint": "/servers/a/mcp"})),
        (json!("not-that-tool"), json!({"name": "a/u", "server": "a"})),
        (json!("default"), json!({"name": "a__v", "server": "a"})),
        (Value::Null, json!({"name": "a__none", "server": null})),
        (json!("not-that-prompt"), json!({"method": "prompts/get", "server": "a"})),
        (json!("not-that-prompt"), json!({"method": "completion/complete", "server": "a"})),
        (json!("not-that-note"), json!({"method": "resources/read", "server": "a"})),
        (
            json!("not-that-note"),
            json!({"method": "resources/subscribe", "name": "a+note://secret"}),
        ),
        (json!("not-that-often"), json!({"method": "resources/templates/list"})),
    ] {
        recorded(&file, deny(rule, more)).await;
    }
    // A listen, a permitted resource and a denied resource.
    recorded(
        &file,
        json!({"decision": "allow", "method": "subscriptions/listen", "issuer": "key"}),
    )
    .await;
    recorded(&file, json!({"decision": "allow", "method": "resources/subscribe", "rule": "most"}))
        .await;
    let twice = deny(
        json!("not-that-note"),
        json!({"method": "resources/subscribe", "name": "a+note://secret"}),
    );
    until("one in each era", async || {
        let count = records(&file).iter().filter(|record| has(record, &twice)).count();
        assert!(count <= 2, "{count} records");
        (count == 2).then_some(())
    })
    .await;
    for answer in told.iter().map(Answer::text) {
        assert!(!answer.contains("not-that-tool") && !answer.contains("not-that-note"), "{answer}");
    }
    let metrics = send(Request::bare("GET", "/metrics", "")).await.text();
    assert!(metrics.contains(r#"reason="session"} 2"#), "{metrics}");
    verified(&file);
}

/// A revoked key, a missing scope and a dry-run policy are recorded, and logged with the rule and
/// the reason in separate fields.
#[tokio::test]
async fn records_name_the_key_the_scope_and_the_trial() {
    const TRIAL: &str = "policies:\n  - {name: all, effect: allow, what: {}}\n  - {name: later, effect: deny, what: {tools: [a/u]}, \
                         dry_run: true}\n  - {name: strict, effect: deny, what: {tools: [a/v]}, arguments: {/x: {forbid: true}}}\n";
    let server = Upstream::http(modern(&["t", "u", "v"])).await;
    let folder = tempfile::tempdir().unwrap();
    let (file, policies) = (folder.path().join("audit.jsonl"), folder.path().join("all.yaml"));
    std::fs::write(&policies, TRIAL).unwrap();
    let (one, two) = (key(folder.path(), "one"), key(folder.path(), "two"));
    let id = two[10..26].to_owned();
    let keys = folder.path().join("keys.yaml");
    let done = command().args(["keys", "revoke", &id, "--file"]).arg(&keys).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let mut gate = Gate::start(json!({
        "servers": {"a": server.config()}, "policy": {"files": [policies]}, "audit": {"file": file},
        "auth": {"keys_file": keys, "scopes": {"tools": {"a/t": ["mcp:t"]}}}, "log": {"level": "info,audit=debug"},
    }))
    .await;
    let call = async |key: &str, name: &str, arguments: Value| {
        let body = json!({"name": name, "arguments": arguments});
        Request::modern("/mcp", "tools/call", body)
            .with("Authorization", key)
            .send(gate.address)
            .await
    };
    assert_eq!(call(&two, "a__u", json!({})).await.status, 401);
    assert_eq!(call(&one, "a__t", json!({})).await.status, 403);
    // An alternative spelling is recorded as the listed name.
    assert_eq!(call(&one, "a/u", json!({})).await.code(), 0);
    assert!(call(&one, "a/v", json!({"x": 1})).await.text().contains("refused by policy strict"));
    recorded(
        &file,
        json!({"kind": "refusal", "reason": "unauthenticated", "issuer": "key", "who": id}),
    )
    .await;
    recorded(&file, json!({"decision": "deny", "rule": "scopes", "server": "a", "name": "a__t"}))
        .await;
    recorded(&file, json!({"decision": "deny", "rule": "strict", "server": "a", "name": "a__v"}))
        .await;
    let trial = json!({"decision": "allow", "rule": "all", "name": "a__u", "dry_run": "later", "reason": "the policy hides it"});
    recorded(&file, trial).await;
    assert_eq!(call(&one, "a__none", json!({})).await.code(), -32602);
    gate.terminate();
    gate.ended().await;
    let log = gate.log();
    assert!(log.contains(r#"reason=the policy hides it"#), "{log}");
    let none = log.lines().find(|line| line.contains("a__none") && line.contains("deny")).unwrap();
    assert!(
        !none.contains("rule=") && none.contains(r#"reason="unknown tool: a__none""#),
        "{none}"
    );
}

/// Failed attempts in a session are recorded, as in the modern era.
#[tokio::test]
async fn probes_are_recorded_in_both_eras() {
    let server = Upstream::http(modern(&["t"])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let gate =
        Gate::start(json!({"servers": {"a": server.config()}, "audit": {"file": file}})).await;
    let session = gate.session("/mcp", "2025-11-25").await;
    for method in ["tools/delete", "notifications/none", "server/discover", "tasks/get"] {
        assert_eq!(session.ask(method, json!({})).await.code(), -32601, "{method}");
    }
    assert_eq!(session.ask("logging/setLevel", json!({"level": "loud"})).await.code(), -32602);
    assert_eq!(gate.modern("/mcp", "tools/erase", json!({})).await.code(), -32601);
    for reason in ["tools/delete", "notifications/none", "server/discover", "tools/erase"] {
        let told = recorded(
            &file,
            json!({"kind": "refusal", "reason": "not_found", "words": format!("method not found: {reason}")}),
        )
        .await;
        assert_eq!(told["who"], "user", "{told}");
    }
    recorded(&file, json!({"kind": "decision", "decision": "deny", "method": "tasks/get"})).await;
    recorded(&file, json!({"kind": "refusal", "words": "`params.level` is not a log level"})).await;
    // A request method without an id is not executed, but recorded; a notification is not recorded.
    let quiet =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}});
    let call = json!({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "a__t", "arguments": {}}});
    for body in [&quiet, &call] {
        assert_eq!(session.post(body.to_string()).send(gate.address).await.status, 202);
    }
    recorded(
        &file,
        json!({"kind": "refusal", "words": "`tools/call` requires an id and was ignored"}),
    )
    .await;
    assert!(!records(&file).iter().any(|record| record.to_string().contains("cancelled")));
    assert_eq!(server.count("tools/call"), 0);
}

#[tokio::test]
async fn refusals_over_stdio_are_recorded_like_those_over_http() {
    let server = Upstream::http(server).await;
    let folder = tempfile::tempdir().unwrap();
    let (file, policies) = (folder.path().join("audit.jsonl"), folder.path().join("all.yaml"));
    std::fs::write(&policies, POLICIES).unwrap();
    let mut pipe = Pipe::start(json!({
        "servers": {"a": server.config()}, "audit": {"file": file}, "policy": {"files": [policies]},
        "http": {"body_bytes": 2000},
    }));
    pipe.say(&"x".repeat(3000)).await;
    assert!(pipe.hear().await["error"].is_object());
    pipe.say("{").await;
    assert!(pipe.hear().await["error"].is_object());
    pipe.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#).await;
    assert!(pipe.hear().await["error"].is_object());
    let denied =
        pipe.modern(json!(2), "tools/call", json!({"name": "a__u", "arguments": {}})).await;
    assert!(denied["error"].is_object(), "{denied}");
    for reason in ["body_too_large", "malformed", "session"] {
        recorded(&file, json!({"kind": "refusal", "reason": reason})).await;
    }
    let denied =
        recorded(&file, json!({"kind": "decision", "decision": "deny", "rule": "not-that-tool"}))
            .await;
    assert_eq!(
        (&denied["issuer"], &denied["who"], &denied["name"]),
        (&json!("local"), &json!("user"), &json!("a__u"))
    );
}

/// Sends every kind of request for items that the policy hides or limits.
async fn denied(gate: &Gate, key: &str, session: &str) -> Vec<Answer> {
    let mut told = Vec::new();
    let call = |path: &str, name: &str| {
        Request::modern(path, "tools/call", json!({"name": name, "arguments": {}}))
    };
    let complete = json!({"ref": {"type": "ref/prompt", "name": "a__p"}, "argument": {"name": "x", "value": ""}});
    for request in [
        call("/mcp", "a__u"),
        call("/mcp", "a/u"),
        call("/servers/a/mcp", "u"),
        call("/mcp", "a__v"),
        call("/mcp", "a__none"),
        Request::modern("/mcp", "prompts/get", json!({"name": "a__p"})),
        Request::modern("/mcp", "completion/complete", complete),
        Request::modern("/mcp", "resources/read", json!({"uri": "a+note://secret"})),
        Request::legacy(
            "/mcp",
            session,
            1,
            "resources/subscribe",
            &json!({"uri": "a+note://secret"}),
        ),
    ] {
        let answer = request.with("Authorization", key).send(gate.address).await;
        assert!(answer.code() != 0, "{}", answer.text());
        told.push(answer);
    }
    let templates = || {
        Request::modern("/mcp", "resources/templates/list", json!({})).with("Authorization", key)
    };
    assert_eq!(templates().send(gate.address).await.code(), 0);
    assert_eq!(templates().send(gate.address).await.code(), -31029);
    let uris = json!(["a+note://open", "a+note://secret"]);
    let listen = Request::modern(
        "/mcp",
        "subscriptions/listen",
        json!({"notifications": {"resourceSubscriptions": uris}}),
    );
    let mut stream = listen.with("Authorization", key).open(gate.address).await;
    let granted = stream.next().await.unwrap();
    assert_eq!(
        granted["params"]["notifications"]["resourceSubscriptions"],
        json!(["a+note://open"])
    );
    told
}

/// Limits the size of files the process may write, to simulate a full disk.
fn room(gate: &Gate, bytes: Option<u64>) {
    let pid = Pid::from_raw(i32::try_from(gate.pid()).unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

async fn full(on_full: &str) -> (Upstream, tempfile::TempDir, Gate) {
    let server = Upstream::http(modern(&["t"])).await;
    let folder = tempfile::tempdir().unwrap();
    let audit = json!({"file": folder.path().join("audit.jsonl"), "on_full": on_full, "queue": 64, "arguments": "omitted"});
    let gate =
        Gate::launch_bounded(json!({"servers": {"a": server.config()}, "audit": audit})).await;
    gate.ready().await;
    for _ in 0..3 {
        assert_eq!(gate.call("a__t").await.code(), 0);
    }
    recorded(&folder.path().join("audit.jsonl"), json!({"kind": "outcome", "call": 3})).await;
    let size = std::fs::metadata(folder.path().join("audit.jsonl")).unwrap().len();
    room(&gate, Some(size + 100));
    (server, folder, gate)
}

async fn metric(gate: &Gate, name: &str) -> u64 {
    let text = Request::bare("GET", "/metrics", "").send(gate.address).await.text();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// `on_full: deny`: calls are refused with the reason, lists still work, and calls resume, without
/// a gap in the trail, once there is room.
#[tokio::test]
async fn a_full_disk_stops_calls_until_there_is_room() {
    let (server, folder, mut gate) = full("deny").await;
    let file = folder.path().join("audit.jsonl");
    let refused = until("calls are refused", async || {
        let answer = gate.call("a__t").await;
        (answer.code() != 0).then_some(answer)
    })
    .await;
    let (error, sent) = (refused.json()["error"].clone(), server.count("tools/call"));
    assert_eq!(
        (refused.status, &error["code"], &error["data"]["reason"]),
        (503, &json!(-32603), &json!("audit"))
    );
    assert!(
        refused.header("retry-after").is_some()
            && error["message"].as_str().unwrap().contains("audit trail")
    );
    let session: Session<'_> = gate.session("/mcp", "2025-11-25").await;
    assert_eq!(session.call("a__t").await.json()["error"]["data"]["reason"], "audit");
    assert_eq!(server.count("tools/call"), sent, "no server was reached");
    assert_eq!(gate.tools("/mcp").await.0, ["a__t"], "lists go on");
    assert_eq!(metric(&gate, "lockgate_audit_failing").await, 1);
    room(&gate, None);
    until("calls are made again", async || (gate.call("a__t").await.code() == 0).then_some(()))
        .await;
    assert_eq!(metric(&gate, "lockgate_audit_failing").await, 0);
    gate.terminate();
    gate.ended().await;
    verified(&file);
    let all = records(&file);
    let allowed = all
        .iter()
        .filter(|record| has(record, &json!({"kind": "decision", "decision": "allow"})))
        .count();
    assert_eq!(
        allowed,
        server.count("tools/call"),
        "a decision for each call that was made, and no more"
    );
}

/// `on_full: drop`: calls continue, and a gap record counts the missing records.
#[tokio::test]
async fn a_full_disk_costs_records_and_no_calls() {
    let (server, folder, mut gate) = full("drop").await;
    let file = folder.path().join("audit.jsonl");
    for n in 0..120 {
        assert_eq!(gate.call("a__t").await.code(), 0, "call {n}");
    }
    assert_eq!(server.count("tools/call"), 123);
    assert_eq!(metric(&gate, "lockgate_audit_failing").await, 1);
    let lost = metric(&gate, "lockgate_audit_lost_total").await;
    assert!(lost > 0);
    room(&gate, None);
    let gap = recorded(&file, json!({"kind": "gap"})).await;
    gate.terminate();
    gate.ended().await;
    verified(&file);
    let gaps = records(&file).iter().filter_map(|record| record["lost"].as_u64()).sum::<u64>();
    assert!(gap["lost"].as_u64().unwrap() > 0 && gaps >= lost, "{gap}: {lost}");
}

/// A failing stream (`/dev/full`) counts as a full disk.
#[tokio::test]
async fn a_full_stream_stops_calls_too() {
    let server = Upstream::http(modern(&["t"])).await;
    for (on_full, wanted) in [("deny", "audit"), ("drop", "")] {
        let audit = json!({"output": "stdout", "on_full": on_full});
        let out = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let gate = Gate::launch_onto(
            json!({"servers": {"a": server.config()}, "audit": audit}),
            out.into(),
        )
        .await;
        gate.ready().await;
        until("the trail fails", async || {
            (metric(&gate, "lockgate_audit_failing").await == 1).then_some(())
        })
        .await;
        let answer = gate.call("a__t").await.json();
        assert_eq!(
            answer["error"]["data"]["reason"].as_str().unwrap_or_default(),
            wanted,
            "{on_full}: {answer}"
        );
    }
}
