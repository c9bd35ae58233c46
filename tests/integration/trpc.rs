//! tRPC from outside, in its wire format: single calls and batches, the form of errors, and tool
//! calls that behave as over MCP.

use crate::principals::{By, key};
use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Upstream, Value, json, until};

const POLICIES: &str = "policies:
  - { name: most, effect: allow, what: { tools: ['a/t', 'a/u', 'a/w', 'example/*'] } }
  - { name: no-u, effect: deny, what: { tools: ['a/u'] } }
  - { name: short, effect: deny, what: { tools: ['a/w'] }, when: 'has(arguments.n) && arguments.n > 1' }
";

fn query(path: &str) -> Request {
    Request::bare("GET", &format!("/trpc/{path}"), "")
}

fn mutation(path: &str, input: &Value) -> Request {
    Request::bare("POST", &format!("/trpc/{path}"), input.to_string())
}

/// Returns the status, `data.code` and message of a failed call.
fn failure(answer: &Answer) -> (u16, String, String) {
    assert_eq!(answer.header("content-type"), Some("application/json"), "{}", answer.text());
    let error = &answer.json()["error"];
    assert!(error["code"].is_number(), "{}", answer.text());
    assert_eq!(error["data"]["httpStatus"], answer.status, "{error}");
    let code = error["data"]["code"].as_str().unwrap_or_default().to_owned();
    (answer.status, code, error["message"].as_str().unwrap_or_default().to_owned())
}

async fn gate_with_keys(server: &Upstream) -> (Gate, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.yaml"), POLICIES).unwrap();
    let config = json!({
        "servers": {"a": server.config()}, "auth": {"keys_file": "keys.yaml"},
        "audit": {"output": "file", "file": "audit.jsonl"},
        "policy": {"files": [folder.path().join("p.yaml")]},
    });
    (Gate::start(config).await, folder)
}

