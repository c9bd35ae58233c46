//! The log lines of decisions.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::config::Format;
use crate::log::tests::logged;

fn record(allowed: bool) -> Record<'static> {
    Record {
        who: "key:ci",
        key: Some("laptop"),
        method: "tools/call",
        name: Some("files__read\n"),
        allowed,
        rule: Some("tools.allow"),
        reason: (!allowed).then_some("unknown tool: x"),
        outcome: if allowed { Outcome::Ok } else { Outcome::Denied },
        duration: Duration::from_micros(1500),
        trace: None,
    }
}

#[test]
fn a_denial_is_logged_at_info_and_an_allowed_call_is_not() {
    let text = logged(Format::Json, "info", || {
        record(true).log();
        record(false).log();
        assert!(!Record::wanted(true) && Record::wanted(false));
    });
    let mut line: Value = serde_json::from_str(text.trim_end()).unwrap();
    line.as_object_mut().unwrap().remove("timestamp");
    assert_eq!(
        line,
        serde_json::json!({
            "level": "INFO", "target": "audit", "decision": "deny", "who": "key:ci", "key": "laptop", "method": "tools/call",
            "name": "files__read\n", "rule": "tools.allow", "reason": "unknown tool: x", "outcome": "denied", "duration_us": 1500,
        })
    );
}

#[test]
fn an_allowed_call_is_logged_at_debug_with_its_trace() {
    let trace = TraceContext::root(true);
    let text = logged(Format::Text, "info,audit=debug", || {
        Record { trace: Some(&trace), ..record(true) }.log()
    });
    assert!(text.contains("DEBUG audit: decision=\"allow\" who=\"key:ci\""), "{text}");
    assert!(text.contains(&trace.to_string()) && text.contains("rule=\"tools.allow\""), "{text}");
    assert_eq!(text.lines().count(), 1);
}
