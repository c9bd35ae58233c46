//! Tests of `metrics`.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use super::*;
use crate::Format;
use crate::labels::{FailureType, Outcome, ServerState};

fn metrics(tools: usize) -> Metrics {
    Metrics::new(&Config {
        level: "info".into(),
        format: Format::Text,
        export: crate::Export { tools, ..crate::Export::default() },
        audit: None,
    })
}

fn has(text: &str, line: &str) -> bool {
    text.lines().any(|found| found == line)
}

#[test]
fn calls_are_exported_by_server_tool_and_outcome() {
    let metrics = metrics(10);
    let tool = metrics.tool(None, "files", "read");
    tool.record(Outcome::Ok, Duration::from_millis(3));
    tool.record(Outcome::Ok, Duration::from_millis(3));
    tool.record(Outcome::ToolError, Duration::from_secs(2));
    tool.record(Outcome::Denied, Duration::from_secs(9));
    let text = metrics.render();
    for line in [
        r#"lockgate_calls_total{outcome="ok",server="files",tool="read"} 2"#,
        r#"lockgate_calls_total{outcome="tool_error",server="files",tool="read"} 1"#,
        r#"lockgate_calls_total{outcome="denied",server="files",tool="read"} 1"#,
        r#"lockgate_call_duration_seconds_bucket{server="files",le="0.0025"} 0"#,
        r#"lockgate_call_duration_seconds_bucket{server="files",le="0.005"} 2"#,
        r#"lockgate_call_duration_seconds_bucket{server="files",le="60"} 3"#,
        r#"lockgate_call_duration_seconds_bucket{server="files",le="+Inf"} 3"#,
        r#"lockgate_call_duration_seconds_sum{server="files"} 2.006"#,
        r#"lockgate_call_duration_seconds_count{server="files"} 3"#,
        "# TYPE lockgate_call_duration_seconds histogram",
        "# TYPE lockgate_calls_total counter",
    ] {
        assert!(has(&text, line), "{line}\n{text}");
    }
    assert!(!text.contains("timeout"), "{text}");
    // Counters keep their value between readings.
    let counted = |text: &str| {
        Vec::from_iter(text.lines().filter(|line| line.contains("files")).map(str::to_owned))
    };
    assert_eq!(counted(&metrics.render()), counted(&text));
}

#[test]
fn handles_of_one_name_are_one() {
    let metrics = metrics(10);
    assert!(Arc::ptr_eq(&metrics.tool(None, "a", "x"), &metrics.tool(None, "a", "x")));
    assert!(!Arc::ptr_eq(&metrics.tool(None, "a", "x"), &metrics.tool(None, "b", "x")));
    assert!(Arc::ptr_eq(metrics.tool(None, "a", "x").server(), &metrics.server(None, "a")));
}

