//! The log lines of decisions.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::Format;
use crate::log::tests::logged;

fn record(allowed: bool, trace: Option<&TraceContext>) {
    let asked = Asked { key: Some("laptop"), ..asked("files__read\n") };
    let (decision, outcome) = if allowed {
        (Decision::Allow(Some("tools.allow"), None), Outcome::Ok)
    } else {
        (Decision::Deny(Some("tools.allow"), "unknown tool: x"), Outcome::Denied)
    };
    log(&asked, decision, (outcome, Duration::from_micros(1500)), trace);
}

#[test]
fn a_denial_is_logged_at_info_and_an_allowed_call_is_not() {
    let text = logged(Format::Json, "info", || {
        record(true, None);
        record(false, None);
        assert!(!is_logged(true) && is_logged(false));
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
    let text = logged(Format::Text, "info,audit=debug", || record(true, Some(&trace)));
    assert!(text.contains("DEBUG audit: decision=\"allow\" who=\"key:ci\""), "{text}");
    assert!(
        text.contains(trace.traceparent().as_str()) && text.contains("rule=\"tools.allow\""),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1);
}
