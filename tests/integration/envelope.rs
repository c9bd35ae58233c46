//! The message envelope and the standard headers for clients (rows E-01 to E-28 of the C-face), and
//! malformed input.

use crate::rig::client::{Request, with_meta};
use crate::rig::upstream::{modern, modern_with};
use crate::rig::{Answer, Gate, Say, Upstream, Value, json};

async fn one() -> (Gate, Upstream) {
    let server = Upstream::http(modern(&["echo", "größe"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    (gate, server)
}

fn call() -> Request {
    Request::modern("/mcp", "tools/call", json!({"name": "a__echo", "arguments": {}}))
}

/// Returns the same call with another id, as JSON text.
fn with_id(id: &str) -> Request {
    let params = with_meta(json!({"name": "a__echo", "arguments": {}}));
    call().body(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#))
}

#[track_caller]
fn refused(case: &str, answer: &Answer, status: u16, code: i64) {
    assert_eq!((answer.status, answer.code()), (status, code), "{case}: {}", answer.text());
}

#[tokio::test]
async fn an_id_comes_back_as_it_was_sent() {
    let (gate, server) = one().await;
    let long = format!("\"{}\"", "x".repeat(254));
    for id in [
        "1",
        "0",
        "-7",
        "9007199254740993",
        "18446744073709551616",
        r#""1""#,
        r#""""#,
        r#""a\u00e4\"b""#,
        &long,
    ] {
        let answer = with_id(id).send(gate.address).await;
        assert_eq!(answer.status, 200, "{id}: {}", answer.text());
        assert!(answer.text().contains(&format!("\"id\":{id},")), "{id}: {}", answer.text());
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"x/y","params":{}}}"#,
            with_meta(json!({}))
        );
        let answer = Request::modern("/mcp", "x/y", json!({})).body(body).send(gate.address).await;
        refused(id, &answer, 404, -32601);
        assert!(answer.text().contains(&format!("\"id\":{id},")), "{id}: {}", answer.text());
    }
    // E-02: the gateway's own ids are unique, independent of the clients' ids.
    let mut ids: Vec<_> =
        server.heard_of("tools/call").iter().map(|h| h.body["id"].to_string()).collect();
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), all), (all, 9));
}

/// E-01: invalid ids are rejected before any server is called.
#[tokio::test]
async fn an_id_that_is_null_or_odd_or_huge_is_refused() {
    let (gate, server) = one().await;
    let huge = format!("\"{}\"", "x".repeat(300));
    let digits = "9".repeat(300);
    for id in ["null", "1.5", "true", "[]", "{}", "1e3", &huge, &digits] {
        let answer = with_id(id).send(gate.address).await;
        refused(id, &answer, 400, -32600);
        assert!(answer.json()["id"].is_null(), "{}", answer.text());
    }
    assert_eq!(server.count("tools/call"), 0);
}