/// Hidden tools do not exist, and an error by policy names the policy.
#[tokio::test]
async fn a_tool_is_called_as_over_mcp() {
    let server = Upstream::http(modern(&["t", "u", "v", "w"])).await;
    let (gate, _policies) = gate_with_keys(&server).await;
    let user = key(&gate, "user", &[]).await;
    let at = gate.address;
    let tools = until("the tools are there", async || {
        let tools = query("mcp.listTools").by(&user).send(at).await.json();
        (tools["result"]["data"]["total"] == 2).then_some(tools)
    })
    .await;
    let tools = &tools["result"]["data"]["tools"];
    assert_eq!((&tools[0]["name"], &tools[1]["name"]), (&json!("a__t"), &json!("a__w")));
    let status = query("mcp.status").by(&user).send(at).await.json();
    assert_eq!(status["result"]["data"]["tools"], 2, "{status}");
    assert_eq!(status["result"]["data"]["servers"][0]["name"], "a", "{status}");
    let before = server.count("tools/call");
    for name in ["a__t", "a/t"] {
        let input = json!({"name": name, "arguments": {"n": 1}});
        let called = mutation("mcp.executeTool", &input).by(&user).send(at).await;
        assert_eq!(called.status, 200, "{}", called.text());
        assert!(called.json()["result"]["data"]["content"].is_array(), "{}", called.text());
        assert_eq!(called.header("vary"), Some("trpc-accept, accept"));
    }
    assert_eq!(server.count("tools/call"), before + 2);
    // Call statistics of a shared server are for operators; sessions are counted by organisation.
    let operator = key(&gate, "operator", &["--role", "operator"]).await;
    let member = key(&gate, "member", &["--organisation", "other"]).await;
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    }});
    let opened = Request::bare("POST", "/mcp", initialize.to_string()).by(&user).send(at).await;
    assert_eq!(opened.status, 200, "{}", opened.text());
    let told = json!({"total": 2, "failed": 0, "successRate": 1.0});
    let nothing = json!({"total": 0, "failed": 0});
    for (by, requests, sessions) in
        [(&operator, &told, 1), (&user, &nothing, 1), (&member, &nothing, 0)]
    {
        let status = query("mcp.status").by(by).send(at).await.json();
        let status = &status["result"]["data"];
        assert_eq!((&status["requests"], &status["activeSessions"]), (requests, &json!(sessions)));
    }
    let mut answers = Vec::new();
    for name in ["a__u", "a__v", "a__x"] {
        let refused = mutation("mcp.executeTool", &json!({"name": name}));
        let refused = refused.by(&user).send(at).await;
        assert_eq!(failure(&refused).1, "NOT_FOUND", "{}", refused.text());
        answers.push(refused.text().replace(name, "…"));
    }
    assert_eq!((&answers[0], &answers[1]), (&answers[1], &answers[2]));
    let refused = mutation("mcp.executeTool", &json!({"name": "a__w", "arguments": {"n": 2}}));
    let refused = refused.by(&user).send(at).await;
    let (status, code, _) = failure(&refused);
    assert_eq!((status, &*code), (403, "FORBIDDEN"), "{}", refused.text());
    assert_eq!(refused.json()["error"]["data"]["rule"], "short", "{}", refused.text());
    assert_eq!(server.count("tools/call"), before + 2);
    let trail = gate.folder.path().join("audit.jsonl");
    until("a decision is recorded for each call", async || {
        let text = std::fs::read_to_string(&trail).unwrap_or_default();
        let decisions = text.lines().filter(|line| line.contains("\"kind\":\"decision\""));
        let decisions: Vec<&str> = decisions.collect();
        let ours = decisions.iter().filter(|line| line.contains("\"transport\":\"trpc\"")).count();
        (decisions.len() == 6 && ours == 6).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_batch_is_answered_call_by_call() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let at = gate.address;
    let calls = json!({"0": {"name": "a__t"}, "1": {"name": "a__nothing"}, "2": {"nme": 1}});
    let path = "mcp.executeTool,mcp.executeTool,mcp.executeTool,mcp.nothing?batch=1";
    let mixed = mutation(path, &calls).send(at).await;
    assert_eq!(mixed.status, 207, "{}", mixed.text());
    let mixed = mixed.json();
    assert!(mixed[0]["result"]["data"]["content"].is_array(), "{mixed}");
    assert_eq!(mixed[1]["error"]["data"]["code"], "NOT_FOUND", "{mixed}");
    assert_eq!(mixed[2]["error"]["data"]["code"], "BAD_REQUEST", "{mixed}");
    assert_eq!(mixed[2]["error"]["data"]["issues"].as_array().map(Vec::len), Some(2), "{mixed}");
    assert_eq!(mixed[3]["error"]["message"], "No procedure found on path \"mcp.nothing\"");
    let all = query("mcp.status,mcp.status?batch=1").send(at).await;
    assert_eq!((all.status, all.json().as_array().map(Vec::len)), (200, Some(2)));
    let failed = query("mcp.x,mcp.y?batch=1").send(at).await;
    assert_eq!((failed.status, failed.json().as_array().map(Vec::len)), (404, Some(2)));
    // One line per result, in the order of completion.
    let lines = query("mcp.status,mcp.x?batch=1").with("trpc-accept", "application/jsonl");
    let lines = lines.send(at).await;
    assert_eq!(lines.status, 200, "{}", lines.text());
    let mut lines: Vec<Value> =
        lines.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], json!({"0": [[0], [null, 0, 0]], "1": [[0], [null, 0, 1]]}));
    lines[1..].sort_by_key(|line| line[0].as_u64());
    assert!(lines[1][2][0][0]["result"]["data"]["servers"].is_array(), "{lines:?}");
    assert_eq!(lines[2][2][0][0]["error"]["data"]["code"], "NOT_FOUND", "{lines:?}");
    assert_eq!(lines.len(), 3);
}