#[test]
fn tools_beyond_the_bound_are_counted_together_for_each_server() {
    let metrics = metrics(2);
    for (server, tool) in
        [("a", "1"), ("a", "2"), ("a", "3"), ("a", "4"), ("b", "1"), ("b", "other")]
    {
        metrics.tool(None, server, tool).record(Outcome::Ok, Duration::ZERO);
    }
    let text = metrics.render();
    assert!(has(&text, r#"lockgate_calls_total{outcome="ok",server="a",tool="2"} 1"#), "{text}");
    assert!(
        has(&text, r#"lockgate_calls_total{outcome="ok",server="a",tool="other"} 2"#),
        "{text}"
    );
    assert!(
        has(&text, r#"lockgate_calls_total{outcome="ok",server="b",tool="other"} 2"#),
        "{text}"
    );
    assert_eq!(text.matches("lockgate_calls_total{").count(), 4);
}

#[test]
fn more_tools_than_the_sdk_would_keep_by_itself_are_exported_one_by_one() {
    let metrics = metrics(3000);
    for number in 0..3000 {
        metrics.tool(None, "a", &number.to_string()).record(Outcome::Ok, Duration::ZERO);
    }
    let text = metrics.render();
    assert_eq!(text.matches("lockgate_calls_total{").count(), 3000);
    assert!(!text.contains("overflow"));
}

#[test]
fn what_is_removed_leaves_the_export_and_makes_room() {
    let metrics = metrics(2);
    metrics.tool(None, "a", "1");
    metrics.tool(None, "b", "1");
    assert!(metrics.render().contains(r#"server="a""#));
    metrics.remove_server(None, "a");
    assert!(!metrics.render().contains(r#"server="a""#));
    metrics.tool(None, "b", "2");
    metrics.keep_tools(None, "b", ["2"]);
    metrics.tool(None, "b", "3");
    let text = metrics.render();
    assert!(text.contains(r#"tool="2""#) && text.contains(r#"tool="3""#), "{text}");
    assert!(!text.contains(r#"tool="1""#) && !text.contains(r#"tool="other""#), "{text}");
    metrics.remove_server(None, "unknown");
}

#[test]
fn gauges_rejections_and_servers_are_exported() {
    let metrics = metrics(1);
    metrics.gauges().sessions.set(1);
    metrics.gauges().queued.set(7);
    metrics.rejected(Rejection::Origin);
    let server = metrics.server(None, "files");
    server.set_state(ServerState::Connected);
    server.numbers.restarts.add(1);
    server.numbers.list_changes.add(1);
    let text = metrics.render();
    for line in [
        "lockgate_sessions 1",
        "lockgate_streams 0",
        "lockgate_requests_in_flight 0",
        "lockgate_requests_queued 7",
        r#"lockgate_requests_rejected_total{reason="origin"} 1"#,
        r#"lockgate_requests_rejected_total{reason="host"} 0"#,
        r#"lockgate_server_state{server="files",state="connected"} 1"#,
        r#"lockgate_server_state{server="files",state="pending"} 0"#,
        r#"lockgate_server_restarts_total{server="files"} 1"#,
        r#"lockgate_server_list_changes_total{server="files"} 1"#,
        "lockgate_spans_lost_total 0",
    ] {
        assert!(has(&text, line), "{line}\n{text}");
    }
    metrics.gauges().sessions.set(0);
    assert!(has(&metrics.render(), "lockgate_sessions 0"));
}

#[test]
fn names_cannot_break_a_line_or_grow_without_end() {
    let metrics = metrics(10);
    metrics.tool(None, "a", "x\"} 1\nevil 1").record(Outcome::Ok, Duration::ZERO);
    metrics.tool(None, "a", &"é".repeat(500)).record(Outcome::Ok, Duration::ZERO);
    let text = metrics.render();
    assert!(!text.lines().any(|line| line.starts_with("evil")), "{text}");
    assert!(text.contains(&"é".repeat(128)) && !text.contains(&"é".repeat(129)));
}

#[test]
fn servers_of_organisations_are_counted_apart_and_shown_to_operators_alone() {
    let metrics = metrics(2);
    metrics.tool(None, "github", "x").record(Outcome::Ok, Duration::ZERO);
    for organisation in ["acme", "umbrella"] {
        metrics.tool(Some(organisation), "github", "x").record(Outcome::Ok, Duration::ZERO);
    }
    metrics.tool(None, "github", "y").record(Outcome::Ok, Duration::ZERO);
    let all = metrics.render();
    let counted = |labels: &str| {
        let line = format!("lockgate_calls_total{{{labels}}} 1");
        all.lines().filter(|known| **known == line).count()
    };
    assert_eq!(counted(r#"outcome="ok",server="github",tool="x""#), 1, "{all}");
    assert_eq!(counted(r#"outcome="ok",server="github",tool="y""#), 1, "not crowded out");
    for organisation in ["acme", "umbrella"] {
        let labels =
            format!(r#"organisation="{organisation}",outcome="ok",server="github",tool="x""#);
        assert_eq!(counted(&labels), 1, "{all}");
    }
    let shared = metrics.render_shared();
    assert!(!shared.contains("acme") && !shared.contains("github"), "{shared}");
    assert!(shared.contains("lockgate_requests_rejected_total{reason="), "{shared}");
}

#[test]
fn servers_of_organisations_beyond_the_bound_are_counted_together() {
    let metrics = metrics(2);
    for number in 0..1100 {
        metrics.server(Some(&format!("o{number}")), "github").numbers.restarts.add(1);
    }
    let all = metrics.render();
    let restarts = all.lines().filter(|line| line.starts_with("lockgate_server_restarts_total{"));
    assert_eq!(restarts.clone().count(), 1025);
    let other = restarts.filter(|line| line.contains(r#"server="other""#));
    assert_eq!(Vec::from_iter(other).len(), 1);
    metrics.remove_server(Some("o1"), "github");
    metrics.server(Some("new"), "github");
    assert!(metrics.render().contains(r#"organisation="new""#));
}

#[test]
fn one_organisation_leaves_room_for_the_figures_of_others() {
    let metrics = metrics(16);
    for number in 0..1024 {
        metrics.server(Some("large"), &format!("s{number}")).numbers.restarts.add(1);
        metrics
            .tool(Some("large"), "s0", &format!("t{number}"))
            .record(Outcome::Ok, Duration::ZERO);
    }
    assert!(metrics.find_server(Some("large"), "s1023").is_none(), "it is counted with others");
    metrics.tool(Some("small"), "github", "x").record(Outcome::Ok, Duration::ZERO);
    assert!(metrics.find_server(Some("small"), "github").is_some());
    let line = r#"organisation="small",outcome="ok",server="github",tool="x""#;
    assert!(metrics.render().contains(line), "{}", metrics.render());
}

#[test]
fn figures_of_a_tool_begin_anew_when_they_are_reset() {
    let metrics = metrics(1);
    let tool = metrics.tool(None, "a", "t");
    tool.record(Outcome::Ok, Duration::from_millis(3));
    tool.record(Outcome::Timeout, Duration::from_secs(1));
    tool.record(Outcome::Cancelled, Duration::from_secs(1));
    tool.record(Outcome::Denied, Duration::ZERO);
    tool.ended(Instant::now());
    let figures = tool.figures().unwrap();
    let counts = (figures.invocations, figures.successes, figures.failures, figures.cancelled);
    assert_eq!(counts, (3, 1, 1, 1));
    assert!(figures.last.is_some() && figures.average.is_some() && figures.p95.is_some());
    std::thread::sleep(Duration::from_millis(2));
    tool.reset();
    let reset = tool.figures().unwrap();
    assert_eq!((reset.invocations, reset.failures, reset.last), (0, 0, None));
    assert!(reset.since > figures.since && reset.average.is_none() && reset.p95.is_none());
    tool.record(Outcome::Ok, Duration::from_millis(3));
    tool.ended(Instant::now());
    let later = tool.figures().unwrap();
    assert_eq!((later.invocations, later.successes), (1, 1));
    assert!(later.last.is_some_and(|last| last >= reset.since));
    let line = r#"lockgate_calls_total{outcome="ok",server="a",tool="t"} 2"#;
    assert!(has(&metrics.render(), line), "{}", metrics.render());
    let server = tool.server();
    server.failed(FailureType::Timeout);
    let figures = metrics.find_server(None, "a").unwrap().figures();
    assert_eq!((figures.calls, figures.errors["timeout"]), (4, 1));
    assert!(metrics.find_server(None, "b").is_none());
    assert_eq!(metrics.tool(None, "a", "u").figures(), None, "it is counted with others");
}

#[test]
fn denials_are_counted_by_rule_and_reason_within_a_bound() {
    let metrics = metrics(1);
    metrics.denied("no-delete", Denial::Policy);
    metrics.denied("no-delete", Denial::Policy);
    metrics.denied("no-delete", Denial::Hidden);
    metrics.named_unknown(Unknown::Tool);
    let text = metrics.render();
    for line in [
        r#"lockgate_denials_total{reason="policy",rule="no-delete"} 2"#,
        r#"lockgate_denials_total{reason="hidden",rule="no-delete"} 1"#,
        r#"lockgate_unknown_names_total{kind="tool"} 1"#,
        r#"lockgate_unknown_names_total{kind="prompt"} 0"#,
        "# TYPE lockgate_denials_total counter",
    ] {
        assert!(has(&text, line), "{line}\n{text}");
    }
    assert!(!metrics.render_shared().contains("no-delete"), "rules are for operators");
    for number in 0..2000 {
        metrics.denied(&number.to_string(), Denial::Rate);
    }
    let text = metrics.render();
    let rates = text.lines().filter(|line| line.contains(r#"reason="rate""#));
    assert_eq!(rates.count(), 1024);
    assert!(has(&text, r#"lockgate_denials_total{reason="rate",rule="other"} 977"#), "{text}");
}

#[test]
fn reloads_statuses_and_certificates_are_exported() {
    let metrics = metrics(1);
    let figure = |name: &str| {
        let text = metrics.render();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse::<f64>().ok())
    };
    let last = "lockgate_config_last_reload_success_timestamp_seconds";
    assert!(figure(last).is_some_and(|at| at > 1.7e9), "the configuration of the start");
    assert_eq!(figure("lockgate_config_last_reload_successful"), Some(1.0));
    metrics.reloaded(false);
    assert_eq!(figure("lockgate_config_last_reload_successful"), Some(0.0));
    metrics.reloaded(true);
    assert_eq!(figure("lockgate_config_last_reload_successful"), Some(1.0));
    for outcome in ["success", "failure"] {
        let name = format!(r#"lockgate_config_reloads_total{{outcome="{outcome}"}}"#);
        assert_eq!(figure(&name), Some(1.0));
    }
    for status in [200, 200, 503, 7, 1000] {
        metrics.responded(status);
    }
    assert_eq!(figure(r#"lockgate_http_responses_total{status="200"}"#), Some(2.0));
    assert_eq!(metrics.render().matches("lockgate_http_responses_total{").count(), 2);
    metrics.set_certificates(vec![("server", 1_900_000_000)]);
    let name = r#"lockgate_certificate_expiry_timestamp_seconds{certificate="server"}"#;
    assert_eq!(figure(name), Some(1.9e9));
    let age = Some(Duration::from_secs(90));
    let issuer = "https://login.example".to_owned();
    metrics.set_key_sets(vec![KeySet { issuer, keys: 3, age }]);
    let labels = r#"{issuer="https://login.example"}"#;
    assert_eq!(figure(&format!("lockgate_key_set_keys{labels}")), Some(3.0));
    assert_eq!(figure(&format!("lockgate_key_set_age_seconds{labels}")), Some(90.0));
    assert!(!metrics.render_shared().contains("login.example"));
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(figure(&format!(r#"lockgate_build_info{{version="{version}"}}"#)), Some(1.0));
    for name in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"] {
        assert!(figure(name).is_some(), "{name}");
    }
    assert!(figure("process_start_time_seconds").is_some_and(|at| at > 1.7e9));
}

#[test]
fn tools_have_histograms_once_they_were_called() {
    let metrics = metrics(2);
    metrics.tool(None, "files", "idle");
    metrics.tool(None, "files", "read").record(Outcome::Ok, Duration::from_millis(3));
    let text = metrics.render();
    let labels = r#"server="files",tool="read""#;
    for line in [
        format!(r#"lockgate_tool_duration_seconds_bucket{{{labels},le="0.005"}} 1"#),
        format!(r#"lockgate_tool_duration_seconds_bucket{{{labels},le="0.0025"}} 0"#),
        format!("lockgate_tool_duration_seconds_count{{{labels}}} 1"),
    ] {
        assert!(has(&text, &line), "{line}\n{text}");
    }
    assert!(!text.contains(r#"lockgate_tool_duration_seconds_count{server="files",tool="idle""#));
}
