//! Tool search from outside, in both eras: short lists, found and described tools, and calls by
//! `call_tool`, which have the results and records of direct calls.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::approvals::{OWN, Rig, decision, last, session};
use crate::principals::By;
use crate::rig::client::Request;
use crate::rig::gate::command;
use crate::rig::upstream::{modern, modern_with, tool};
use crate::rig::{Client, Gate, Say, Upstream, Value, json, until};

const MANAGEMENT: [&str; 3] = ["find_tools", "describe_tools", "call_tool"];

const POLICIES: &str = "policies:
  - { name: most, effect: allow, what: { tools: ['a/[!c]*'] } }
  - { name: not-secret, effect: deny, what: { tools: ['a/secret'] } }
  - { name: seldom, effect: deny, what: { tools: ['a/seldom'] }, rate: { per_hour: 3 } }
  - { name: small, effect: allow, what: { tools: ['a/checked'] }, arguments: { /n: { value: { max: 5 } } } }
  - { name: only-one, effect: deny, who: { principals: ['*two*'] }, what: { tools: ['a/private'] } }
";

fn described(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object",
        "properties": {"city": {"type": "string", "description": "Name of a town"}},
        "required": ["city"]}})
}

fn weather() -> Vec<Value> {
    vec![
        described("get_forecast", "Returns the weather of the next days. Slowly."),
        described("send_message", "Sends a message to a channel."),
        described("secret", "Returns the secret weather."),
        tool("plain"),
    ]
}

async fn clients<'a>(gate: &'a Gate, path: &'a str) -> [Client<'a>; 3] {
    [
        Client::Modern(gate, path),
        Client::Legacy(gate.session(path, "2025-11-25").await),
        Client::Legacy(gate.session(path, "2024-11-05").await),
    ]
}

#[tokio::test]
async fn tools_are_found_described_and_called() {
    let server = Upstream::http(modern_with(weather())).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    std::fs::write(&file, POLICIES).unwrap();
    let gate = Gate::start(json!({
        "servers": {"a": server.config()}, "policy": {"files": [file]},
        "tool_search": {"tools": "search", "always": ["a__plain", "a__absent"],
            "synonyms": {"tempest": ["weather"]}},
    }))
    .await;
    for (path, prefix) in [("/mcp", "a__"), ("/servers/a/mcp", "")] {
        for client in clients(&gate, path).await {
            let mut listed = MANAGEMENT.map(str::to_owned).to_vec();
            if path == "/mcp" {
                listed.push("a__plain".into());
            }
            assert_eq!(client.tools().await, listed);
            for query in ["weather", "forcast", "tempest", "wea\u{200b}ther"] {
                let (found, is_error) = client.text("find_tools", json!({"query": query})).await;
                let line = format!(
                    "{prefix}get_forecast(city: string) – Returns the weather of the next days."
                );
                assert_eq!((found, is_error), (line, false), "{query}");
            }
            let (found, _) =
                client.text("find_tools", json!({"query": "weather", "server": "b"})).await;
            assert_eq!(found, "No tool matches. Use other words.");
            let names = [format!("{prefix}get_forecast"), format!("{prefix}secret"), "x".into()];
            let (text, _) = client.text("describe_tools", json!({"names": names})).await;
            let mut lines = text.lines();
            let definition: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
            assert_eq!(definition[0]["name"], names[0]);
            assert_eq!(definition[0]["inputSchema"], weather()[0]["inputSchema"]);
            let rest: Vec<_> = lines.collect();
            assert_eq!(rest, [format!("unknown tool: {prefix}secret").as_str(), "unknown tool: x"]);
            let before = server.count("tools/call");
            let wrapped = json!({"name": names[0], "arguments": {"city": "Oslo"}});
            assert_eq!(client.call("call_tool", wrapped).await.code(), 0);
            assert_eq!(server.count("tools/call"), before + 1);
            let heard = server.heard_of("tools/call").pop().unwrap();
            assert_eq!(heard.body["params"]["name"], "get_forecast");
            assert_eq!(heard.body["params"]["arguments"], json!({"city": "Oslo"}));
        }
    }
    let discovered = gate.modern("/mcp", "server/discover", json!({})).await.result();
    let words = discovered["instructions"].as_str().unwrap();
    assert!(words.contains("find_tools") && words.contains("\n- a"), "{words}");
}

