//! Exported spans: each kind of request, compared with the OpenTelemetry conventions for MCP
//! (`conventions/mcp.json`).

use std::collections::BTreeSet;

use crate::rig::client::Request;
use crate::rig::collector::{Collector, Span};
use crate::rig::upstream::{legacy, modern_with, tool};
use crate::rig::{Gate, HeardMessage, Say, Upstream, Value, json, until};

const CONVENTIONS: &str = include_str!("conventions/mcp.json");
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const RULES: &str = "policies:
  - { name: some, effect: allow, what: { tools: [\"**\"], prompts: [\"**\"], resources: [\"**\"] } }
  - { name: no-wipe, effect: deny, what: { tools: [a/wipe] } }
  - { name: safe-paths, effect: deny, what: { tools: [a/read] }, arguments: { /path: { value: { equals: good } } } }
";

/// Returns a modern server with tools, a prompt and a resource; some of its tools fail.
fn everything() -> impl Fn(&HeardMessage) -> Say + Send + Sync {
    let tools = ["t", "wipe", "read", "fails", "breaks"].map(tool).to_vec();
    let plain = modern_with(tools);
    move |heard| match (heard.method(), heard.body["params"]["name"].as_str()) {
        ("server/discover", _) => Say::Json(heard.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
            "cacheScope": "private", "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
        }))),
        ("tools/call", Some("fails")) => Say::Json(heard.result(json!({
            "resultType": "complete", "isError": true, "content": [{"type": "text", "text": "no"}],
        }))),
        ("tools/call", Some("breaks")) => Say::Json(heard.error(-32077, "out of paper")),
        ("prompts/list", _) => Say::Json(heard.result(json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "prompts": [{"name": "greet"}],
        }))),
        ("prompts/get", _) => {
            Say::Json(heard.result(json!({"resultType": "complete", "messages": []})))
        }
        ("resources/list", _) => Say::Json(heard.result(json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "resources": [{"name": "r", "uri": "file:///r"}],
        }))),
        ("resources/templates/list", _) => Say::Json(heard.result(json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "resourceTemplates": [],
        }))),
        ("resources/read", _) => Say::Json(heard.result(json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "contents": [{"uri": "file:///r", "text": "r"}],
        }))),
        _ => plain(heard),
    }
}

/// Checks a span's attributes against the conventions for its kind and outcome.
fn check(span: &Span, seen: &mut BTreeSet<String>) {
    let conventions: Value = serde_json::from_str(CONVENTIONS).unwrap();
    let mut levels = conventions["common"].as_object().unwrap().clone();
    levels.extend(conventions[span.kind].as_object().expect("a kind of span").clone());
    let method = span.text("mcp.method.name");
    let over_http = span.text("network.transport") == "tcp";
    assert!(over_http || span.text("network.transport") == "pipe", "{span:?}");
    for (name, level) in &levels {
        let is_there = span.attributes.contains_key(name);
        let is_due = match level.as_str().unwrap() {
            "required" => true,
            "over HTTP" => over_http,
            "of a tool call" => method == "tools/call",
            "of a prompt" => method == "prompts/get",
            "of a resource" => {
                matches!(method, "resources/read" | "resources/subscribe" | "resources/unsubscribe")
            }
            "of a request" => !method.starts_with("notifications/"),
            "failed" => span.is_error,
            "opt-in" | "not 2.0" => false,
            // Tested below.
            "recommended" | "in a session" | "answered with an error" => is_there,
            unknown => panic!("{unknown}"),
        };
        assert_eq!(is_there, is_due, "{name} ({level}): {span:?}");
    }
    for (name, value) in &span.attributes {
        seen.insert(format!("{} {name}", span.kind));
        if name.starts_with("lockgate.") {
            continue;
        }
        assert!(levels.contains_key(name), "{name} is in no convention: {span:?}");
        let is_right = match conventions["types"][name].as_str().unwrap() {
            "string" => value.is_string(),
            "int" => value.is_i64(),
            _ => true,
        };
        assert!(is_right, "{name}: {value}");
    }
    let target = [span.text("gen_ai.tool.name"), span.text("gen_ai.prompt.name")].concat();
    assert!(span.name == method || span.name == format!("{method} {target}"), "{span:?}");
    let code = span.text("rpc.response.status_code");
    let excused = &conventions["not_errors_of_the_server"];
    let is_excused = excused.as_array().unwrap().contains(&json!(code)) && span.kind == "server";
    if !code.is_empty() {
        assert_eq!(span.is_error, !is_excused, "{span:?}");
    }
    if span.is_error && !code.is_empty() {
        assert_eq!(span.text("error.type"), code, "{span:?}");
        assert!(!span.message.is_empty(), "{span:?}");
    }
}

