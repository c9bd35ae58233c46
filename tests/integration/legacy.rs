//! Legacy sessions from the client's side (rows L-01 to L-14), and both eras at one endpoint (R-01,
//!

use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Gate, Say, Stream, Upstream, fixture, json, until};

/// L-01: a supported version is echoed; otherwise the newest legacy version is offered.
#[tokio::test]
async fn initialize_negotiates_a_legacy_version() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    for (wanted, given) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
        ("x", "2025-11-25"),
    ] {
        let session = gate.session("/mcp", wanted).await;
        assert_eq!(session.welcome["protocolVersion"], given, "{wanted}");
        assert_eq!(session.welcome["serverInfo"]["name"], "lockgate");
        // L-02: visible ASCII, long and unique.
        assert!(
            session.id.len() >= 32 && session.id.bytes().all(|b| (0x21..=0x7e).contains(&b)),
            "{}",
            session.id
        );
    }
}

/// L-02, L-05: sessions that are unknown, ended or of another endpoint get 404; a missing session
/// gets 400.
#[tokio::test]
async fn a_session_is_found_by_its_own_id_at_its_own_endpoint() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let session = gate.session("/mcp", "2025-11-25").await;
    let list = |path: &str, id: &str| Request::legacy(path, id, 1, "tools/list", &json!({}));
    assert_eq!(list("/mcp", &session.id).send(gate.address).await.status, 200);
    for (case, request, status) in [
        ("unknown", list("/mcp", "0123456789abcdef0123456789abcdef"), 404),
        ("almost", list("/mcp", &session.id.to_uppercase().replace('A', "B")), 404),
        ("empty", list("/mcp", ""), 404),
        ("another endpoint", list("/servers/a/mcp", &session.id), 404),
        ("none", list("/mcp", "x").without("Mcp-Session-Id"), 400),
        (
            "a version that nobody knows",
            list("/mcp", &session.id).with("MCP-Protocol-Version", "2020-01-01"),
            400,
        ),
        ("the version", list("/mcp", &session.id).with("MCP-Protocol-Version", "2025-11-25"), 200),
    ] {
        let answer = request.send(gate.address).await;
        assert_eq!(answer.status, status, "{case}: {}", answer.text());
    }
    let none = list("/mcp", "x").without("Mcp-Session-Id").send(gate.address).await.json();
    assert_eq!(none["error"]["data"]["code"], "SERVER_NOT_INITIALIZED", "{none}");
    let end = Request::bare("DELETE", "/mcp", "").with("Mcp-Session-Id", &session.id);
    assert_eq!(end.clone().with("Mcp-Session-Id", "foreign").send(gate.address).await.status, 404);
    assert!((200..300).contains(&end.send(gate.address).await.status));
    assert_eq!(end.send(gate.address).await.status, 404);
    assert_eq!(list("/mcp", &session.id).send(gate.address).await.status, 404);
    assert_eq!(session.listen().await.head.status, 404);
}

/// L-11, L-14: ping and every advertised method get a result.
#[tokio::test]
async fn every_advertised_method_answers() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = gate.session("/mcp", version).await;
        assert_eq!(session.ask("ping", json!({})).await.result(), json!({}));
        let offered = &session.welcome["capabilities"];
        for (capability, method, params) in [
            ("tools", "tools/list", json!({})),
            ("prompts", "prompts/list", json!({})),
            ("resources", "resources/list", json!({})),
            ("resources", "resources/templates/list", json!({})),
            ("logging", "logging/setLevel", json!({"level": "info"})),
            (
                "completions",
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": ""}}),
            ),
        ] {
            let code = session.ask(method, params).await.code();
            assert!(
                offered.get(capability).is_none() || code != -32601,
                "{version} {method}: {code}"
            );
        }
        if offered["resources"]["subscribe"] == true {
            assert_ne!(
                session.ask("resources/subscribe", json!({"uri": "a+x://y"})).await.code(),
                -32601
            );
        }
        for method in
            ["server/discover", "subscriptions/listen", "no/such", "notifications/cancelled"]
        {
            assert_eq!(session.ask(method, json!({})).await.code(), -32601, "{version} {method}");
        }
        assert_eq!(session.ask("logging/setLevel", json!({"level": "loud"})).await.code(), -32602);
    }
}

/// L-06, L-07, L-09: a call continues after its stream breaks. Resuming from the last event id
/// yields the rest of that stream, with ids unique in the session and none of it on the GET stream.
#[tokio::test]
async fn a_broken_stream_is_resumed_where_it_stopped() {
    let gate = Gate::start(json!({"servers": {"f": fixture(&["--era", "legacy"])}})).await;
    let session = gate.session("/mcp", "2025-11-25").await;
    let params = json!({"name": "f__test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": "p"}});
    let mut stream =
        Request::legacy("/mcp", &session.id, 5, "tools/call", &params).open(gate.address).await;
    assert_eq!(stream.head.header("x-accel-buffering"), Some("no"));
    let mut ids = Vec::new();
    let mut last = String::new();
    while ids.len() < 2 {
        let block = stream.block().await.expect("an event");
        last = id_of(&block).unwrap_or(last);
        ids.extend(id_of(&block));
    }
    drop(stream);
    let resume = Request::bare("GET", "/mcp", "")
        .with("Mcp-Session-Id", &session.id)
        .with("Accept", "text/event-stream");
    let mut rest = resume.clone().with("Last-Event-ID", &last).open(gate.address).await;
    assert_eq!(rest.head.status, 200);
    let mut result = None;
    while let Some(block) = rest.block().await {
        ids.extend(id_of(&block));
        if block.contains("\"id\":5,") {
            result = Some(block);
        }
    }
    assert!(result.expect("the result").contains("Tool with progress executed"));
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all, "{ids:?}");
    // Another session cannot resume the stream.
    let other = gate.session("/mcp", "2025-11-25").await;
    let stolen = resume
        .with("Mcp-Session-Id", &other.id)
        .with("Last-Event-ID", &last)
        .open(gate.address)
        .await;
    assert!(stolen.head.status == 404 || !text_of(stolen, 1).await.contains("executed"));
}

