//! Tests of `scrub`: escapes and encodings hide nothing, structure stays, links go by their scheme.

#![allow(clippy::unwrap_used)]

use lockgate_policy::response::{Redact, Spec};
use serde_json::{Value, json};

use super::*;

const KEY: &str = "AKIAIOSFODNN7EXAMPLE";

fn rule(spec: &Spec) -> Response {
    Response::compile(spec).unwrap()
}

fn key() -> String {
    KEY.replace('1', "2")
}

fn clean(rule: &Response, name: &str, value: &Value) -> Option<Value> {
    member(rule, name, value.to_string().as_bytes()).map(|out| serde_json::from_slice(&out).unwrap())
}

#[test]
fn secrets_go_wherever_they_stand() {
    let rule = rule(&Spec { secrets: true, ..Spec::default() });
    let gone = "[redacted: AWS key]";
    let content = json!([{"type": "text", "text": format!("a {} b", key())}, {"type": "text", "text": "c"}]);
    assert_eq!(
        clean(&rule, "content", &content).unwrap(),
        json!([{"type": "text", "text": format!("a {gone} b")}, {"type": "text", "text": "c"}])
    );
    let deep = json!({"a": [{"b": key(), key(): 1.0}]});
    assert_eq!(clean(&rule, "structuredContent", &deep).unwrap(), json!({"a": [{"b": gone, gone: 1.0}]}));
    let blob = STANDARD.encode(format!("x={}", key()));
    let contents = json!([{"uri": "file:///x", "mimeType": "text/plain", "blob": blob}]);
    let out = clean(&rule, "contents", &contents).unwrap();
    assert_eq!(STANDARD.decode(out[0]["blob"].as_str().unwrap()).unwrap(), format!("x={gone}").as_bytes());
    // Escapes hide nothing.
    let escaped: String = key().chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    let out = member(&rule, "content", format!(r#"[{{"text":"{escaped}"}}]"#).as_bytes()).unwrap();
    assert_eq!(out, format!(r#"[{{"text":"{gone}"}}]"#).as_bytes());
    assert_eq!(clean(&rule, "content", &json!([{"type": "text", "text": "nothing", "data": "aGVsbG8="}])), None);
    assert_eq!(clean(&rule, "requestState", &json!(key())), None);
}

#[test]
fn a_broad_pattern_breaks_no_structure() {
    let rule = rule(&Spec { redact: vec![Redact { pattern: ".+".into(), replace: None }], ..Spec::default() });
    let content = json!([{"type": "text", "text": "x", "mimeType": "text/plain"}]);
    let out = clean(&rule, "content", &content).unwrap();
    assert_eq!(out, json!([{"type": "text", "text": "[redacted]", "mimeType": "text/plain"}]));
}

#[test]
fn links_go_by_their_scheme() {
    let rule = rule(&Spec { link_schemes: Some(vec!["https".into()]), ..Spec::default() });
    let link = |uri: &str| json!({"type": "resource_link", "uri": uri, "name": "n"});
    let content =
        json!([link("https://x/"), link("javascript:x"), {"type": "text", "text": "resource_link", "n": 1.50}]);
    let out = member(&rule, "content", content.to_string().as_bytes()).unwrap();
    let out: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(out, json!([link("https://x/"), {"type": "text", "text": "resource_link", "n": 1.5}]));
    let messages =
        json!([{"role": "user", "content": link("file:///x")}, {"role": "user", "content": [link("data:x")]}]);
    let out = clean(&rule, "messages", &messages).unwrap();
    assert_eq!((&out[0]["content"]["type"], &out[1]["content"]), (&json!("text"), &json!([])));
    let task = json!({"content": [link("ftp://x")]});
    assert_eq!(clean(&rule, "result", &task).unwrap(), json!({"content": []}));
    let hidden = br#"[{"type":"resource\u005flink","uri":"javascript:x"}]"#;
    assert_eq!(member(&rule, "content", hidden).unwrap(), b"[]");
    assert_eq!(clean(&rule, "content", &json!([link("https://x/")])), None);
}