#[tokio::test]
async fn bad_lookups_get_words_and_reach_no_server() {
    let server = Upstream::http(modern_with(weather())).await;
    let config = json!({"servers": {"a": server.config()}, "tool_search": {"tools": "search"}});
    let gate = Gate::start(config).await;
    let cases = [
        ("find_tools", json!({}), "`query` must be a string"),
        ("find_tools", json!({"query": 7}), "`query` must be a string"),
        ("find_tools", json!({"query": "\u{200b}"}), "no words"),
        ("find_tools", json!({"query": "((.*)+)+$"}), "no words"),
        ("find_tools", json!({"query": "x".repeat(4097)}), "4097 bytes, more than 4096"),
        ("find_tools", json!({"query": "x".repeat(1 << 20)}), "longer than 65536 bytes"),
        ("find_tools", json!({"query": "x", "limit": 0}), "from 1 to 25"),
        ("find_tools", json!({"query": "x", "limit": 26}), "from 1 to 25"),
        ("find_tools", json!({"query": "x", "server": []}), "`server` must be a string"),
        ("find_tools", json!({"query": "x", "sever": "a"}), "unknown argument \"sever\""),
        ("find_tools", json!([]), "must be an object"),
        ("describe_tools", json!({"names": []}), "1 to 20 names"),
        ("describe_tools", json!({"names": vec!["x"; 21]}), "1 to 20 names"),
        ("describe_tools", json!({"names": ["x"]}), "unknown tool: x"),
        ("call_tool", json!({}), "must have the `name` of a tool"),
        ("call_tool", json!({"name": "call_tool", "arguments": {}}), "Call call_tool directly"),
        ("call_tool", json!({"name": "find_tools"}), "Call find_tools directly"),
        ("call_tool", json!({"name": "a__plain", "argument": {}}), "unknown member"),
    ];
    for client in clients(&gate, "/mcp").await {
        for (name, arguments, words) in &cases {
            let (text, is_error) = client.text(name, arguments.clone()).await;
            assert!(is_error && text.contains(words), "{name} {words}: {text}");
        }
        let (text, is_error) = client.text("find_tools", json!({"query": "x".repeat(4096)})).await;
        assert_eq!((text.as_str(), is_error), ("No tool matches. Use other words.", false));
        // As a direct call would be refused.
        for arguments in [json!([]), json!("x")] {
            let wrapped = json!({"name": "a__plain", "arguments": arguments});
            let answers = [
                client.call("call_tool", wrapped).await,
                client.call("a__plain", arguments.clone()).await,
            ];
            assert_eq!(answers[0].json()["error"], answers[1].json()["error"]);
            assert_ne!(answers[0].code(), 0);
        }
    }
    assert_eq!(server.count("tools/call"), 0);
}

/// `auto` depends on the number of tools and on the client, and the header `Mcp-Name` repeats what
/// the client sent.
#[tokio::test]
async fn lists_are_short_from_a_number_of_tools_and_for_most_clients() {
    let server = Upstream::http(modern(&["t", "u"])).await;
    let other = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({
        "servers": {"a": server.config(), "b": other.config()},
        "tool_search": {"tools": "auto", "threshold": 2, "deferring": ["deferring"],
            "endpoints": {"/servers/a/mcp": "full"}},
    }))
    .await;
    let all = ["a__t", "a__u", "b__t"];
    for client in clients(&gate, "/mcp").await {
        assert_eq!(client.tools().await, MANAGEMENT);
    }
    assert_eq!(gate.tools("/servers/a/mcp").await.0, ["t", "u"]);
    assert_eq!(gate.tools("/servers/b/mcp").await.0, ["t"]);
    let params = json!({"_meta": {"io.modelcontextprotocol/clientInfo":
        {"name": "deferring", "version": "1"}}});
    let listed = gate.modern("/mcp", "tools/list", params.clone()).await.result();
    let names = listed["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]);
    assert!(names.eq(all), "{listed}");
    let mut lookup = params;
    lookup["name"] = "find_tools".into();
    lookup["arguments"] = json!({"query": "t"});
    let unknown = gate.modern("/mcp", "tools/call", lookup).await.text();
    assert!(unknown.contains("unknown tool: find_tools"), "{unknown}");
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "deferring", "version": "1"}}});
    let opened = Request::bare("POST", "/mcp", body.to_string()).send(gate.address).await;
    let session = opened.header("mcp-session-id").unwrap();
    let listed = Request::legacy("/mcp", session, 1, "tools/list", &json!({}));
    let listed = listed.send(gate.address).await.result();
    let names = listed["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]);
    assert!(names.eq(all), "{listed}");
    let wrapped = json!({"name": "call_tool", "arguments": {"name": "a__t", "arguments": {}}});
    let request = Request::modern("/mcp", "tools/call", wrapped);
    assert_eq!(request.send(gate.address).await.code(), 0);
    let answer = request.with("Mcp-Name", "a__t").send(gate.address).await;
    assert_eq!((answer.status, answer.code()), (400, -32020), "{}", answer.text());
}