/// The bad-input list: every entry gets a clear error, and the gateway keeps working.
#[tokio::test]
async fn input_that_is_no_message_is_refused_with_400() {
    let (gate, server) = one().await;
    let params = with_meta(json!({"name": "a__echo", "arguments": {}})).to_string();
    let deep = |n: usize| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}{}}}"#,
            "{\"a\":".repeat(n),
            "}".repeat(n)
        )
    };
    let arrays = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"a":{}{}}}}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    let cases: Vec<(&str, Vec<u8>, &[i64])> = vec![
        ("nothing", b"".to_vec(), &[-32700, -32600]),
        ("no JSON", b"hello".to_vec(), &[-32700, -32600]),
        ("half a message", br#"{"jsonrpc":"2.0","id":1,"#.to_vec(), &[-32700]),
        ("two messages", br#"{"jsonrpc":"2.0","id":1,"method":"ping"}{}"#.to_vec(), &[-32700]),
        ("invalid UTF-8", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}".to_vec(), &[-32700]),
        ("a lone surrogate", br#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#.to_vec(), &[-32700, -32600, -32602]),
        ("a number out of JSON", br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":01}}"#.to_vec(), &[-32700]),
        ("NaN", br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}"#.to_vec(), &[-32700]),
        ("a byte order mark", "\u{feff}{}".as_bytes().to_vec(), &[-32700, -32600]),
        ("10,000 objects deep", deep(10_000).into_bytes(), &[-32700, -32600]),
        ("10,000 arrays deep", arrays.into_bytes(), &[-32700, -32600]),
        ("a string", b"\"x\"".to_vec(), &[-32600, -32700]),
        ("no jsonrpc", br#"{"id":1,"method":"ping"}"#.to_vec(), &[-32600]),
        ("jsonrpc 1.0", br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#.to_vec(), &[-32600]),
        ("a number as method", br#"{"jsonrpc":"2.0","id":1,"method":5}"#.to_vec(), &[-32600]),
        ("params by position", br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#.to_vec(), &[-32600]),
        (
            "request and response at once",
            br#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#.to_vec(),
            &[-32600],
        ),
        ("neither", br#"{"jsonrpc":"2.0","id":1}"#.to_vec(), &[-32600]),
        (
            "method twice",
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{params}}}"#)
                .into_bytes(),
            &[-32600],
        ),
        (
            "method in two spellings",
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","Method":"x","params":{params}}}"#).into_bytes(),
            &[-32600],
        ),
        (
            "name twice",
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}}"#,
                params.replacen("\"name\"", "\"name\":\"b\",\"name\"", 1)
            )
            .into_bytes(),
            &[-32600],
        ),
        (
            "name escaped a second time",
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}}"#,
                params.replacen("\"name\"", "\"na\\u006de\":\"b\",\"name\"", 1)
            )
            .into_bytes(),
            &[-32600],
        ),
        (
            "meta key twice",
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}}"#,
                params.replacen("\"_meta\":{", "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"x\",", 1)
            )
            .into_bytes(),
            &[-32600],
        ),
    ];
    let mut wrong = Vec::new();
    for (case, body, codes) in cases {
        let answer = call().body(body).send(gate.address).await;
        if answer.status != 400 || !codes.contains(&answer.code()) {
            wrong.push(format!("{case}: {} {}", answer.status, answer.text()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(server.count("tools/call"), 0);
    assert_eq!(gate.call("a__echo").await.status, 200);
}

#[tokio::test]
async fn a_batch_is_taken_in_a_session_of_2025_03_26_alone() {
    let (gate, _server) = one().await;
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":"b","method":"tools/list"}]"#;
    refused("modern", &call().body(batch).send(gate.address).await, 400, -32600);
    refused(
        "no session",
        &Request::bare("POST", "/mcp", batch).send(gate.address).await,
        400,
        -32600,
    );
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let session = gate.session("/mcp", version).await;
        refused(version, &session.post(batch).send(gate.address).await, 400, -32600);
    }
    let session = gate.session("/mcp", "2025-03-26").await;
    let answer = session.post(batch).send(gate.address).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let mut ids: Vec<String> =
        answer.json().as_array().unwrap().iter().map(|m| m["id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["\"b\"", "1"]);
    for (case, body) in
        [("empty", "[]".to_owned()), ("too many", format!("[{}1]", "1,".repeat(100)))]
    {
        refused(case, &session.post(body).send(gate.address).await, 400, -32600);
    }
    let notes = r#"[{"jsonrpc":"2.0","method":"notifications/x"}]"#;
    assert_eq!(session.post(notes).send(gate.address).await.status, 202);
}

/// E-05, E-06, E-07: standard headers are required and must equal the body; header names are case
/// insensitive, values are exact.
#[tokio::test]
async fn standard_headers_repeat_the_body() {
    let (gate, server) = one().await;
    let base64 = "=?base64?YV9fZWNobw==?=";
    let good: Vec<(&str, Request)> = vec![
        ("as specified", call()),
        ("lower case", call().without("Mcp-Method").with("mcp-method", "tools/call")),
        ("upper case", call().without("Mcp-Name").with("MCP-NAME", "a__echo")),
        ("white space around", call().with("Mcp-Name", "  a__echo \t")),
        ("base64", call().with("Mcp-Name", base64)),
    ];
    for (case, request) in good {
        let answer = request.send(gate.address).await;
        assert_eq!((answer.status, answer.code()), (200, 0), "{case}: {}", answer.text());
    }
    let before = server.count("tools/call");
    let bad: Vec<(&str, Request)> = vec![
        ("no version", call().without("MCP-Protocol-Version")),
        ("no method", call().without("Mcp-Method")),
        ("no name", call().without("Mcp-Name")),
        ("another version", call().with("MCP-Protocol-Version", "2027-01-01")),
        ("a legacy version", call().with("MCP-Protocol-Version", "2025-11-25")),
        ("another method", call().with("Mcp-Method", "tools/list")),
        ("method in upper case", call().with("Mcp-Method", "Tools/Call")),
        ("another name", call().with("Mcp-Name", "a__other")),
        ("name in upper case", call().with("Mcp-Name", "A__ECHO")),
        ("empty name", call().with("Mcp-Name", "")),
        ("two names", call().also("Mcp-Name", "a__echo")),
        ("two methods", call().also("Mcp-Method", "tools/list")),
        ("two versions", call().also("MCP-Protocol-Version", "2025-11-25")),
        ("bad base64", call().with("Mcp-Name", "=?base64?YV9fZWNobw?!?=")),
        ("base64 of another name", call().with("Mcp-Name", "=?base64?YV9fb3RoZXI=?=")),
        ("the marker in upper case", call().with("Mcp-Name", "=?BASE64?YV9fZWNobw==?=")),
    ];
    for (case, request) in bad {
        let answer = request.send(gate.address).await;
        refused(case, &answer, 400, -32020);
        assert_eq!(answer.json()["id"], 1, "{case}");
    }
    assert_eq!(server.count("tools/call"), before);
}

/// E-13 to E-16: the required metadata of a modern request, in the order of the checks.
#[tokio::test]
async fn a_modern_request_describes_itself() {
    let (gate, _server) = one().await;
    let meta = |key: &str, value: Value| json!({"_meta": {format!("io.modelcontextprotocol/{key}"): value}});
    let list = |params: Value| Request::modern("/mcp", "tools/list", params);
    let raw = |params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params});
        list(json!({})).body(body.to_string())
    };
    assert_eq!(list(json!({})).send(gate.address).await.status, 200, "clientInfo may be missing");
    let version = meta("protocolVersion", json!("2026-07-28"));
    for (case, request) in [
        ("no capabilities", raw(version.clone())),
        ("no version", raw(meta("clientCapabilities", json!({})))),
        ("no meta", raw(json!({}))),
        ("capabilities that are no object", list(meta("clientCapabilities", json!(true)))),
        ("a version that is no text", list(meta("protocolVersion", json!(20260728)))),
    ] {
        let answer = request.send(gate.address).await;
        refused(case, &answer, 400, -32602);
        assert_eq!(answer.json()["id"], 1, "{case}");
    }
    let discovered = gate.modern("/mcp", "server/discover", json!({})).await.result();
    for version in ["2027-01-01", "x", "2025-11-25"] {
        let request =
            list(meta("protocolVersion", json!(version))).with("MCP-Protocol-Version", version);
        let answer = request.send(gate.address).await;
        refused(version, &answer, 400, -32022);
        let data = &answer.json()["error"]["data"];
        assert_eq!(data["requested"], version);
        let supported = data["supported"].as_array().unwrap();
        let offered = discovered["supportedVersions"].as_array().unwrap();
        assert!(!supported.is_empty() && supported.iter().all(|v| offered.contains(v)), "{data}");
    }
    for method in [
        "x/y",
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "tasks/list",
        "tasks/result",
        "TOOLS/LIST",
    ] {
        refused(method, &gate.modern("/mcp", method, json!({})).await, 404, -32601);
    }
    // E-16, with `requiredCapabilities` as an object.
    let filter = json!({"notifications": {"toolsListChanged": true}, "taskIds": ["x"]});
    let answer = gate.modern("/mcp", "subscriptions/listen", filter).await;
    refused("tasks", &answer, 400, -32021);
    assert!(answer.json()["error"]["data"]["requiredCapabilities"].is_object());
    // F-27
    refused(
        "log level",
        &list(meta("logLevel", json!("loud"))).send(gate.address).await,
        200,
        -32602,
    );
}

