//! Tests of `strict`.

use serde_json::json;

use super::*;

#[test]
fn an_object_is_read_as_it_stands() {
    let text = r#" {"a": null, "b": [true, -1, 1.5, 18446744073709551615, "\u0041\n"], "c": {"a": {"a": {}}}} "#;
    let expected = json!({"a": null, "b": [true, -1, 1.5, u64::MAX, "A\n"], "c": {"a": {"a": {}}}});
    assert_eq!(object(text.as_bytes()).map(Value::Object), Some(expected));
}

#[test]
fn what_can_be_read_in_two_ways_is_not_read() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(500), "]".repeat(500));
    for text in [
        r#"{"a": 1, "a": 1}"#,
        r#"{"a": 1, "\u0061": 2}"#,
        r#"{"a": {"b": 1, "b": 2}}"#,
        r#"{"a": [{"b": 1, "b": 2}]}"#,
        r#"{"a": 1} {}"#,
        r#"[{"a": 1}]"#,
        "null",
        "",
        &deep,
    ] {
        assert_eq!(object(text.as_bytes()), None, "{text}");
    }
    assert_eq!(object(b"{\"a\": \"\xff\"}"), None);
}