/// A tool of a server with a reserved name keeps the list full.
#[tokio::test]
async fn reserved_names_of_a_server_come_first() {
    let server = Upstream::http(modern(&["find_tools", "t"])).await;
    let config = json!({"servers": {"a": server.config()}, "tool_search": {"tools": "search"}});
    let gate = Gate::start(config).await;
    assert_eq!(gate.tools("/servers/a/mcp").await.0, ["find_tools", "t"]);
    assert_eq!(gate.tools("/mcp").await.0, MANAGEMENT);
    assert!(gate.log().contains("a tool has a reserved name"), "{}", gate.log());
}

/// Tools for hosts alone stay listed, and are neither found nor called for a model.
#[tokio::test]
async fn tools_for_hosts_are_not_for_models() {
    let mut page = described("page_weather", "Shows the weather.");
    page["_meta"] = json!({"ui": {"resourceUri": "ui://a/b", "visibility": ["app"]}});
    let server = Upstream::http(modern_with(vec![page, tool("t")])).await;
    let config = json!({"servers": {"a": server.config()}, "tool_search": {"tools": "search"}});
    let gate = Gate::start(config).await;
    for client in clients(&gate, "/mcp").await {
        assert_eq!(client.tools().await[3..], ["a__page_weather"]);
        let (found, _) = client.text("find_tools", json!({"query": "weather"})).await;
        assert_eq!(found, "No tool matches. Use other words.");
        let answer = client.call("call_tool", json!({"name": "a__page_weather"})).await.text();
        assert!(answer.contains("unknown tool: a__page_weather"), "{answer}");
        assert_eq!(client.call("a__page_weather", json!({"city": "x"})).await.code(), 0);
    }
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

/// Returns the records of calls, without what differs between any two calls.
fn records(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut records = Vec::new();
    for line in text.lines() {
        let Ok(mut record) = serde_json::from_str::<Value>(line) else { continue };
        if record["method"] != "tools/call" {
            continue;
        }
        let members = record.as_object_mut().unwrap();
        for own in ["id", "time", "seq", "hash", "previous", "duration_ms", "trace", "span"] {
            members.remove(own);
        }
        members.retain(|name, _| !name.ends_with("_us") && !name.ends_with("_ms"));
        if let Some(reason) = record["reason"].as_str() {
            record["reason"] = reason.split("; wait ").next().into();
        }
        records.push(record);
    }
    records
}

/// For random tools, callers and arguments, a wrapped call has the result and the audit record of a
/// direct call.
#[tokio::test]
async fn wrapped_calls_have_the_verdict_and_record_of_direct_calls() {
    let tools = ["plain", "secret", "seldom", "checked", "private", "absent"];
    let server = Upstream::http(modern(&tools[..5])).await;
    let folder = tempfile::tempdir().unwrap();
    let (file, policies) = (folder.path().join("audit.jsonl"), folder.path().join("all.yaml"));
    std::fs::write(&policies, POLICIES).unwrap();
    let keys = [key(folder.path(), "one"), key(folder.path(), "two")];
    let mut results = Vec::new();
    for is_wrapped in [false, true] {
        let file = file.with_extension(if is_wrapped { "wrapped" } else { "direct" });
        let mut gate = Gate::start(json!({
            "servers": {"a": server.config()}, "policy": {"files": [policies]},
            "audit": {"file": file}, "auth": {"keys_file": folder.path().join("keys.yaml")},
            "tool_search": {"tools": "search"},
        }))
        .await;
        let mut random = fastrand::Rng::with_seed(7);
        let mut answers = Vec::new();
        for number in 0..200 {
            let tool = random.choice(&tools).unwrap();
            let key = random.choice(&keys).unwrap();
            let arguments = random
                .choice([
                    json!({}),
                    json!({"n": 1}),
                    json!({"n": 9}),
                    json!({"x": [{}]}),
                    json!([]),
                ])
                .unwrap();
            let name = format!("a__{tool}");
            let params = if is_wrapped {
                json!({"name": "call_tool", "arguments": {"name": name, "arguments": arguments}})
            } else {
                json!({"name": name, "arguments": arguments})
            };
            let request = Request::modern("/mcp", "tools/call", params);
            let answer = request.with("Authorization", key).send(gate.address).await;
            // The time to wait differs.
            let text = answer.text();
            let text = text.split("; wait ").next().unwrap().to_owned();
            answers.push((number, *tool, answer.status, text));
        }
        gate.terminate();
        gate.ended().await;
        let records = records(&file);
        assert!(records.len() > 150, "{}", records.len());
        results.push((answers, records));
    }
    let wrapped = results.pop().unwrap();
    let direct = results.pop().unwrap();
    let refused = direct.1.iter().filter(|record| record["decision"] == "deny").count();
    assert!(refused > 20 && refused < direct.1.len() - 20, "{refused}");
    for (direct, wrapped) in direct.0.iter().zip(&wrapped.0) {
        assert_eq!(direct, wrapped);
    }
    for (direct, wrapped) in direct.1.iter().zip(&wrapped.1) {
        assert_eq!(direct, wrapped);
    }
    assert_eq!(direct.1.len(), wrapped.1.len());
}

/// Approval of a wrapped call is asked for in both eras, and is good for the call that it names.
#[tokio::test]
async fn wrapped_calls_are_approved_as_direct_calls() {
    let rig = Rig::new(OWN, json!({"tool_search": {"tools": "search"}})).await;
    let ann = rig.person("ann").await;
    let wrapped = |tool: &str| json!({"arguments": {"name": tool, "arguments": {"n": 1}}});
    let asked = rig.call(&ann, "call_tool", wrapped("a__drop")).await.result();
    let question = asked["inputRequests"]["approval"]["params"]["message"].as_str().unwrap();
    assert!(question.contains("Tool: a__drop (server a)"), "{question}");
    let mut yes = wrapped("a__wipe");
    yes["requestState"] = asked["requestState"].clone();
    yes["inputResponses"] = decision("approve");
    let other = rig.call(&ann, "call_tool", yes.clone()).await;
    assert_eq!((other.code(), rig.calls()), (-32602, 0), "{}", other.text());
    yes["arguments"] = wrapped("a__drop")["arguments"].clone();
    let done = rig.call(&ann, "call_tool", yes).await.result();
    assert_eq!((done["resultType"].as_str(), rig.calls()), (Some("complete"), 1));

    let at = session(&rig, &ann, json!({"elicitation": {}})).await;
    let call = json!({"name": "call_tool", "arguments": {"name": "a__drop"}});
    let request = Request::legacy("/mcp", &at, 9, "tools/call", &call).by(&ann);
    let mut stream = request.open(rig.gate.address).await;
    let question = stream.next().await.unwrap();
    let words = question["params"]["message"].as_str().unwrap();
    assert!(words.contains("Tool: a__drop (server a)"), "{words}");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"],
        "result": decision("approve")["approval"]});
    let posted = Request::bare("POST", "/mcp", answer.to_string()).with("Mcp-Session-Id", &at);
    assert_eq!(posted.by(&ann).send(rig.gate.address).await.status, 202);
    let result = last(stream).await;
    assert_eq!((result["id"].as_i64(), rig.calls()), (Some(9), 2), "{result}");
    assert!(result["result"]["content"].is_array(), "{result}");
}