/// An error of the whole request is a single object, and every limit has its own message.
#[tokio::test]
async fn bounds_have_errors_of_their_own() {
    let gate = Gate::start(json!({"http": {"body_bytes": 2000}})).await;
    let at = gate.address;
    let many = |count: usize| format!("{}?batch=1", vec!["mcp.status"; count].join(","));
    assert_eq!(query(&many(32)).send(at).await.status, 200);
    let too_many = failure(&query(&many(33)).send(at).await);
    assert_eq!((too_many.0, &*too_many.2), (400, "Batch call exceeds maximum size"));
    let long = |bytes: usize| format!("mcp.status?x={}", "y".repeat(bytes - 19));
    assert_eq!(query(&long(16 * 1024)).send(at).await.status, 200);
    let too_long = failure(&query(&long(16 * 1024 + 1)).send(at).await);
    assert_eq!((too_long.0, &*too_long.1), (414, "PAYLOAD_TOO_LARGE"));
    let large = mutation("mcp.executeTool", &json!({"name": "x".repeat(3000)})).send(at).await;
    assert_eq!(failure(&large).1, "PAYLOAD_TOO_LARGE");
    for (request, code, words) in [
        (query("mcp.nothing"), "NOT_FOUND", "No procedure found on path \"mcp.nothing\""),
        (
            query("mcp.executeTool"),
            "METHOD_NOT_SUPPORTED",
            "Unsupported GET-request to mutation procedure at path \"mcp.executeTool\"",
        ),
        (
            mutation("mcp.status", &json!({})),
            "METHOD_NOT_SUPPORTED",
            "Unsupported POST-request to query procedure at path \"mcp.status\"",
        ),
        (
            query("mcp.status,mcp.executeTool?batch=1"),
            "BAD_REQUEST",
            "Cannot mix procedure types in call: query, mutation",
        ),
        (
            query("mcp.status").with("trpc-accept", "application/jsonl"),
            "BAD_REQUEST",
            "Streaming requests must be batched (you can do a batch of 1)",
        ),
        (
            mutation("mcp.executeTool", &json!({})).without("Content-Type"),
            "UNSUPPORTED_MEDIA_TYPE",
            "Missing content-type header",
        ),
        (query("mcp%2"), "BAD_REQUEST", "Invalid URL-encoding in path \"mcp%2\""),
        (query("mcp.status").with("Sec-Fetch-Site", "cross-site"), "FORBIDDEN", ""),
        (query("mcp.status").with("Origin", "http://localhost:1"), "FORBIDDEN", ""),
        (query("mcp.status").with("Origin", "https://evil.example"), "FORBIDDEN", ""),
    ] {
        let answer = request.send(at).await;
        let (_, found, message) = failure(&answer);
        assert_eq!(found, code, "{} {}", request.path, answer.text());
        assert!(words.is_empty() || message == words, "{}: {message}", request.path);
    }
    let head = Request::bare("HEAD", "/trpc/mcp.status", "").send(at).await;
    assert_eq!((head.status, head.body.len()), (204, 0));
}

/// Unauthenticated callers cannot discover procedures; the form of the error is that of the
/// request.
#[tokio::test]
async fn strangers_are_refused_in_the_shape_of_what_they_asked() {
    let server = Upstream::http(modern(&["t"])).await;
    let (gate, _policies) = gate_with_keys(&server).await;
    let at = gate.address;
    for path in ["mcp.status", "mcp.nothing", "mcp.executeTool"] {
        let refused = query(path).send(at).await;
        assert_eq!((failure(&refused).0, &*failure(&refused).1), (401, "UNAUTHORIZED"));
        assert!(refused.header("www-authenticate").is_some());
    }
    let batch = "mcp.status,mcp.nothing,mcp.executeTool?batch=1";
    let refused = query(batch).by("wrong").send(at).await;
    assert_eq!(refused.status, 401, "{}", refused.text());
    let refused = refused.json();
    assert_eq!(refused.as_array().map(Vec::len), Some(3), "{refused}");
    for call in refused.as_array().unwrap() {
        assert_eq!(call["error"]["data"]["code"], "UNAUTHORIZED", "{refused}");
    }
}

/// Returns a subscription as opened by an `EventSource`.
fn subscribe(input: &str) -> Request {
    Request::bare("GET", &format!("/trpc/mcp.events{input}"), "")
        .with("Accept", "text/event-stream")
}

/// Returns the name, data and id of an event.
fn read_event(block: &str) -> (String, Value, String) {
    let find = |name: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    let data = find("data:");
    (find("event:"), serde_json::from_str(&data).unwrap_or_default(), find("id:"))
}

/// Returns the ids of the events up to a connected server.
async fn read_until_connected(stream: &mut crate::rig::Stream) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let (event, data, id) = read_event(&stream.block().await.expect("an event"));
        if event == "ping" {
            continue;
        }
        assert_eq!((&*event, &data["type"]), ("", &json!("server")), "{data}");
        assert!(!id.is_empty());
        ids.push(id);
        if data["server"]["state"] == "connected" {
            return ids;
        }
    }
}

#[tokio::test]
async fn a_subscription_goes_on_where_it_was_without_loss_or_repetition() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let at = gate.address;
    let reconnect = async || {
        let answer = Request::bare("POST", "/api/servers/a/reconnect", "").send(at).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    let mut whole = subscribe("").open(at).await;
    let mut cut = subscribe("").open(at).await;
    for stream in [&mut whole, &mut cut] {
        assert_eq!(stream.head.status, 200);
        assert_eq!(stream.head.header("content-type"), Some("text/event-stream"));
        let (event, data, _) = read_event(&stream.block().await.unwrap());
        assert_eq!(event, "connected");
        assert!(data["reconnectAfterInactivityMs"].as_u64() > Some(15_000), "{data}");
    }
    reconnect().await;
    let mut all = read_until_connected(&mut whole).await;
    let seen = read_until_connected(&mut cut).await;
    assert_eq!(seen, all);
    drop(cut);
    reconnect().await;
    all.extend(read_until_connected(&mut whole).await);
    let last = seen[0].clone();
    for resumed in [
        subscribe("").with("Last-Event-ID", &last),
        subscribe(&format!("?lastEventId={last}")),
        subscribe(&format!("?input=%7B%22lastEventId%22%3A%22{last}%22%7D")),
    ] {
        let mut stream = resumed.open(at).await;
        stream.block().await.unwrap();
        let mut rest = Vec::new();
        while rest.len() + 1 < all.len() {
            rest.extend(read_until_connected(&mut stream).await);
        }
        assert_eq!(rest, all[1..]);
    }
    // An unknown last event id is reported as missed events.
    let mut stream = subscribe("").with("Last-Event-ID", "0123456789abcdef").open(at).await;
    stream.block().await.unwrap();
    let (_, data, id) = read_event(&stream.block().await.unwrap());
    assert_eq!((&data["type"], id.is_empty()), (&json!("missed"), false));
}