/// E-16: a server's -32021 reaches a modern client as status 400, with its data.
#[tokio::test]
async fn a_capability_that_a_server_misses_is_named() {
    let gate =
        Gate::start(json!({"servers": {"f": crate::rig::fixture(&["--era", "modern"])}})).await;
    let answer = gate.call("f__test_missing_capability").await;
    refused("sampling", &answer, 400, -32021);
    assert!(
        answer.json()["error"]["data"]["requiredCapabilities"].is_object(),
        "{}",
        answer.text()
    );
}

/// E-17, E-22: notifications get 202 without a body; responses from modern clients are rejected.
#[tokio::test]
async fn notifications_are_accepted_and_stray_responses_are_not() {
    let (gate, _server) = one().await;
    let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": with_meta(json!({"requestId": 1}))});
    let answer = call()
        .with("Mcp-Method", "notifications/cancelled")
        .without("Mcp-Name")
        .body(note.to_string())
        .send(gate.address)
        .await;
    assert_eq!((answer.status, answer.body.len()), (202, 0));
    let session = gate.session("/mcp", "2025-11-25").await;
    let note = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    assert_eq!(session.post(note.to_string()).send(gate.address).await.status, 202);
    let response = json!({"jsonrpc": "2.0", "id": 99, "result": {}});
    let stray = session.post(response.to_string()).send(gate.address).await;
    assert_eq!((stray.status, stray.code()), (400, -32600), "{}", stray.text());
    assert_eq!(call().body(response.to_string()).send(gate.address).await.status, 400);
}