/// Among many tools of equal names, searches are quick and the rest is unharmed.
#[tokio::test]
async fn many_equal_tools_are_searched() {
    let mut tools = Vec::new();
    for number in 0..2_000 {
        tools.push(described(&format!("same_{number}"), "The same tool."));
    }
    let server = Upstream::http(modern_with(tools)).await;
    let config = json!({"servers": {"a": server.config()}, "tool_search": {"tools": "auto"}});
    let gate = Gate::start(config).await;
    let names = until("the tools are there", async || {
        let names = gate.tools("/mcp").await.0;
        (names.len() == 3).then_some(names)
    })
    .await;
    assert_eq!(names, MANAGEMENT);
    let client = Client::Modern(&gate, "/mcp");
    let (found, _) = client.text("find_tools", json!({"query": "same tool", "limit": 25})).await;
    assert_eq!(found.lines().count(), 25, "{found}");
    assert!(found.starts_with("a__same_0(city: string) – The same tool."), "{found}");
    assert_eq!(
        client.text("find_tools", json!({"query": "same tool", "limit": 25})).await.0,
        found
    );
}

/// What the server of embeddings does.
const WELL: usize = 0;
const BAD: [&str; 5] = ["a redirect", "too long", "not a number", "no vector", "gone at once"];
const SILENT: usize = BAD.len() + 1;