fn id_of(block: &str) -> Option<String> {
    block.lines().find_map(|line| line.strip_prefix("id:")).map(|id| id.trim().to_owned())
}

async fn text_of(mut stream: Stream, blocks: usize) -> String {
    let mut text = String::new();
    for _ in 0..blocks {
        let next =
            tokio::time::timeout(std::time::Duration::from_millis(300), stream.block()).await;
        text.push_str(&next.ok().flatten().unwrap_or_default());
    }
    text
}

/// L-13: a server's question is sent only to a client that declared the capability.
#[tokio::test]
async fn only_declared_questions_are_asked() {
    let mut server = fixture(&["--era", "legacy"]);
    server["sessions"] = "client".into();
    let gate = Gate::start(json!({"servers": {"f": server}})).await;
    for (capabilities, asked) in
        [(json!({}), false), (json!({"elicitation": {}}), false), (json!({"sampling": {}}), true)]
    {
        let session = gate.session_with("/mcp", "2025-11-25", capabilities.clone()).await;
        let params = json!({"name": "f__test_sampling", "arguments": {"prompt": "hi"}});
        let mut stream =
            Request::legacy("/mcp", &session.id, 5, "tools/call", &params).open(gate.address).await;
        if stream.head.header("content-type").is_some_and(|t| t.starts_with("application/json")) {
            let answer = stream.whole().await;
            assert!(!asked, "{capabilities}: {}", answer.text());
            assert_eq!(answer.json()["id"], 5);
            continue;
        }
        let mut questions = 0;
        while let Some(message) = stream.next().await {
            if message["method"] == "sampling/createMessage" {
                questions += 1;
                let result = json!({"role": "assistant", "content": {"type": "text", "text": "yes"}, "model": "m"});
                let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                assert_eq!(session.post(answer.to_string()).send(gate.address).await.status, 202);
            } else if message["id"] == 5 {
                assert_eq!(message["result"].to_string().contains("yes"), asked, "{message}");
            }
        }
        assert_eq!(questions > 0, asked, "{capabilities}");
    }
}

/// both eras at one endpoint at the same time, without interference.
#[tokio::test]
async fn both_eras_share_an_endpoint() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let found = gate.modern("/mcp", "server/discover", json!({})).await.result();
    assert!(
        found["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")),
        "{found}"
    );
    assert!(
        found["capabilities"]["tools"].is_object() && found["capabilities"].get("tasks").is_none(),
        "{found}"
    );
    let session = gate.session("/mcp", "2025-06-18").await;
    for _ in 0..20 {
        let (new, old) = tokio::join!(gate.call("a__t"), session.call("a__t"));
        assert_eq!(
            (new.result()["resultType"].as_str(), new.header("mcp-session-id")),
            (Some("complete"), None)
        );
        assert_eq!((new.json()["id"].clone(), old.json()["id"].clone()), (json!(1), json!(7)));
        assert!(old.result().get("resultType").is_none());
    }
    // The modern envelope takes precedence over a session id.
    let both = Request::modern("/mcp", "tools/list", json!({})).with("Mcp-Session-Id", &session.id);
    assert_eq!(both.send(gate.address).await.result()["resultType"], "complete");
}

/// L-03: a lost upstream session is renewed; the call that detected the loss is not repeated.
#[tokio::test]
async fn a_lost_upstream_session_is_renewed_and_no_call_repeated() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let opened = std::sync::Arc::new(AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&opened);
    let legacy = crate::rig::upstream::legacy("2025-06-18", &["t"]);
    let server = Upstream::http(move |heard| match heard.method() {
        "initialize" => {
            let n = count.fetch_add(1, Ordering::SeqCst) + 1;
            match legacy(heard) {
                Say::Status(status, _, body) => {
                    Say::Status(status, vec![("mcp-session-id", format!("s{n}"))], body)
                }
                other => other,
            }
        }
        "tools/call" if heard.header("mcp-session-id") == Some("s1") => {
            Say::Status(404, Vec::new(), crate::rig::Value::Null)
        }
        _ => legacy(heard),
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let lost = gate.call("a__t").await;
    assert_eq!(lost.code(), -32603, "{}", lost.text());
    assert_eq!(server.count("tools/call"), 1);
    until("the session is renewed", async || (gate.call("a__t").await.code() == 0).then_some(()))
        .await;
    assert_eq!(opened.load(Ordering::SeqCst), 2);
    let again = server.heard_of("initialize");
    assert_eq!(again[1].header("mcp-session-id"), None);
    assert_eq!(server.heard_of("tools/call").last().unwrap().header("mcp-session-id"), Some("s2"));
}
