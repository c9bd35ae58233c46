//! Tests of `input_schema`.

use serde_json::json;

use super::*;

fn compile(schema: &Value) -> Result<InputSchema, String> {
    InputSchema::compile(schema.to_string().as_bytes())
}

#[test]
fn a_mistake_is_told_with_its_place() {
    let schema = compile(&json!({
        "type": "object",
        "required": ["to"],
        "properties": {"to": {"type": "array", "items": {"$ref": "#/$defs/address"}}},
        "$defs": {"address": {"type": "object", "properties": {"mail": {"type": "string"}}}},
    }))
    .unwrap();
    let check = |text: &str| schema.check(text.as_bytes()).map_err(|refusal| refusal.0);
    assert_eq!(check(r#"{"to": [{"mail": "a@b"}], "more": 1}"#), Ok(()));
    let words = check(r#"{"to": [{}, {"mail": 7}]}"#).unwrap_err();
    assert!(words.contains("at /to/1/mail: value is not of type \"string\""), "{words}");
    assert!(check("{}").unwrap_err().contains("at /: \"to\" is a required property"));
    assert!(check(r#"{"to": [], "to": 1}"#).unwrap_err().contains("cannot be read"));
}

#[test]
fn schemas_that_cost_more_than_they_are_long_are_refused() {
    let mut doubling = json!({"$ref": "#/$defs/d0", "$defs": {"d20": {"type": "object"}}});
    for at in 0..20 {
        let next = json!({"$ref": format!("#/$defs/d{}", at + 1)});
        doubling["$defs"][format!("d{at}")] = json!({"allOf": [next, next]});
    }
    let mut escaped = json!({"$ref": "#/$defs/d0", "$defs": {}});
    for at in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d%3{}", at % 10)});
        escaped["$defs"][format!("d{at}")] = json!({"allOf": [next, next]});
    }
    let mut patterns = json!({"patternProperties": {}});
    for at in 0..65 {
        patterns["patternProperties"][format!("^a{at}$")] = json!({});
    }
    let old = json!({"$schema": "http://json-schema.org/draft-04/schema#"});
    for schema in [escaped, patterns, old] {
        assert!(compile(&schema).is_err(), "{schema}");
    }
    let itself = json!({"properties": {"a": {"$ref": "#"}}});
    let elsewhere = json!({"$ref": "https://example.com/schema.json"});
    let dynamic = json!({"$dynamicRef": "#a"});
    let renamed = json!({"properties": {"a": {"$id": "b", "$ref": "#/$defs/c"}}});
    for schema in [doubling, itself, elsewhere, dynamic, renamed, json!({"type": "what"})] {
        assert!(compile(&schema).is_err(), "{schema}");
    }
    let often = json!({"$ref": "#/$defs/a", "properties": {"b": {"$ref": "#/$defs/a"}}, "$defs": {"a": {}}});
    assert!(compile(&often).is_ok());
}