/// Returns a vector by the topics of a text.
fn embed(text: &str) -> Value {
    let topics = [["weather", "precipitation"], ["message", "chatter"], ["plain", "simple"]];
    let text = text.to_lowercase();
    let has = |words: &[&str; 2]| u8::from(words.iter().any(|word| text.contains(word)));
    let mut vector: Vec<f64> = topics.iter().map(|words| f64::from(has(words))).collect();
    vector.push(0.1);
    json!(vector)
}

/// Starts a server of embeddings with a behaviour that can be changed.
async fn embedder(behaviour: &Arc<AtomicUsize>, elsewhere: String) -> Upstream {
    let behaviour = Arc::clone(behaviour);
    Upstream::http(move |heard| {
        let texts = heard.body["input"].as_array().unwrap();
        let vectors = texts.iter().enumerate().map(|(index, text)| {
            json!({"object": "embedding", "index": index, "embedding": embed(text.as_str().unwrap())})
        });
        let answer = json!({"object": "list", "data": vectors.collect::<Vec<_>>(), "model": "m"});
        match behaviour.load(Ordering::SeqCst) {
            WELL => Say::Json(answer),
            1 => Say::Status(307, vec![("Location", elsewhere.clone())], answer),
            2 => Say::Long(b"{\"data\": [\"".to_vec(), 9 << 20, "\"]}"),
            3 => Say::Text("application/json", answer.to_string().replace("0.1", "NaN").into()),
            4 => Say::Json(json!({"data": []})),
            SILENT => Say::Nothing,
            _ => Say::Close,
        }
    })
    .await
}

/// Returns the texts that the server of embeddings got.
fn embedded(server: &Upstream) -> Vec<String> {
    let mut texts = Vec::new();
    for heard in server.heard() {
        assert_eq!(heard.body["model"], "test-model");
        assert_eq!(heard.header("authorization"), Some("Bearer embedding-key"));
        for text in heard.body["input"].as_array().unwrap() {
            texts.push(text.as_str().unwrap().to_owned());
        }
    }
    texts
}

async fn count_failures(gate: &Gate) -> u64 {
    let metrics = Request::bare("GET", "/metrics", "").send(gate.address).await.text();
    let start = "lockgate_embedding_requests_total{outcome=\"failure\"} ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(start));
    line.unwrap().parse().unwrap()
}

async fn find(client: &Client<'_>, query: &str) -> String {
    let (found, is_error) = client.text("find_tools", json!({"query": query})).await;
    assert!(!is_error, "{found}");
    found
}