#[tokio::test]
async fn a_subscription_is_refused_on_its_stream_and_ends_with_its_key() {
    let server = Upstream::http(modern(&["t"])).await;
    let (gate, _policies) = gate_with_keys(&server).await;
    let user = key(&gate, "user", &[]).await;
    let at = gate.address;
    let refused = async |request: Request| {
        let answer = request.send(at).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let text = answer.text();
        let mut events = text.split("\n\n").map(read_event);
        assert_eq!(events.next().unwrap().0, "connected");
        let (event, error, _) = events.next().unwrap();
        assert_eq!(event, "serialized-error", "{text}");
        error["data"]["code"].as_str().unwrap().to_owned()
    };
    let secret = user.rsplit('_').next().unwrap();
    let params = format!("?connectionParams=%7B%22token%22%3A%22{user}%22%7D");
    assert_eq!(refused(subscribe("")).await, "UNAUTHORIZED");
    assert_eq!(refused(subscribe(&params)).await, "UNAUTHORIZED");
    assert_eq!(refused(subscribe(&params).by(&user)).await, "UNAUTHORIZED");
    assert_eq!(refused(subscribe("?input=%5B%5D").by(&user)).await, "BAD_REQUEST");
    let trail = std::fs::read_to_string(gate.folder.path().join("audit.jsonl")).unwrap();
    assert!(!gate.log().contains(secret) && !trail.contains(secret), "the key is in no log");
    let batch = query("mcp.events?batch=1").by(&user).send(at).await.json();
    assert_eq!(batch[0]["error"]["message"], "Cannot batch subscription calls", "{batch}");
    let mut stream = subscribe("").by(&user).open(at).await;
    stream.block().await.unwrap();
    let file = gate.folder.path().join("keys.yaml");
    let revoke = ["keys", "revoke", &user, "--file"];
    let revoked = crate::rig::gate::command().args(revoke).arg(&file).output().unwrap();
    assert!(revoked.status.success(), "{revoked:?}");
    until("the key is revoked", async || {
        (query("mcp.status").by(&user).send(at).await.status == 401).then_some(())
    })
    .await;
    let began = std::time::Instant::now();
    let (event, error, _) = read_event(&stream.block().await.unwrap());
    assert_eq!((&*event, &error["data"]["code"]), ("serialized-error", &json!("UNAUTHORIZED")));
    assert!(began.elapsed() < std::time::Duration::from_secs(1), "{:?}", began.elapsed());
    assert!(stream.block().await.is_none(), "the stream has ended");
}

