//! Tests of `scrub`: escapes and encodings hide nothing, structure is kept, links are filtered by
//! scheme.

#![allow(clippy::unwrap_used)]

use lockgate_policy::response::{Redact, Spec};
use serde_json::{Value, json};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

const KEY: &str = "AKIAIOSFODNN7EXAMPLE";

fn rule(spec: &Spec) -> Response {
    Response::compile(spec).unwrap()
}

fn key() -> String {
    KEY.replace('1', "2")
}

fn clean(rule: &Response, name: &str, value: &Value) -> Option<Value> {
    member(rule, AnswerKind::Complete, name, value.to_string().as_bytes())
        .map(|out| serde_json::from_slice(&out).unwrap())
}

#[test]
fn secrets_go_wherever_they_stand() {
    let rule = rule(&Spec { secrets: true, ..Spec::default() });
    let gone = "[redacted: AWS key]";
    let content =
        json!([{"type": "text", "text": format!("a {} b", key())}, {"type": "text", "text": "c"}]);
    assert_eq!(
        clean(&rule, "content", &content).unwrap(),
        json!([{"type": "text", "text": format!("a {gone} b")}, {"type": "text", "text": "c"}])
    );
    let deep = json!({"a": [{"b": key(), key(): 1.0}]});
    assert_eq!(
        clean(&rule, "structuredContent", &deep).unwrap(),
        json!({"a": [{"b": gone, gone: 1.0}]})
    );
    let blob = STANDARD.encode(format!("x={}", key()));
    let contents = json!([{"uri": "file:///x", "mimeType": "text/plain", "blob": blob}]);
    let out = clean(&rule, "contents", &contents).unwrap();
    assert_eq!(
        STANDARD.decode(out[0]["blob"].as_str().unwrap()).unwrap(),
        format!("x={gone}").as_bytes()
    );
    // Escaped secrets are found.
    let escaped: String = key().chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    let out = member(
        &rule,
        AnswerKind::Complete,
        "content",
        format!(r#"[{{"text":"{escaped}"}}]"#).as_bytes(),
    )
    .unwrap();
    assert_eq!(out, format!(r#"[{{"text":"{gone}"}}]"#).as_bytes());
    assert_eq!(
        clean(&rule, "content", &json!([{"type": "text", "text": "nothing", "data": "aGVsbG8="}])),
        None
    );
}

/// Names have a protocol meaning only where the protocol defines them.
#[test]
fn members_of_a_server_are_read_whatever_they_are_called() {
    let rule = rule(&Spec {
        secrets: true,
        redact: vec![Redact { pattern: "acct-[0-9]+".into(), replace: None }],
        ..Spec::default()
    });
    let names = [
        "type",
        "role",
        "mimeType",
        "method",
        "jsonrpc",
        "id",
        "resultType",
        "requestState",
        "taskId",
        "progressToken",
        "cacheScope",
        "nextCursor",
        "status",
        "data",
        "blob",
    ];
    for name in names {
        for secret in [key(), "acct-12345".to_owned()] {
            let text = |value: &Value| {
                let out = clean(&rule, "structuredContent", value).unwrap_or_default().to_string();
                assert!(out.contains("[redacted") && !out.contains(&secret), "{value}: {out}");
            };
            text(&json!({name: secret}));
            text(&json!({name: [secret]}));
            text(&json!({"a": [{name: {name: secret}}]}));
            text(&json!([{name: "x"}, secret]));
            let own = clean(
                &rule,
                "content",
                &json!([{"type": "text", "text": "x", "own": {name: secret}}]),
            )
            .unwrap();
            assert!(!own.to_string().contains(&secret), "{own}");
            // These members have no meaning in a result that is not a task and asks nothing.
            let own = clean(&rule, name, &json!(secret)).unwrap();
            assert!(!own.to_string().contains(&secret), "{own}");
            let data = texts(&rule, "", json!({name: secret}).to_string().as_bytes()).unwrap();
            assert!(!String::from_utf8(data).unwrap().contains(&secret));
            let log = json!({"method": "notifications/message", "params": {"level": "info", "data": {name: secret}}});
            let log = message(&rule, log.to_string().as_bytes()).unwrap();
            assert!(!String::from_utf8(log).unwrap().contains(&secret));
        }
    }
    // A known secret is never a valid keyword.
    let lying = json!([{"type": key(), "mimeType": key(), "id": key()}]);
    assert!(!clean(&rule, "content", &lying).unwrap().to_string().contains(&key()));
    // A duplicate key is ambiguous.
    let twice = format!(r#"[{{"type":"acct-1","type":"{}"}}]"#, key());
    let out = member(&rule, AnswerKind::Complete, "content", twice.as_bytes()).unwrap();
    assert_eq!(out, br#"[{"type":"[redacted]","type":"[redacted: AWS key]"}]"#);
}

#[test]
fn a_token_of_the_protocol_comes_back_whole() {
    let rule = rule(&Spec { secrets: true, ..Spec::default() });
    let state = json!(key()).to_string();
    assert_eq!(member(&rule, AnswerKind::InputRequired, "requestState", state.as_bytes()), None);
    assert_eq!(member(&rule, AnswerKind::Task, "taskId", state.as_bytes()), None);
    assert!(member(&rule, AnswerKind::Task, "requestState", state.as_bytes()).is_some());
    let progress = json!({"method": "notifications/progress", "params": {"progressToken": key(), "message": key()}});
    let out = message(&rule, progress.to_string().as_bytes()).unwrap();
    let out: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(out["params"], json!({"progressToken": key(), "message": "[redacted: AWS key]"}));
}

#[test]
fn a_broad_pattern_breaks_no_structure() {
    let rule = rule(&Spec {
        redact: vec![Redact { pattern: ".+".into(), replace: None }],
        ..Spec::default()
    });
    let gone = "[redacted]";
    let content = json!([
        {"type": "text", "text": "x", "mimeType": "text/plain"},
        {"type": "resource", "resource": {"uri": "a:b", "mimeType": "text/plain", "text": "x"}},
    ]);
    let out = clean(&rule, "content", &content).unwrap();
    let wanted = json!([
        {"type": "text", "text": gone, "mimeType": "text/plain"},
        {"type": "resource", "resource": {"uri": gone, "mimeType": "text/plain", "text": gone}},
    ]);
    assert_eq!(out, wanted);
    let messages = json!([{"role": "user", "content": {"type": "text", "text": "x"}}]);
    let out = clean(&rule, "messages", &messages).unwrap();
    assert_eq!(out, json!([{"role": "user", "content": {"type": "text", "text": gone}}]));
    let schema = |text: &str| {
        json!({"type": "object", "properties": {
            "type": {"type": "string", "title": text},
            "list": {"type": "array", "items": {"anyOf": [{"type": "string", "title": text}]}},
        }})
    };
    let params =
        |text: &str| json!({"mode": "form", "message": text, "requestedSchema": schema(text)});
    let questions =
        |text: &str| json!({"q": {"method": "elicitation/create", "params": params(text)}});
    let out = member(
        &rule,
        AnswerKind::InputRequired,
        "inputRequests",
        questions("x").to_string().as_bytes(),
    )
    .unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), questions(gone));
    let asked = question(&rule, params("x").to_string().as_bytes()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&asked).unwrap(), params(gone));
    let note = |text: &str| json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "logger": text, "data": text}});
    let out = message(&rule, note("x").to_string().as_bytes()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), note(gone));
    assert_eq!(member(&rule, AnswerKind::Task, "status", b"\"working\""), None);
}

