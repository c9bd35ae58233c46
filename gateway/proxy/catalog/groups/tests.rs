//! Tests of `catalog::groups`.

#![allow(clippy::unwrap_used)]
use super::*;

fn added(definition: &Value) -> Result<Value, String> {
    let text = add_argument(definition.to_string().as_bytes(), "cluster", &["eu", "us"])?;
    Ok(serde_json::from_slice(&text).unwrap())
}

#[test]
fn the_argument_is_added_and_required() {
    let selector = json!({"type": "string", "enum": ["eu", "us"], "description": "The server"});
    let plain = json!({"name": "q", "inputSchema": {"type": "object"}, "title": "Q"});
    let expected = json!({"name": "q", "title": "Q", "inputSchema": {"type": "object",
        "properties": {"cluster": selector}, "required": ["cluster"]}});
    assert_eq!(added(&plain), Ok(expected));
    let full = json!({"name": "q", "inputSchema": {"type": "object", "required": ["n"],
        "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}}});
    let expected = json!({"name": "q", "inputSchema": {"type": "object",
        "required": ["n", "cluster"],
        "properties": {"n": {"type": "integer"}, "cluster": selector}}});
    assert_eq!(added(&full), Ok(expected));
}

#[test]
fn tools_that_cannot_have_the_argument_stay_apart() {
    let own = json!({"inputSchema": {"properties": {"cluster": {}}}});
    let page = json!({"inputSchema": {}, "_meta": {"ui": {"resourceUri": "ui://a"}}});
    for (definition, words) in [
        (own, "an argument `cluster` itself"),
        (page, "it has a page"),
        (json!({"inputSchema": {"properties": []}}), "`properties` are not an object"),
        (json!({"inputSchema": true}), "`inputSchema` is not an object"),
    ] {
        let why = added(&definition).unwrap_err();
        assert!(why.contains(words), "{why}");
    }
}
