//! Tests of `metrics`.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use super::*;
use crate::config::Format;
use crate::counters::{Outcome, ServerState};

fn metrics(tools: usize) -> Metrics {
    Metrics::new(&Config {
        level: "info".into(),
        format: Format::Text,
        otlp: None,
        tools,
        audit: None,
    })
}

fn has(text: &str, line: &str) -> bool {
    text.lines().any(|found| found == line)
}

#[test]
fn calls_are_exported_by_server_tool_and_outcome() {
    let metrics = metrics(10);
    let tool = metrics.tool("files", "read");
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
    // Counters keep their value from one reading to the next.
    assert_eq!(metrics.render(), text);
}

#[test]
fn handles_of_one_name_are_one() {
    let metrics = metrics(10);
    assert!(Arc::ptr_eq(&metrics.tool("a", "x"), &metrics.tool("a", "x")));
    assert!(!Arc::ptr_eq(&metrics.tool("a", "x"), &metrics.tool("b", "x")));
    assert!(Arc::ptr_eq(metrics.tool("a", "x").server(), &metrics.server("a")));
}

#[test]
fn tools_beyond_the_bound_are_counted_together_for_each_server() {
    let metrics = metrics(2);
    for (server, tool) in
        [("a", "1"), ("a", "2"), ("a", "3"), ("a", "4"), ("b", "1"), ("b", "other")]
    {
        metrics.tool(server, tool).record(Outcome::Ok, Duration::ZERO);
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
        metrics.tool("a", &number.to_string()).record(Outcome::Ok, Duration::ZERO);
    }
    let text = metrics.render();
    assert_eq!(text.matches("lockgate_calls_total{").count(), 3000);
    assert!(!text.contains("overflow"));
}

#[test]
fn what_is_removed_leaves_the_export_and_makes_room() {
    let metrics = metrics(2);
    metrics.tool("a", "1");
    metrics.tool("b", "1");
    assert!(metrics.render().contains(r#"server="a""#));
    metrics.remove_server("a");
    assert!(!metrics.render().contains(r#"server="a""#));
    metrics.tool("b", "2");
    metrics.keep_tools("b", ["2"]);
    metrics.tool("b", "3");
    let text = metrics.render();
    assert!(text.contains(r#"tool="2""#) && text.contains(r#"tool="3""#), "{text}");
    assert!(!text.contains(r#"tool="1""#) && !text.contains(r#"tool="other""#), "{text}");
    metrics.remove_server("unknown");
}

#[test]
fn gauges_rejections_and_servers_are_exported() {
    let metrics = metrics(1);
    let session = metrics.sessions().enter();
    metrics.queued().set(7);
    metrics.rejected(Rejection::Origin);
    let server = metrics.server("files");
    server.set_state(ServerState::Connected);
    server.restarted();
    server.list_changed();
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
    drop(session);
    assert!(has(&metrics.render(), "lockgate_sessions 0"));
}

#[test]
fn names_cannot_break_a_line_or_grow_without_end() {
    let metrics = metrics(10);
    metrics.tool("a", "x\"} 1\nevil 1").record(Outcome::Ok, Duration::ZERO);
    metrics.tool("a", &"é".repeat(500)).record(Outcome::Ok, Duration::ZERO);
    let text = metrics.render();
    assert!(!text.lines().any(|line| line.starts_with("evil")), "{text}");
    assert!(text.contains(&"é".repeat(128)) && !text.contains(&"é".repeat(129)));
}