#[test]
fn links_go_by_their_scheme() {
    let rule = rule(&Spec { link_schemes: Some(vec!["https".into()]), ..Spec::default() });
    let link = |uri: &str| json!({"type": "resource_link", "uri": uri, "name": "n"});
    let content = json!([link("https://x/"), link("javascript:x"), {"type": "text", "text": "resource_link", "n": 1.50}]);
    let out =
        member(&rule, AnswerKind::Complete, "content", content.to_string().as_bytes()).unwrap();
    let out: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(
        out,
        json!([link("https://x/"), {"type": "text", "text": "resource_link", "n": 1.5}])
    );
    let messages = json!([{"role": "user", "content": link("file:///x")}, {"role": "user", "content": [link("data:x")]}]);
    let out = clean(&rule, "messages", &messages).unwrap();
    assert_eq!((&out[0]["content"]["type"], &out[1]["content"]), (&json!("text"), &json!([])));
    let task = json!({"content": [link("ftp://x")]});
    assert_eq!(clean(&rule, "result", &task).unwrap(), json!({"content": []}));
    let hidden = br#"[{"type":"resource\u005flink","uri":"javascript:x"}]"#;
    assert_eq!(member(&rule, AnswerKind::Complete, "content", hidden).unwrap(), b"[]");
    assert_eq!(clean(&rule, "content", &json!([link("https://x/")])), None);
}
