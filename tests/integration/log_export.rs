//! Log export to a collector, beside stderr: resource and trace context, contents, and behaviour
//! while the collector is unavailable.

use std::time::{Duration, Instant};

use crate::rig::client::Request;
use crate::rig::collector::{Collector, Line, Mood};
use crate::rig::upstream::modern;
use crate::rig::{Gate, Upstream, Value, alive, json, until};

const RULES: &str = "policies:
  - { name: some, effect: allow, what: { tools: [\"**\"] } }
  - { name: no-wipe, effect: deny, what: { tools: [a/wipe] } }
";
/// Limits on pending records: the queue, and the batch that is being sent.
const QUEUE: usize = 2048;
const BATCH: usize = 512;
/// Limit on the shutdown without responses: three seconds for logs, three for spans, and a margin.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(25);

/// Starts a gateway that denies `a__wipe`.
async fn start(telemetry: Value) -> (Gate, (Upstream, tempfile::TempDir)) {
    let server = Upstream::http(modern(&["t", "wipe"])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    std::fs::write(&file, RULES).unwrap();
    let gate = Gate::start(json!({
        "servers": {"a": server.config()}, "policy": {"files": [file]}, "telemetry": telemetry,
    }))
    .await;
    (gate, (server, folder))
}

/// Returns the log records of denied calls.
fn denials(collector: &Collector) -> Vec<Line> {
    let mut lines = collector.lines();
    lines.retain(|line| line.text("decision") == "deny");
    lines
}

async fn deny(gate: &Gate) {
    let params = json!({"name": "a__wipe", "arguments": {}});
    assert_eq!(gate.modern("/mcp", "tools/call", params).await.code(), -32602);
}

async fn lost(gate: &Gate) -> f64 {
    let metrics = Request::bare("GET", "/metrics", "").send(gate.address).await.text();
    let lost = metrics.lines().find_map(|line| line.strip_prefix("lockgate_logs_lost_total "));
    lost.unwrap().parse().unwrap()
}

#[tokio::test]
async fn the_line_of_a_denied_call_arrives_with_the_ids_of_its_span() {
    let collector = Collector::start().await;
    let (gate, _kept) = start(json!({
        "otlp": collector.traces(), "otlp_logs": collector.logs(), "service_name": "gate-eu",
        "headers": {"X-Team": "blue"}, "resource": {"deployment.environment.name": "prod"},
    }))
    .await;
    let call = json!({"name": "a__wipe", "arguments": {"password": "s3cret-of-the-caller"}});
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let modern = Request::modern("/mcp", "tools/call", call.clone()).with("traceparent", parent);
    assert_eq!(modern.send(gate.address).await.code(), -32602);
    let session = gate.session("/mcp", "2025-06-18").await;
    assert_eq!(session.ask("tools/call", call).await.code(), -32602);
    let lines = until("both lines", async || {
        let lines = denials(&collector);
        (lines.len() == 2).then_some(lines)
    })
    .await;
    let spans = until("both spans", async || {
        let mut spans = collector.spans();
        spans.retain(|span| span.text("lockgate.denial") == "hidden");
        (spans.len() == 2).then_some(spans)
    })
    .await;
    for (line, span) in lines.iter().zip(&spans) {
        assert_eq!((&line.trace, &line.span), (&span.trace, &span.id), "{line:?} {span:?}");
        assert_eq!(line.severity, (9, "INFO".to_owned()));
        assert!(line.body.starts_with("decision=deny "), "{}", line.body);
        assert_eq!(line.text("rule"), "no-wipe");
        assert_eq!(line.text("method"), "tools/call");
        assert_eq!(line.text("target"), "audit");
        assert_eq!(line.text("client"), "127.0.0.1");
        assert_eq!(line.text("rpc_id"), span.text("jsonrpc.request.id"));
        assert!(line.attributes["duration_us"].is_i64());
        assert_eq!(line.scope, "lockgate");
        assert_eq!(line.resource, span.resource);
        assert_eq!(line.resource["service.name"], "gate-eu");
        assert_eq!(line.resource["deployment.environment.name"], "prod");
        // The same line is on stderr.
        assert!(gate.log().contains(&format!("request_id={}", line.text("request_id"))));
    }
    assert_eq!(hex(&lines[0].trace), parent[3..35]);
    for export in collector.exports() {
        assert!(export.head.contains("x-team: blue"), "{}", export.head);
        assert!(!String::from_utf8_lossy(&export.body).contains("s3cret"));
    }
    // Lines from before the first export are included.
    until("the line of the start", async || {
        collector.lines().into_iter().find(|line| line.body.starts_with("ready"))
    })
    .await;
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Without span export, log records carry the client's trace.
#[tokio::test]
async fn without_spans_a_line_names_the_span_of_the_client() {
    let collector = Collector::start().await;
    let (gate, _kept) = start(json!({"otlp_logs": collector.logs()})).await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let call = Request::modern("/mcp", "tools/call", json!({"name": "a__wipe"}));
    call.with("traceparent", parent).send(gate.address).await;
    deny(&gate).await;
    let lines = until("both lines", async || {
        let lines = denials(&collector);
        (lines.len() == 2).then_some(lines)
    })
    .await;
    assert_eq!(hex(&lines[0].trace), parent[3..35]);
    assert_eq!(hex(&lines[0].span), parent[36..52]);
    assert!(lines[1].trace.is_empty() && lines[1].span.is_empty(), "{:?}", lines[1]);
    assert!(collector.spans().is_empty());
}

#[tokio::test]
async fn lines_wait_for_a_collector_that_is_away_for_a_while() {
    const CALLS: usize = 30;
    let collector = Collector::start().await;
    collector.set_mood(Mood::HangsUp);
    let (gate, _kept) = start(json!({"otlp_logs": collector.logs()})).await;
    for _ in 0..CALLS {
        deny(&gate).await;
    }
    until("the log says so", async || {
        gate.log().contains("log lines were not exported (telemetry.otlp_logs)").then_some(())
    })
    .await;
    assert!(denials(&collector).is_empty());
    collector.set_mood(Mood::Answers);
    let lines = until("all lines", async || {
        let lines = denials(&collector);
        (lines.len() >= CALLS).then_some(lines)
    })
    .await;
    let mut ids: Vec<&str> = lines.iter().map(|line| line.text("request_id")).collect();
    ids.dedup();
    assert_eq!(ids.len(), CALLS, "each once, in order");
    assert!(lost(&gate).await < 1.0);
    // Logs of the exporter itself are not exported.
    assert!(collector.lines().iter().all(|line| !line.body.contains("exported")));
}

/// Calls continue, records beyond the queue are counted, and the shutdown is bounded.
#[tokio::test]
async fn a_collector_that_never_answers_holds_up_nothing() {
    const CALLS: usize = QUEUE + BATCH + 200;
    let collector = Collector::start().await;
    collector.set_mood(Mood::IsSilent);
    let (mut gate, _kept) = start(json!({
        "otlp": collector.traces(), "otlp_logs": collector.logs(),
    }))
    .await;
    let denied = futures_util::stream::iter(0..CALLS);
    futures_util::StreamExt::for_each_concurrent(denied, 16, |_| deny(&gate)).await;
    let lost = lost(&gate).await;
    assert!((200.0..CALLS as f64).contains(&lost), "{lost}");
    let began = Instant::now();
    gate.terminate();
    while alive(gate.pid()) {
        assert!(began.elapsed() < SHUTDOWN_TIMEOUT, "{:?}", began.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(gate.ended().await, Some(0));
}

#[tokio::test]
async fn what_is_logged_at_the_end_arrives() {
    let collector = Collector::start().await;
    let (mut gate, _kept) = start(json!({
        "otlp": collector.traces(), "otlp_logs": collector.logs(),
    }))
    .await;
    deny(&gate).await;
    gate.terminate();
    assert_eq!(gate.ended().await, Some(0));
    let lines = collector.lines();
    assert!(lines.iter().any(|line| line.body == "stopped"), "{lines:?}");
    assert_eq!(denials(&collector).len(), 1);
    assert_eq!(collector.spans().len(), 1, "spans too");
}