/// E-18: a foreign Origin or Host is rejected first, at every path and for every verb.
#[tokio::test]
async fn a_foreign_origin_is_refused_before_everything() {
    let (gate, server) = one().await;
    let before = server.heard().len();
    for verb in ["POST", "GET", "DELETE", "OPTIONS", "PUT"] {
        for path in
            ["/mcp", "/servers/a/mcp", "/servers/none/mcp", "/readyz", "/metrics", "/nowhere"]
        {
            for origin in
                ["https://evil.example", "null", "http://127.0.0.1.evil.example", "file://"]
            {
                let answer =
                    Request::bare(verb, path, "{").with("Origin", origin).send(gate.address).await;
                assert_eq!(answer.status, 403, "{verb} {path} {origin}: {}", answer.text());
            }
        }
    }
    assert_eq!(call().with("Origin", "https://evil.example").send(gate.address).await.status, 403);
    assert_eq!(call().with("Host", "evil.example").send(gate.address).await.status, 421);
    assert_eq!(call().also("Host", "127.0.0.1").send(gate.address).await.status, 400);
    assert_eq!(server.heard().len(), before);
    assert_eq!(call().with("Origin", "http://localhost:5173").send(gate.address).await.status, 200);
}

/// E-19: without a session, GET and DELETE get 405; modern requests ignore session ids and get
/// none.
#[tokio::test]
async fn a_modern_exchange_has_no_session() {
    let (gate, _server) = one().await;
    for verb in ["GET", "DELETE"] {
        let answer = Request::bare(verb, "/mcp", "")
            .with("MCP-Protocol-Version", "2026-07-28")
            .send(gate.address)
            .await;
        assert_eq!(answer.status, 405, "{verb}: {}", answer.text());
    }
    let answer = call()
        .with("Mcp-Session-Id", "nobody")
        .with("Last-Event-ID", "1-1")
        .send(gate.address)
        .await;
    assert_eq!((answer.status, answer.code()), (200, 0), "{}", answer.text());
    assert_eq!(answer.header("mcp-session-id"), None);
    for (case, request, status) in [
        ("text", call().with("Content-Type", "text/plain"), 415),
        ("no type", call().without("Content-Type"), 415),
        ("html only", call().with("Accept", "text/html"), 406),
        ("put", Request { verb: "PUT", ..call() }, 405),
    ] {
        let answer = request.send(gate.address).await;
        assert_eq!(answer.status, status, "{case}: {}", answer.text());
    }
}

