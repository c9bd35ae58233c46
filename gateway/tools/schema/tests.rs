//! Tests of `schema`.

use serde_json::{Value, json};

use super::Schema;

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn checked(properties: &Value, required: &[&str], given: Value) -> Result<Value, String> {
    Schema::compile(&object(properties, required)).unwrap().check(given)
}

#[test]
fn a_message_names_the_argument_what_was_expected_and_what_came() {
    let long = "x".repeat(100);
    for (property, given, words) in [
        (json!({"type": "string"}), json!(7), "`a` must be a string, received 7"),
        (
            json!({"type": "string", "maxLength": 9}),
            json!(long),
            "`a` must be a string of at most 9 characters, received 100 characters",
        ),
        (
            json!({"type": "string", "minLength": 1, "maxLength": 9}),
            json!(""),
            "`a` must be a string of from 1 to 9 characters, received \"\"",
        ),
        (
            json!({"type": "integer", "minimum": 1, "maximum": 20}),
            json!(21),
            "`a` must be a whole number from 1 to 20, received 21",
        ),
        (json!({"type": "integer"}), json!(2.5), "`a` must be a whole number, received 2.5"),
        (
            json!({"type": "integer", "minimum": 0}),
            json!(-1),
            "`a` must be a whole number of at least 0, received -1",
        ),
        (json!({"type": "number"}), json!("1"), "`a` must be a number, received \"1\""),
        (json!({"type": "boolean"}), json!("true"), "`a` must be true or false, received \"true\""),
        (
            json!({"enum": ["utf-8", "hex"]}),
            json!("utf8"),
            "`a` must be one of \"utf-8\", \"hex\", received \"utf8\"",
        ),
        (
            json!({"type": ["string", "null"]}),
            json!([]),
            "`a` must be a string or null, received []",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            json!(["x", 1]),
            "`a[1]` must be a string, received 1",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "maxItems": 2}),
            json!("x"),
            "`a` must be a list of at most 2 items, each a string, received \"x\"",
        ),
        (
            object(&json!({"b": {"type": "boolean"}}), &["b"]),
            json!({}),
            "the argument `a.b` is missing; expected true or false",
        ),
        (
            object(&json!({"b": {"type": "boolean"}}), &[]),
            json!({"c": 1}),
            "unknown argument `a.c`: `a` takes b",
        ),
    ] {
        assert_eq!(
            checked(&json!({"a": property}), &[], json!({"a": given})),
            Err(words.to_owned())
        );
    }
    let missing =
        checked(&json!({"n": {"type": "integer", "minimum": 1, "maximum": 20}}), &["n"], json!({}));
    assert_eq!(
        missing,
        Err("the argument `n` is missing; expected a whole number from 1 to 20".into())
    );
    assert_eq!(
        checked(&json!({}), &[], json!({"x": 1})),
        Err("unknown argument `x`: this tool takes none".into())
    );
}

#[test]
fn defaults_are_filled_in_and_whole_numbers_are_whole() {
    let properties = json!({"n": {"type": "integer"}, "deep": object(&json!({"on": {"type": "boolean", "default": true}}), &[])});
    assert_eq!(
        checked(&properties, &["n"], json!({"n": 3.0, "deep": {}})).unwrap().to_string(),
        r#"{"n":3,"deep":{"on":true}}"#
    );
    let free = json!({"h": {"type": "object", "additionalProperties": {"type": "string"}}});
    assert!(checked(&free, &[], json!({"h": {"x": "y"}})).is_ok());
    assert_eq!(
        checked(&free, &[], json!({"h": {"x": 1}})),
        Err("`h.x` must be a string, received 1".into())
    );
    let mut n = json!({"type": "integer"});
    let large = checked(&json!({"n": n}), &[], json!({"n": 1e300}));
    assert!(large.unwrap_err().contains("larger"));
    n["maximum"] = 9.into();
    let large = checked(&json!({"n": n}), &[], json!({"n": 1e300}));
    assert_eq!(large, Err("`n` must be a whole number of at most 9, received 1e+300".into()));
}

#[test]
fn an_invalid_schema_is_refused() {
    assert!(Schema::compile(&json!({"type": "text"})).unwrap_err().contains("text"));
    assert!(Schema::compile(&json!({"properties": {"a": {"maxLength": "1"}}})).is_err());
}
