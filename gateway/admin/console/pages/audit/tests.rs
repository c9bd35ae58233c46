//! Tests of `audit`: the question that explains a recorded decision, and the names of people.

use serde_json::json;

use super::*;

fn record(more: &Value) -> Members {
    let mut record = json!({
        "kind": "decision", "method": "tools/call", "server": "files", "name": "files__read",
        "issuer": "key", "who": "0123", "key": "ci",
    });
    for (name, value) in more.as_object().unwrap() {
        record[name] = value.clone();
    }
    serde_json::from_value(record).unwrap()
}

fn explain(more: &Value) -> String {
    let address = AuditRecord(&record(more)).explain_address().unwrap();
    let (_, query) = address.split_once('?').unwrap();
    let mut parts = Vec::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if !["caller", "issuer", "subject"].contains(&&*name) {
            parts.push(format!("{name}={value}"));
        }
    }
    parts.join(" ")
}

#[test]
fn the_question_has_the_endpoint_and_the_arguments_or_names_them_as_unknown() {
    let digest = json!({"bytes": 40, "digest": "9f2c"});
    assert_eq!(explain(&json!({"arguments": digest})), "call=files__read unknown=arguments");
    assert_eq!(explain(&json!({})), "call=files__read unknown=arguments");
    assert_eq!(explain(&json!({"arguments": {"bytes": 2}})), "call=files__read");
    let redacted = json!({"bytes": 40, "redacted": r#"{"path":"/tmp"}"#});
    let at = "/servers/files/mcp";
    assert_eq!(
        explain(&json!({"arguments": redacted, "endpoint": at, "name": "read"})),
        format!(r#"call=files/read at={at} arguments={{"path":"/tmp"}} unknown=secrets"#),
    );
    let own = json!({
        "server": "acme/notes", "endpoint": "/servers/notes/mcp", "name": "read",
        "organisation": "acme", "arguments": {"bytes": 2},
    });
    assert_eq!(explain(&own), "call=notes/read organisation=acme at=/servers/notes/mcp");
    let cut = json!({"bytes": 9000, "redacted": r#"{"path":"/tm…"#});
    let at = "/agents/1/mcp";
    assert_eq!(
        explain(&json!({"arguments": cut, "endpoint": at})),
        format!("call=files__read at={at} unknown=arguments"),
    );
}

#[test]
fn people_appear_by_name() {
    let approval = record(&json!({"kind": "approval", "by": "key|4567", "by_name": "bob"}));
    let approval = AuditRecord(&approval);
    assert_eq!(approval.who(), "ci");
    assert_eq!(approval.find("by_name").as_deref(), Some("bob"));
    let change = record(&json!({"kind": "change", "action": "sign in", "method": null}));
    let change = AuditRecord(&change);
    assert_eq!((change.who(), change.subject()), ("ci", "files__read"));
    assert_eq!(change.find("method"), None);
    let anchor = serde_json::from_value(json!({"kind": "anchor"})).unwrap();
    assert_eq!(AuditRecord(&anchor).subject(), "anchor", "the heading of its row");
}

#[test]
fn the_next_time_is_later_and_has_the_form_of_a_time() {
    for (time, next) in [
        ("2026-11-30T02:36:59.000009Z", "2026-11-30T02:36:59.000010Z"),
        ("2026-11-30T02:36:58.999999Z", "2026-11-30T02:36:59Z"),
        ("2026-11-30T02:36:59.999999Z", "2026-11-30T02:36:60Z"),
    ] {
        assert_eq!(find_next_time(time).as_deref(), Some(next));
        assert!(time < next.trim_end_matches('Z'));
    }
    assert_eq!(find_next_time("2026-11-30T02:36:59Z"), None);
}