/// E-25, E-28: only modern results carry a type and the gateway's identity.
#[tokio::test]
async fn modern_results_have_a_type_and_name_the_gateway() {
    let gate =
        Gate::start(json!({"name": "my-gate", "servers": {"f": crate::rig::fixture(&[])}})).await;
    let session = gate.session("/mcp", "2025-11-25").await;
    let exchanges = [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("tools/call", json!({"name": "f__test_simple_text", "arguments": {}})),
        ("tools/call", json!({"name": "f__test_error_handling", "arguments": {}})),
        ("prompts/get", json!({"name": "f__test_simple_prompt"})),
        ("resources/read", json!({"uri": "f+test://static-text"})),
    ];
    for (method, params) in exchanges {
        let result = gate.modern("/mcp", method, params.clone()).await.result();
        assert_eq!(result["resultType"], "complete", "{method}: {result}");
        assert_eq!(
            result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "my-gate",
            "{method}: {result}"
        );
        // F-05
        let cached = method != "tools/call" && method != "prompts/get";
        assert_eq!(
            result["ttlMs"].is_u64() && result["cacheScope"].is_string(),
            cached,
            "{method}: {result}"
        );
        if method != "server/discover" {
            let result = session.ask(method, params).await.result();
            for key in ["resultType", "ttlMs", "cacheScope"] {
                assert!(result.get(key).is_none(), "{method}: {result}");
            }
            assert!(
                result["_meta"].get("io.modelcontextprotocol/serverInfo").is_none(),
                "{method}: {result}"
            );
        }
    }
}

/// E-11: headers of annotated arguments are checked, integers by value.
#[tokio::test]
async fn annotated_arguments_are_repeated_in_headers() {
    let tool = json!({"name": "t", "inputSchema": {"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "n": {"type": "integer", "x-mcp-header": "N"},
        "on": {"type": "boolean", "x-mcp-header": "On"},
    }}});
    let server = Upstream::http(modern_with(vec![tool])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let call = |arguments: Value| {
        Request::modern("/mcp", "tools/call", json!({"name": "a__t", "arguments": arguments}))
    };
    let full = || call(json!({"region": "eu", "n": 42, "on": true}));
    let right = || {
        full().with("Mcp-Param-Region", "eu").with("Mcp-Param-N", "42").with("Mcp-Param-On", "true")
    };
    for (case, request) in [
        ("all", right()),
        ("another way to write 42", right().with("mcp-param-n", "42.0")),
        ("null counts as absent", call(json!({"region": null}))),
        ("none", call(json!({}))),
        (
            "base64",
            call(json!({"region": "größe"})).with("Mcp-Param-Region", "=?base64?Z3LDtsOfZQ==?="),
        ),
    ] {
        let answer = request.send(gate.address).await;
        assert_eq!((answer.status, answer.code()), (200, 0), "{case}: {}", answer.text());
    }
    // E-09: the server gets the headers as regenerated by the gateway.
    let heard = server.heard_of("tools/call");
    assert_eq!(heard[0].header("mcp-param-region"), Some("eu"));
    assert_eq!(heard[0].header("mcp-param-n"), Some("42"));
    assert_eq!(heard[0].header("mcp-param-on"), Some("true"));
    assert_eq!(heard[3].header("mcp-param-region"), None);
    assert_eq!(heard[2].header("mcp-param-region"), None);
    assert_eq!(heard[4].header("mcp-param-region"), Some("=?base64?Z3LDtsOfZQ==?="));
    for (case, request) in [
        ("missing", full()),
        ("one missing", right().without("Mcp-Param-On")),
        ("different", right().with("Mcp-Param-Region", "us")),
        ("different number", right().with("Mcp-Param-N", "43")),
        ("twice", right().also("Mcp-Param-N", "42")),
        ("without an argument", call(json!({})).with("Mcp-Param-Region", "eu")),
        ("True", right().with("Mcp-Param-On", "True")),
    ] {
        refused(case, &request.send(gate.address).await, 400, -32020);
    }
    assert_eq!(server.count("tools/call"), 5);
}