/// The procedures of a category call only the built-in server of that category.
#[tokio::test]
async fn files_programs_and_databases_are_those_of_the_built_in_servers() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "hello").unwrap();
    std::fs::write(folder.path().join(".hidden"), "x").unwrap();
    let root = folder.path().to_str().unwrap();
    let gate = Gate::start(json!({"builtin": {
        "file": {"roots": [{"path": root, "write": true}]},
        "shell": {"roots": [{"path": root}], "programs": ["echo"], "landlock": "best-effort"},
        "database": {"embedded": {"folder": "data"}},
    }}))
    .await;
    let at = gate.address;
    let data = async |request: Request| {
        let answer = request.send(at).await;
        assert_eq!(answer.status, 200, "{} {}", request.path, answer.text());
        answer.json()["result"]["data"].clone()
    };
    let read = data(query("mcp.file.read?input=%7B%22path%22%3A%22a.txt%22%7D")).await;
    assert_eq!(read["structuredContent"]["content"], "hello", "{read}");
    let written = json!({"path": "b.txt", "content": "aGk=", "encoding": "base64"});
    let written = data(mutation("mcp.file.write", &written)).await;
    assert_eq!(written["structuredContent"]["created"], true, "{written}");
    assert_eq!(std::fs::read_to_string(folder.path().join("b.txt")).unwrap(), "hi");
    let hidden = "%7B%22path%22%3A%22.%22%2C%22includeHidden%22%3Atrue%7D";
    let listed = data(query(&format!("mcp.file.list?input={hidden}"))).await;
    let entries = listed["structuredContent"]["entries"].as_array().map(Vec::len);
    assert_eq!(entries, Some(3), "{listed}");
    let said = json!({"command": "echo hi", "timeout": 5000});
    let said = data(mutation("mcp.shell.execute", &said)).await;
    assert_eq!(said["structuredContent"]["stdout"], "hi\n", "{said}");
    let rows = json!({"query": "SELECT ? AS n", "params": [7], "limit": 1});
    let rows = data(mutation("mcp.database.query", &rows)).await;
    assert_eq!(rows["structuredContent"]["rows"], json!([[7]]), "{rows}");
    let tables = data(query("mcp.database.tables")).await;
    assert!(tables["structuredContent"]["tables"].is_array(), "{tables}");
    // A tool's failure is a result; a missing tool is an error.
    let missing = data(query("mcp.file.read?input=%7B%22path%22%3A%22c.txt%22%7D")).await;
    assert_eq!(missing["isError"], true, "{missing}");
    let fetched = query("mcp.web.fetch?input=%7B%22url%22%3A%22http%3A%2F%2Fa%22%7D");
    let (_, code, words) = failure(&fetched.send(at).await);
    assert_eq!((&*code, &*words), ("NOT_FOUND", "unknown tool: web/fetch"));
    let other = "%7B%22path%22%3A%22a%22%2C%22server%22%3A%22other%22%7D";
    let (_, code, words) = failure(&query(&format!("mcp.file.read?input={other}")).send(at).await);
    assert_eq!((&*code, &*words), ("NOT_FOUND", "unknown tool: other/read"));
}

/// A server with the name of a category is not mistaken for the built-in server.
#[tokio::test]
async fn a_server_called_like_a_category_is_named_or_not_called() {
    let server = Upstream::http(modern(&["read"])).await;
    let gate = Gate::start(json!({"servers": {"file": server.config()}})).await;
    let at = gate.address;
    let input = "%7B%22path%22%3A%22a%22%7D";
    let (_, code, words) = failure(&query(&format!("mcp.file.read?input={input}")).send(at).await);
    assert_eq!((&*code, &*words), ("NOT_FOUND", "unknown tool: file/read"));
    assert_eq!(server.count("tools/call"), 0);
    let named = "%7B%22path%22%3A%22a%22%2C%22server%22%3A%22file%22%7D";
    let named = query(&format!("mcp.file.read?input={named}")).send(at).await;
    assert_eq!(named.status, 200, "{}", named.text());
    assert_eq!(server.count("tools/call"), 1);
}

/// A quarantined tool is reported only to its possible approvers; for others it does not exist.
#[tokio::test]
async fn a_tool_that_is_not_approved_is_a_precondition_of_those_who_approve() {
    let server = Upstream::http(modern(&["t"])).await;
    let folder = tempfile::tempdir().unwrap();
    let gate = Gate::start(json!({
        "servers": {"a": server.config()}, "auth": {"keys_file": "keys.yaml"},
        "pins": {"file": folder.path().join("lockgate.pins.json")},
    }))
    .await;
    let operator = key(&gate, "operator", &["--role", "operator"]).await;
    let user = key(&gate, "user", &[]).await;
    let execute = |name: &str| mutation("mcp.executeTool", &json!({"name": name}));
    let refused = until("it is known and waits to be approved", async || {
        let refused = execute("a__t").by(&operator).send(gate.address).await;
        (refused.status != 404).then_some(refused)
    })
    .await;
    let (status, code, words) = failure(&refused);
    assert_eq!((status, &*code), (412, "PRECONDITION_FAILED"), "{words}");
    assert_eq!(refused.json()["error"]["code"], -32012, "{}", refused.text());
    assert!(words.contains("POST /api/pins/approve"), "{words}");
    let hidden = failure(&execute("a__t").by(&user).send(gate.address).await);
    let unknown = failure(&execute("a__x").by(&user).send(gate.address).await);
    assert_eq!((hidden.0, &*hidden.1), (404, "NOT_FOUND"), "{}", hidden.2);
    assert_eq!(hidden.2.replace("a__t", "a__x"), unknown.2, "it looks like one that is unknown");
    assert_eq!(server.count("tools/call"), 0);
}