/// Waits for this many spans of a trace.
async fn trace(collector: &Collector, trace: &str, count: usize) -> Vec<Span> {
    until(&format!("{count} spans of {trace}"), async || {
        let mut spans = collector.spans();
        spans.retain(|span| hex(&span.trace) == trace);
        (spans.len() >= count).then_some(spans)
    })
    .await
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a separate trace for each request of a test.
fn parent_of(number: u32) -> (String, String) {
    let trace = format!("0af7651916cd43dd8448eb21{number:08x}");
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    (trace, parent)
}

#[tokio::test]
async fn every_span_is_what_the_conventions_say() {
    let collector = Collector::start().await;
    let new = Upstream::http(everything()).await;
    let old = Upstream::http(legacy("2025-11-25", &["t"])).await;
    let child = Upstream::lines(legacy("2025-06-18", &["t"])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    std::fs::write(&file, RULES).unwrap();
    let gate = Gate::start(json!({
        "servers": {"a": new.config(), "b": old.config(), "c": child.config()},
        "policy": {"files": [file]}, "telemetry": {"otlp": collector.traces()},
    }))
    .await;
    let call = |name: &str| json!({"name": name, "arguments": {}});
    // Method, params, attributes of the SERVER span, and of the CLIENT span if there is one.
    let cases = [
        ("tools/list", json!({}), json!({}), Value::Null),
        ("server/discover", json!({}), json!({}), Value::Null),
        (
            "tools/call",
            call("a__t"),
            json!({"gen_ai.tool.name": "a__t", "lockgate.server": "a", "lockgate.outcome": "ok"}),
            json!({"gen_ai.tool.name": "t", "mcp.protocol.version": "2026-07-28"}),
        ),
        (
            "tools/call",
            call("b__t"),
            json!({"lockgate.server": "b"}),
            json!({"mcp.session.id": "abc", "mcp.protocol.version": "2025-11-25"}),
        ),
        (
            "tools/call",
            call("c__t"),
            json!({"lockgate.server": "c"}),
            json!({"network.transport": "pipe", "mcp.protocol.version": "2025-06-18"}),
        ),
        (
            "tools/call",
            call("a__fails"),
            json!({"error.type": "tool_error", "lockgate.outcome": "tool_error"}),
            json!({"error.type": "tool_error"}),
        ),
        (
            "tools/call",
            call("a__breaks"),
            json!({"rpc.response.status_code": "-32603", "lockgate.outcome": "protocol_error"}),
            json!({"rpc.response.status_code": "-32077", "error.type": "-32077"}),
        ),
        (
            "tools/call",
            call("a__wipe"),
            json!({"rpc.response.status_code": "-32602", "lockgate.rule": "no-wipe",
                "lockgate.denial": "hidden", "lockgate.outcome": "denied"}),
            Value::Null,
        ),
        (
            "tools/call",
            json!({"name": "a__read", "arguments": {"path": "bad"}}),
            json!({"lockgate.rule": "safe-paths", "lockgate.denial": "policy"}),
            Value::Null,
        ),
        (
            "prompts/get",
            json!({"name": "a__greet"}),
            json!({"gen_ai.prompt.name": "a__greet"}),
            json!({"gen_ai.prompt.name": "greet"}),
        ),
        (
            "tools/call",
            call("nobody__has_this"),
            json!({"rpc.response.status_code": "-32602", "gen_ai.tool.name": "nobody__has_this"}),
            Value::Null,
        ),
        (
            "no/such",
            json!({}),
            json!({"mcp.method.name": "_OTHER", "rpc.response.status_code": "-32601"}),
            Value::Null,
        ),
    ];
    let mut seen = BTreeSet::new();
    for (number, (method, params, server, client)) in (1..).zip(cases) {
        let (id, parent) = parent_of(number);
        let request = Request::modern("/mcp", method, params).with("traceparent", &parent);
        request.send(gate.address).await;
        let count = if client.is_null() { 1 } else { 2 };
        let spans = trace(&collector, &id, count).await;
        assert_eq!(spans.len(), count, "{spans:?}");
        let find = |kind| spans.iter().find(|span| span.kind == kind);
        let of_server = find("server").expect("a SERVER span");
        assert_eq!(hex(&of_server.parent), "b7ad6b7169203331");
        assert_eq!(of_server.text("client.address"), "127.0.0.1");
        assert_eq!(of_server.text("network.protocol.version"), "1.1");
        for (span, wanted) in [(Some(of_server), server), (find("client"), client)] {
            let Some(span) = span else { continue };
            check(span, &mut seen);
            for (name, value) in wanted.as_object().unwrap() {
                assert_eq!(span.attributes.get(name), Some(value), "{name} of {span:?}");
            }
        }
        if let Some(of_client) = find("client") {
            assert_eq!(of_client.parent, of_server.id);
        }
    }
    resources(&gate, &collector, &mut seen).await;
    sessions(&gate, &collector, &mut seen).await;
    // Every attribute of the conventions occurred for either side.
    let conventions: Value = serde_json::from_str(CONVENTIONS).unwrap();
    for kind in ["server", "client"] {
        let mut all = conventions["common"].as_object().unwrap().clone();
        all.extend(conventions[kind].as_object().unwrap().clone());
        for (name, level) in all {
            let is_due = level != "opt-in" && level != "not 2.0";
            assert_eq!(seen.contains(&format!("{kind} {name}")), is_due, "{kind} {name}");
        }
    }
    assert_eq!(collector.spans()[0].resource["service.name"], "lockgate");
    // Servers get the same trace context in the message and in the headers.
    for server in [&new, &old] {
        for heard in server.heard_of("tools/call") {
            let told = heard.body["params"]["_meta"]["traceparent"].as_str().unwrap();
            assert_eq!(heard.header("traceparent"), Some(told));
        }
    }
}

/// Checks a resource: its URI is not part of the span's name.
async fn resources(gate: &Gate, collector: &Collector, seen: &mut BTreeSet<String>) {
    let list = gate.modern("/mcp", "resources/list", json!({})).await.result();
    let uri = list["resources"][0]["uri"].as_str().unwrap();
    let (id, parent) = parent_of(100);
    let read = Request::modern("/mcp", "resources/read", json!({"uri": uri}));
    assert_eq!(read.with("traceparent", &parent).send(gate.address).await.code(), 0);
    for span in trace(collector, &id, 2).await {
        check(&span, seen);
        assert_eq!(span.name, "resources/read");
        let own = if span.kind == "server" { uri } else { "file:///r" };
        assert_eq!(span.text("mcp.resource.uri"), own);
    }
}

/// Checks a legacy session: its start, a call, notifications, and a rejected request.
async fn sessions(gate: &Gate, collector: &Collector, seen: &mut BTreeSet<String>) {
    let session = gate.session("/mcp", "2025-06-18").await;
    assert_eq!(session.call("a__t").await.code(), 0);
    assert_eq!(session.ask("logging/setLevel", json!({"level": "loud"})).await.code(), -32602);
    session.ask("ping", json!({})).await;
    let methods =
        ["initialize", "notifications/initialized", "tools/call", "logging/setLevel", "ping"];
    let spans = until("the spans of the session", async || {
        let mut spans = collector.spans();
        spans.retain(|span| span.kind == "server" && span.text("mcp.session.id") == session.id);
        (spans.len() == methods.len()).then_some(spans)
    })
    .await;
    for (span, method) in spans.iter().zip(methods) {
        check(span, seen);
        assert_eq!(span.text("mcp.method.name"), method);
        assert_eq!(span.text("mcp.protocol.version"), "2025-06-18");
        assert_eq!(span.parent, Vec::<u8>::new(), "nobody began this trace: {span:?}");
    }
    assert_eq!(spans[3].text("rpc.response.status_code"), "-32602");
    let lost = Request::legacy("/mcp", "nothing", 7, "tools/call", &json!({"name": "a__t"}));
    assert_eq!(lost.send(gate.address).await.status, 404);
    until("the span of a lost session", async || {
        let spans = collector.spans();
        let found = spans.iter().find(|span| span.text("rpc.response.status_code") == "-32600")?;
        assert_eq!(found.attributes.get("mcp.session.id"), None);
        Some(())
    })
    .await;
}

/// An unsampled trace is not exported, and is forwarded unchanged.
#[tokio::test]
async fn a_trace_that_is_not_sampled_leaves_no_span() {
    let collector = Collector::start().await;
    let a = Upstream::http(crate::rig::upstream::modern(&["t"])).await;
    let gate = Gate::start(json!({
        "servers": {"a": a.config()}, "telemetry": {"otlp": collector.traces()},
    }))
    .await;
    for flags in ["00", "01"] {
        let parent = format!("{}{flags}", &PARENT[..53]);
        let request = Request::modern("/mcp", "tools/call", json!({"name": "a__t"}));
        assert_eq!(request.with("traceparent", &parent).send(gate.address).await.code(), 0);
        let heard = a.heard_of("tools/call").pop().unwrap();
        assert!(heard.header("traceparent").unwrap().ends_with(flags));
    }
    let spans = trace(&collector, &PARENT[3..35], 2).await;
    assert_eq!(spans.len(), 2, "{spans:?}");
}

/// The variables of the OpenTelemetry specification apply without configuration.
#[tokio::test]
async fn the_standard_variables_lead_to_the_collector() {
    let collector = Collector::start().await;
    let a = Upstream::http(crate::rig::upstream::modern(&["t"])).await;
    let endpoint = format!("http://{}", collector.address);
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20t0ken-of-the-collector"),
        ("OTEL_SERVICE_NAME", "gate-eu"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=prod,service.name=other"),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0"),
    ];
    let more = json!({"telemetry": {"resource": {"team": "blue"}}, "servers": {"a": a.config()}});
    let gate = Gate::launch_with(more, &variables).await;
    gate.ready().await;
    assert_eq!(gate.call("a__t").await.code(), 0);
    let request = Request::modern("/mcp", "tools/call", json!({"name": "a__t"}));
    assert_eq!(request.with("traceparent", PARENT).send(gate.address).await.code(), 0);
    let spans = trace(&collector, &PARENT[3..35], 2).await;
    assert_eq!(collector.spans().len(), spans.len(), "what begins here is not sampled");
    let resource = &spans[0].resource;
    assert_eq!(resource["service.name"], "gate-eu");
    assert_eq!(resource["deployment.environment.name"], "prod");
    assert_eq!(resource["team"], "blue");
    let export = &collector.exports()[0];
    assert!(
        export.head.contains("authorization: Bearer t0ken-of-the-collector"),
        "{}",
        export.head
    );
    assert!(!gate.log().contains("t0ken"));
}