/// E-23: reserved or undefined error codes of servers are not relayed.
#[tokio::test]
async fn reserved_codes_of_servers_are_not_relayed() {
    let server = Upstream::http(|heard| match heard.method() {
        "tools/call" => {
            let code = heard.body["params"]["arguments"]["code"].as_i64().unwrap();
            Say::Json(heard.error(code, "as you wish"))
        }
        _ => modern(&["fail"])(heard),
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let session = gate.session("/mcp", "2025-11-25").await;
    for code in [-32002, -32042, -32022, -32023, -32055, -32099, -32000, -32700, -32600, -32601] {
        let params = json!({"name": "a__fail", "arguments": {"code": code}});
        let answer = gate.modern("/mcp", "tools/call", params.clone()).await;
        assert!(![-32002, -32042].contains(&answer.code()), "{code}: {}", answer.text());
        assert!(!(-32099..=-32020).contains(&answer.code()), "{code}: {}", answer.text());
        assert_eq!(answer.json()["id"], 1, "{code}");
        let legacy = session.ask("tools/call", params).await.code();
        assert!(!(-32099..=-32020).contains(&legacy), "{code}: {legacy}");
    }
    for code in [-32602, -32603, 17, -31999] {
        let answer = gate
            .modern("/mcp", "tools/call", json!({"name": "a__fail", "arguments": {"code": code}}))
            .await;
        assert_eq!(answer.code(), code);
        assert_eq!(answer.json()["error"]["message"], "as you wish");
    }
}

/// Strings with a lone surrogate are rejected in both eras: names or ids that differ only in it
/// would become equal.
#[tokio::test]
async fn a_lone_surrogate_names_nothing() {
    let server = Upstream::http(modern(&["t", "\u{fffd}"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let session = gate.session("/mcp", "2025-11-25").await;
    let meta = with_meta(json!({}))["_meta"].clone();
    for (id, method, params, code) in [
        (r#""\ud800""#, "tools/list", "", -32600),
        (r#""a\udc00b""#, "tools/list", "", -32600),
        (r#""\ud800\ud800""#, "tools/list", "", -32600),
        ("1", "tools/call", r#""name":"\ud800","arguments":{},"#, -32602),
        ("1", "tools/call", r#""name":"a__t\udfff","arguments":{},"#, -32602),
        ("1", "resources/read", r#""uri":"a+test://\ud800","#, -32602),
        ("1", "tools/list", r#""cursor":"\ud800","#, -32602),
        (r#""\ud83d\ude00""#, "tools/list", "", 0),
    ] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}"_meta":{meta}}}}}"#
        );
        let new =
            Request::modern("/mcp", method, json!({})).with("Mcp-Name", "x").body(body.clone());
        let old = session.post(body.replace("io.modelcontextprotocol/protocolVersion", "x/y"));
        let expected = if code == -32602 { [-32602, -32020, -32601, -32002] } else { [code; 4] };
        for request in [new, old] {
            let answer = request.send(gate.address).await;
            assert!(expected.contains(&answer.code()), "{body}: {}", answer.text());
        }
    }
    assert_eq!(server.count("tools/call"), 0);
}

/// JSON within texts, behind a key that is reserved by serde_json, once ended the process.
#[tokio::test]
async fn texts_within_texts_end_no_gateway() {
    let (gate, _server) = one().await;
    let key = "$serde_json::private::RawValue";
    let mut text = "1".to_owned();
    for _ in 0..60 {
        let arrays = format!("{}{text}{}", "[".repeat(120), "]".repeat(120));
        let escaped = arrays.replace('\\', r"\u005c").replace('"', r"\u0022");
        text = format!(r#"{{"{key}":"{escaped}"}}"#);
    }
    let capabilities = format!(r#"{{"elicitation":{text}}}"#);
    let client =
        format!(r#""capabilities":{capabilities},"clientInfo":{{"name":"a","version":"1"}}"#);
    let legacy = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-11-25",{client}}}}}"#
    );
    let meta = format!(
        r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{capabilities}"#
    );
    let modern = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a__echo","arguments":{{}},"_meta":{{{meta}}}}}}}"#
    );
    call().body(modern).send(gate.address).await;
    Request::bare("POST", "/mcp", legacy).send(gate.address).await;
    assert_eq!(call().send(gate.address).await.code(), 0, "the gateway still serves");
}
