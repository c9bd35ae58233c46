//! The client's address and the key's name in logs, records and spans. Forwarded addresses are
//! accepted only from trusted proxies.

use crate::principals::By;
use crate::rig::client::Request;
use crate::rig::collector::Collector;
use crate::rig::gate::{command, create_key};
use crate::rig::upstream::modern;
use crate::rig::{Gate, Upstream, Value, json, until};

/// Waits for this many audit records of a kind.
async fn records(gate: &Gate, kind: &str, count: usize) -> Vec<Value> {
    until(&format!("{count} records of {kind}"), async || {
        let text = std::fs::read_to_string(gate.folder.path().join("audit.jsonl")).ok()?;
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let records: Vec<Value> = lines.filter(|record| record["kind"] == kind).collect();
        (records.len() >= count).then_some(records)
    })
    .await
}

async fn gate(server: &Upstream, collector: &Collector, http: Value) -> (Gate, String) {
    let gate = Gate::start(json!({
        "servers": {"a": server.config()}, "http": http,
        "audit": {"file": "audit.jsonl"}, "auth": {"keys_file": "keys.yaml"},
        "telemetry": {"otlp": collector.traces()},
    }))
    .await;
    let key = create_key(&gate, "ci-laptop").await;
    (gate, key)
}

#[tokio::test]
async fn a_trusted_proxy_names_its_client_everywhere() {
    let collector = Collector::start().await;
    let server = Upstream::http(modern(&["t"])).await;
    let http = json!({"trusted_proxies": ["127.0.0.0/8", "10.0.0.0/8"]});
    let (gate, key) = gate(&server, &collector, http).await;
    let call = |header: &str| {
        Request::modern("/mcp", "tools/call", json!({"name": "a__t", "arguments": {}}))
            .by(&key)
            .with("X-Forwarded-For", header)
            .with("Forwarded", "for=6.6.6.6")
    };
    let cases = [
        ("192.0.2.7", "192.0.2.7"),
        ("6.6.6.6, 2001:db8::7, 10.0.0.2", "2001:db8::7"),
        ("[2001:db8::8]:4711", "2001:db8::8"),
        ("6.6.6.6, unknown", "127.0.0.1"),
        ("\"}evil", "127.0.0.1"),
    ];
    for (header, _) in cases {
        assert_eq!(call(header).send(gate.address).await.code(), 0, "{header}");
    }
    let decisions = records(&gate, "decision", cases.len()).await;
    for (record, (header, client)) in decisions.iter().zip(cases) {
        assert_eq!((&record["client"], &record["key"]), (&json!(client), &json!("ci-laptop")));
        assert_eq!(record["who"].as_str().map(str::len), Some(16), "{header}: {record}");
    }
    // A rejected caller is also named in the record, the log and the span.
    let bad = Request::modern("/mcp", "tools/list", json!({})).by("lg_nothing");
    let refused = bad.with("X-Forwarded-For", "192.0.2.99").send(gate.address).await;
    assert_eq!(refused.status, 401);
    let lost = Request::legacy("/mcp", "nothing", 1, "tools/list", &json!({})).by(&key);
    assert_eq!(lost.with("X-Forwarded-For", "192.0.2.98").send(gate.address).await.status, 404);
    for (client, member, value) in
        [("192.0.2.99", "reason", "unauthenticated"), ("192.0.2.98", "key", "ci-laptop")]
    {
        let record = until("the refusal", async || {
            let refusals = records(&gate, "refusal", 1).await;
            refusals.into_iter().find(|record| record["client"] == client)
        })
        .await;
        assert_eq!(record[member], value);
    }
    until("the line of the log", async || gate.log().contains("client=192.0.2.98").then_some(()))
        .await;
    until("the span", async || {
        let spans = collector.spans();
        let told = |address| spans.iter().any(|span| span.text("client.address") == address);
        (told("2001:db8::7") && !told("6.6.6.6")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn nobody_else_names_a_client() {
    let collector = Collector::start().await;
    let server = Upstream::http(modern(&["t"])).await;
    for http in [json!({}), json!({"trusted_proxies": ["10.0.0.0/8"]})] {
        let (gate, key) = gate(&server, &collector, http).await;
        let call = Request::modern("/mcp", "tools/call", json!({"name": "a__t", "arguments": {}}));
        let call =
            call.by(&key).with("X-Forwarded-For", "6.6.6.6").with("Forwarded", "for=6.6.6.6");
        assert_eq!(call.send(gate.address).await.code(), 0);
        assert_eq!(records(&gate, "decision", 1).await[0]["client"], "127.0.0.1");
    }
}

#[test]
fn a_network_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lockgate.yaml");
    std::fs::write(&file, "http: { trusted_proxies: [10.0.0.0/8, 10.0.0.0/33] }\n").unwrap();
    let output = command().args(["check", "--config"]).arg(&file).output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(told.contains("is not an address or network"), "{told}");
}
