//! `/metrics`: denials, unknown names, reloads, responses, certificates, issuers' keys and the
//! process.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use crate::connections::free_port;
use crate::principals::By;
use crate::rig::client::Request;
use crate::rig::gate::create_key;
use crate::rig::issuer::{Issuer, Signer};
use crate::rig::upstream::{legacy, modern};
use crate::rig::{Gate, Say, Upstream, Value, json, until};
use crate::tls;

/// Returns the metrics as the operator receives them.
async fn read(gate: &Gate) -> String {
    Request::bare("GET", "/metrics", "").send(gate.address).await.text()
}

/// Returns the value of a series, or `None` if it is absent.
fn find(metrics: &str, series: &str) -> Option<f64> {
    let rest = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    rest.trim().parse().ok()
}

const RULES: &str = "policies:
  - { name: some, effect: allow, what: { tools: [a/*] } }
  - { name: no-wipe, effect: deny, what: { tools: [a/wipe] } }
  - { name: safe-paths, effect: deny, what: { tools: [a/read] }, arguments: { /path: { value: { equals: good } } } }
  - { name: trial, effect: deny, dry_run: true, what: { tools: [a/free] } }
  - { name: twice, effect: deny, rate: { per_hour: 2, burst: 2, by: [principal] }, what: { tools: [a/slow] } }
";

/// Every denial is counted under its rule, in both eras.
#[tokio::test]
async fn denials_are_counted_by_rule_and_reason() {
    let a = Upstream::http(modern(&["wipe", "read", "free", "slow"])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    std::fs::write(&file, RULES).unwrap();
    let gate =
        Gate::start(json!({"servers": {"a": a.config()}, "policy": {"files": [file]}})).await;
    let session = gate.session("/mcp", "2025-11-25").await;
    let bad = json!({"name": "a__read", "arguments": {"path": "bad"}});
    assert!(gate.modern("/mcp", "tools/call", bad).await.text().contains("safe-paths"));
    assert_eq!(gate.call("a__wipe").await.code(), -32602);
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a__wipe"}});
    session.post(body.to_string()).send(gate.address).await;
    assert_eq!(gate.call("a__free").await.code(), 0);
    for code in [0, 0, -31029] {
        assert_eq!(gate.call("a__slow").await.code(), code);
    }
    gate.call("nobody__has_this").await;
    gate.modern("/mcp", "resources/read", json!({"uri": "nowhere://x"})).await;
    let metrics = read(&gate).await;
    for (series, count) in [
        (r#"lockgate_denials_total{reason="policy",rule="safe-paths"}"#, 1.0),
        (r#"lockgate_denials_total{reason="hidden",rule="no-wipe"}"#, 2.0),
        (r#"lockgate_denials_total{reason="dry_run",rule="trial"}"#, 1.0),
        (r#"lockgate_denials_total{reason="rate",rule="twice"}"#, 1.0),
        (r#"lockgate_unknown_names_total{kind="tool"}"#, 1.0),
        (r#"lockgate_calls_total{outcome="denied",server="a",tool="read"}"#, 1.0),
        (r#"lockgate_calls_total{outcome="ok",server="a",tool="slow"}"#, 2.0),
        (r#"lockgate_tool_duration_seconds_count{server="a",tool="slow"}"#, 2.0),
    ] {
        assert_eq!(find(&metrics, series), Some(count), "{series}\n{metrics}");
    }
    assert!(!metrics.contains("has_this"), "what clients write is no label");
}

/// A broken configuration is reported until it is corrected, beside figures of the process.
#[tokio::test]
async fn reloads_responses_and_the_process_are_exported() {
    let a = Upstream::http(modern(&["t"])).await;
    let good = json!({"servers": {"a": a.config()}});
    let gate = Gate::start(good.clone()).await;
    let metrics = read(&gate).await;
    let successful = "lockgate_config_last_reload_successful";
    assert_eq!(find(&metrics, successful), Some(1.0));
    let began = find(&metrics, "lockgate_config_last_reload_success_timestamp_seconds").unwrap();
    gate.write(r#"{"servers": 7}"#);
    until("the mistake is counted", async || {
        (find(&read(&gate).await, successful) == Some(0.0)).then_some(())
    })
    .await;
    let failed = find(&read(&gate).await, r#"lockgate_config_reloads_total{outcome="failure"}"#);
    assert!(failed >= Some(1.0));
    let mut other = good.clone();
    other["limits"] = json!({"sessions": 77});
    gate.configure(other);
    until("it is mended", async || {
        (find(&read(&gate).await, successful) == Some(1.0)).then_some(())
    })
    .await;
    assert_eq!(gate.call("a__t").await.code(), 0);
    assert_eq!(Request::bare("GET", "/nowhere", "").send(gate.address).await.status, 404);
    let metrics = read(&gate).await;
    let success = find(&metrics, r#"lockgate_config_reloads_total{outcome="success"}"#);
    assert_eq!(success, Some(1.0), "{metrics}");
    let last = find(&metrics, "lockgate_config_last_reload_success_timestamp_seconds");
    assert!(last >= Some(began));
    assert!(find(&metrics, r#"lockgate_http_responses_total{status="200"}"#) > Some(3.0));
    assert!(find(&metrics, r#"lockgate_http_responses_total{status="404"}"#) >= Some(1.0));
    assert!(metrics.contains(r#"lockgate_build_info{version="0."#), "{metrics}");
    let stat = std::fs::read_to_string(format!("/proc/{}/status", gate.pid())).unwrap();
    let resident = stat.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident: f64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    let told = find(&metrics, "process_resident_memory_bytes").unwrap() / 1024.0;
    assert!((told / resident - 1.0).abs() < 0.2, "{told} of {resident} KiB");
    assert!(find(&metrics, "process_open_fds") > Some(5.0));
    assert!(find(&metrics, "process_cpu_seconds_total") > Some(0.0));
}

/// Operations and sessions of both eras, for clients and servers, have the names and labels of the
/// OpenTelemetry conventions.
#[tokio::test]
async fn operations_and_sessions_are_measured_by_the_conventions() {
    let answers = modern(&["t", "fails", "breaks"]);
    let a = Upstream::http(move |heard| match heard.body["params"]["name"].as_str() {
        Some("fails") => Say::Json(heard.result(json!({
            "resultType": "complete", "isError": true, "content": [{"type": "text", "text": "no"}],
        }))),
        Some("breaks") => Say::Json(heard.error(-32077, "out of paper")),
        _ => answers(heard),
    })
    .await;
    let answers = legacy("2025-11-25", &["t", "lose"]);
    let b = Upstream::http(move |heard| match heard.body["params"]["name"].as_str() {
        Some("lose") => Say::Status(404, Vec::new(), Value::Null.to_string().into()),
        _ => answers(heard),
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": a.config(), "b": b.config()}})).await;
    for (tool, code) in [("a__t", 0), ("a__t", 0), ("a__breaks", -32603), ("nobody__t", -32602)] {
        assert_eq!(gate.call(tool).await.code(), code, "{tool}");
    }
    gate.call("a__fails").await;
    gate.modern("/mcp", "tools/list", json!({})).await;
    let session = gate.session("/mcp", "2025-06-18").await;
    assert_eq!(session.call("b__t").await.code(), 0);
    session.call("b__lose").await;
    let end = Request::bare("DELETE", "/mcp", "").with("Mcp-Session-Id", &session.id);
    assert_eq!(end.send(gate.address).await.status, 204);
    let modern = |more: &str| {
        format!(
            r#"mcp_protocol_version="2026-07-28",network_protocol_name="http",network_protocol_version="1.1",network_transport="tcp"{more}}}"#
        )
    };
    let of_tool = |tool: &str| {
        format!(
            r#"gen_ai_operation_name="execute_tool",gen_ai_tool_name="{tool}",mcp_method_name="tools/call","#
        )
    };
    let server = "mcp_server_operation_duration_seconds_count{";
    let client = "mcp_client_operation_duration_seconds_count{";
    let unknown = r#",rpc_response_status_code="-32602""#;
    let mut wanted = vec![
        (format!(r#"{server}mcp_method_name="tools/list",{}"#, modern("")), 1.0),
        (format!(r#"{server}mcp_method_name="tools/call",{}"#, modern(unknown)), 1.0),
        (r#"mcp_server_session_duration_seconds_count{mcp_protocol_version="2025-06-18",network_protocol_name="http",network_transport="tcp"}"#.to_owned(), 1.0),
    ];
    for (side, code) in [(server, -32603), (client, -32077)] {
        let ok = format!("{side}{}{}", of_tool("t"), modern(r#",server="a""#));
        wanted.push((ok, 2.0));
        let fails = modern(r#",server="a""#);
        wanted.push((format!(r#"{side}error_type="tool_error",{}{fails}"#, of_tool("fails")), 1.0));
        let broken = modern(&format!(r#",rpc_response_status_code="{code}",server="a""#));
        let breaks = [&of_tool("breaks"), broken.as_str()].concat();
        wanted.push((format!(r#"{side}error_type="{code}",{breaks}"#), 1.0));
    }
    let metrics = until("the session at the server is over", async || {
        let text = read(&gate).await;
        text.contains("mcp_client_session_duration_seconds_count{").then_some(text)
    })
    .await;
    for (series, count) in wanted {
        assert_eq!(find(&metrics, &series), Some(count), "{series}\n{metrics}");
    }
    let sessions =
        r#"mcp_client_session_duration_seconds_count{mcp_protocol_version="2025-11-25","#;
    assert!(metrics.contains(sessions), "{metrics}");
    let legacy = metrics.lines().find(|line| {
        line.starts_with(server)
            && line.contains(r#"gen_ai_tool_name="t""#)
            && line.contains("06-18")
    });
    assert!(legacy.is_some_and(|line| line.contains(r#"server="b""#)), "{metrics}");
    assert!(metrics.contains(r#"le="0.02""#) && metrics.contains(r#"le="300""#), "{metrics}");
}

/// The empty completion for a server without completions is not an error.
#[tokio::test]
async fn an_empty_completion_is_no_error() {
    let a = Upstream::http(|heard| match heard.method() {
        "server/discover" => Say::Json(heard.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
            "cacheScope": "private", "capabilities": {"prompts": {}, "completions": {}},
        }))),
        "prompts/list" => Say::Json(heard.result(json!({
            "resultType": "complete", "prompts": [{"name": "p"}], "ttlMs": 0,
            "cacheScope": "private",
        }))),
        _ => Say::Json(heard.error(-32601, "no such method")),
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": a.config()}})).await;
    let params = json!({
        "ref": {"type": "ref/prompt", "name": "a__p"}, "argument": {"name": "x", "value": "v"},
    });
    let answer = gate.modern("/mcp", "completion/complete", params).await.result();
    assert_eq!(answer["completion"]["values"], json!([]));
    assert_eq!(a.count("completion/complete"), 1);
    let metrics = read(&gate).await;
    let series =
        "mcp_server_operation_duration_seconds_count{mcp_method_name=\"completion/complete\"";
    assert!(metrics.contains(series), "{metrics}");
}

/// Returns the names in the table of `docs/observing.md`.
fn documented() -> BTreeSet<String> {
    let page = include_str!("../../docs/observing.md");
    let (_, table) = page.split_once("| metric | meaning |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let cells = table.lines().skip(2).filter_map(|row| row.split(" | ").next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// Every documented metric is exported, and every exported metric is documented.
#[tokio::test]
async fn the_page_of_metrics_and_the_program_agree() {
    let a = Upstream::http(modern(&["t", "no"])).await;
    let signer = Signer::new("k");
    let issuer = Issuer::start(&[&signer]).await;
    let folder = tempfile::tempdir().unwrap();
    let authority = tls::authority("authority");
    tls::write_server(folder.path(), &authority);
    let path = |name: &str| folder.path().join(name);
    let own = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let gate = Gate::launch(json!({
        "servers": {"a": a.config()}, "policy": {"tools": {"deny": ["a__no"]}},
        "auth": {"issuers": {"x": {"issuer": issuer.url}}, "anonymous": "loopback"},
        "http": {
            "public_url": "https://localhost",
            "tls": {"cert": path("cert.pem"), "key": path("key.pem")},
        },
        "admin": {"listen": own.to_string()},
        // The address has no listener.
        "audit": {"file": path("audit.jsonl"), "syslog": {"address": "tcp://127.0.0.1:1"}},
    }))
    .await;
    let call = |name: &str| Request::modern("/mcp", "tools/call", json!({"name": name}));
    for name in ["a__t", "a__no"] {
        tls::ask(&gate, &authority, None, &call(name)).await.unwrap();
    }
    let metrics = until("the keys of the issuer are there", async || {
        let text = Request::bare("GET", "/metrics", "").send(own).await.text();
        text.contains("lockgate_key_set_age_seconds{").then_some(text)
    })
    .await;
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let exported: BTreeSet<String> =
        types.filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect();
    let mut documented = documented();
    // Session durations appear only after the first session has ended.
    for side in ["server", "client"] {
        assert!(documented.remove(&format!("mcp_{side}_session_duration_seconds")));
    }
    assert!(documented.len() > 40, "{documented:?}");
    let (more, less): (Vec<_>, Vec<_>) =
        exported.symmetric_difference(&documented).partition(|name| exported.contains(*name));
    assert!(more.is_empty() && less.is_empty(), "not on the page {more:?}, not there {less:?}");
    let series = r#"lockgate_certificate_expiry_timestamp_seconds{certificate="server"}"#;
    assert!(find(&metrics, series) > Some(1.8e9), "{metrics}");
    let series = format!(r#"lockgate_key_set_keys{{issuer="{}"}}"#, issuer.url);
    assert_eq!(find(&metrics, &series), Some(1.0), "{metrics}");
}

/// The scrape token reads all of `/metrics` and no other endpoint; a caller's key gets no names.
#[tokio::test]
async fn a_scrape_token_reads_metrics_and_nothing_else() {
    const TOKEN: &str = "scrape-0f1e2d3c4b5a6978";
    let a = Upstream::http(modern(&["t"])).await;
    let more = json!({
        "servers": {"a": a.config()}, "admin": {"scrape_token": "${SCRAPE}"},
        "auth": {"keys_file": "keys.yaml"},
    });
    let gate = Gate::launch_with(more, &[("SCRAPE", TOKEN)]).await;
    gate.ready().await;
    let key = create_key(&gate, "ann").await;
    let call = Request::modern("/mcp", "tools/call", json!({"name": "a__t", "arguments": {}}));
    assert_eq!(call.by(&key).send(gate.address).await.code(), 0);
    let metrics = |by: &str| Request::bare("GET", "/metrics", "").by(by);
    let whole = metrics(TOKEN).send(gate.address).await;
    assert_eq!((whole.status, whole.text().contains("server=\"a\"")), (200, true));
    let own = metrics(&key).send(gate.address).await;
    assert_eq!((own.status, own.text().contains("server=\"a\"")), (200, false));
    for wrong in ["scrape-0f1e2d3c4b5a6979", "", &TOKEN[1..]] {
        assert_eq!(metrics(wrong).send(gate.address).await.status, 401, "{wrong}");
    }
    let twice = metrics(TOKEN).also("Authorization", &format!("Bearer {key}"));
    assert_ne!(twice.send(gate.address).await.status, 200);
    for path in ["/api/servers", "/approvals"] {
        let elsewhere = Request::bare("GET", path, "").by(TOKEN).send(gate.address).await;
        assert_eq!(elsewhere.status, 401, "{path}");
    }
    let list = Request::modern("/mcp", "tools/list", json!({})).by(TOKEN);
    assert_eq!(list.send(gate.address).await.status, 401);
    assert!(!gate.log().contains(TOKEN));
}