/// With embeddings, words of another vocabulary find tools, and never hidden ones. Without the
/// server, or with a bad one, tools are found by words, as without embeddings.
#[tokio::test]
async fn tools_are_found_by_meaning_or_else_by_words() {
    let behaviour = Arc::new(AtomicUsize::new(WELL));
    let elsewhere = Upstream::http(|_| Say::Close).await;
    let location = format!("http://{}/v1/embeddings", elsewhere.address);
    let mut vectors = embedder(&behaviour, location).await;
    let server = Upstream::http(modern_with(weather())).await;
    let other = Upstream::http(modern_with(vec![described("chat", "Chatter about rain.")])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    let policies = "policies: [{ name: all, effect: allow, what: { tools: ['**'] } },
        { name: not-secret, effect: deny, what: { tools: ['a/secret'] } }]";
    std::fs::write(&file, policies).unwrap();
    let url = format!("http://{}/v1/embeddings", vectors.address);
    let mut config = json!({
        "servers": {"a": server.config()}, "policy": {"files": [file]},
        "tool_search": {"tools": "search", "embeddings": {"url": url, "model": "test-model",
            "headers": {"Authorization": "Bearer embedding-key"}, "timeout": 1}},
    });
    let gate = Gate::start(config.clone()).await;
    let client = Client::Modern(&gate, "/mcp");
    let first = "a__get_forecast(city: string) – Returns the weather of the next days.";
    client.tools().await;
    until("tools have vectors", async || {
        find(&client, "precipitation").await.starts_with(first).then_some(())
    })
    .await;
    let found = find(&client, "precipitation").await;
    assert_eq!(found.lines().count(), 3, "{found}");
    assert!(!found.contains("secret"), "{found}");
    for client in clients(&gate, "/servers/a/mcp").await {
        let found = find(&client, "precipitation").await;
        assert!(found.starts_with(&first[3..]) && !found.contains("secret"), "{found}");
    }
    let mut texts = embedded(&vectors);
    texts.retain(|text| text != "precipitation");
    texts.sort();
    let described = "a get_forecast. Returns the weather of the next days. Slowly. city";
    assert_eq!((texts.len(), texts[0].as_str()), (4, described), "{texts:?}");

    // Only new texts are sent after a change.
    config["servers"]["b"] = other.config();
    gate.configure(config.clone());
    until("the new tool has a vector", async || {
        find(&client, "chatter").await.contains("b__chat").then_some(())
    })
    .await;
    until("both are found by meaning", async || {
        let found = find(&client, "precipitation").await;
        (found.starts_with(first) && found.contains("b__chat")).then_some(())
    })
    .await;
    let again = embedded(&vectors).into_iter().filter(|text| text.starts_with("a ")).count();
    let new = embedded(&vectors).into_iter().filter(|text| text.starts_with("b ")).count();
    assert_eq!((again, new), (4, 1));

    config["tool_search"].as_object_mut().unwrap().remove("embeddings");
    let plain = Gate::start(config).await;
    let plain = Client::Modern(&plain, "/mcp");
    until("both servers are there", async || {
        find(&plain, "chatter").await.contains("b__chat").then_some(())
    })
    .await;
    let queries = ["weather", "message channel weather", "precipitation", "town", "chatter"];
    let mut failures = count_failures(&gate).await;
    assert_eq!(failures, 0, "{}", gate.log());
    for (number, name) in (1..).zip(BAD) {
        behaviour.store(number, Ordering::SeqCst);
        for query in queries {
            assert_eq!(find(&client, query).await, find(&plain, query).await, "{name}: {query}");
        }
        failures += u64::try_from(queries.len()).unwrap();
        assert_eq!(count_failures(&gate).await, failures, "{name}");
    }
    assert!(elsewhere.heard().is_empty(), "redirects are not followed");
    behaviour.store(WELL, Ordering::SeqCst);
    assert!(find(&client, "precipitation").await.starts_with(first));
    vectors.stop().await;
    for query in queries {
        assert_eq!(find(&client, query).await, find(&plain, query).await, "gone: {query}");
    }
    vectors.restart().await;
    assert!(find(&client, "precipitation").await.starts_with(first));
    // One search waits for a silent server; those after it do not.
    behaviour.store(SILENT, Ordering::SeqCst);
    let before = vectors.heard().len();
    for query in queries {
        assert_eq!(find(&client, query).await, find(&plain, query).await, "silent: {query}");
    }
    assert_eq!(vectors.heard().len(), before + 1);
    let log = gate.log();
    assert_eq!(log.matches("tools are found by words alone").count(), 1, "{log}");
    assert!(!log.contains("embedding-key"), "{log}");
}
