//! Tests of `tool_form`.

use serde_json::json;

use super::*;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What to find"},
            "count": {"type": "integer", "default": 10},
            "deep": {"type": "boolean"},
            "order": {"enum": ["up", "down"]},
            "filter": {"type": "object"},
        },
        "required": ["text"],
    })
}

#[test]
fn what_is_typed_becomes_arguments_of_the_types_of_the_schema() {
    let schema = schema();
    let typed = Fields::parse(
        b"arg.text=a+b&arg.count=3&arg.deep=false&arg.order=down&arg.filter=%7B%22x%22%3A1%7D",
    );
    let mut fields = make_fields(&schema, &typed);
    let arguments = read_arguments(&schema, &mut fields).unwrap();
    let expected =
        json!({"text": "a b", "count": 3, "deep": false, "order": "down", "filter": {"x": 1}});
    assert_eq!(arguments, expected);
}

#[test]
fn a_mistake_is_said_beside_its_field_and_what_was_typed_stays() {
    let schema = schema();
    let typed = Fields::parse(b"arg.text=x&arg.count=many&arg.filter=%7B");
    let mut fields = make_fields(&schema, &typed);
    assert_eq!(read_arguments(&schema, &mut fields), None);
    let wrong: Vec<&str> = fields
        .iter()
        .filter(|field| !field.mistake.is_empty())
        .map(|field| field.name.as_str())
        .collect();
    assert_eq!(wrong, ["count", "filter"]);
    assert_eq!(fields[1].value, "many");
}

#[test]
fn what_is_left_empty_is_left_out_and_defaults_are_there_from_the_start() {
    let schema = schema();
    let mut fields = make_fields(&schema, &Fields::default());
    assert_eq!(fields[1].value, "10");
    let arguments = read_arguments(&schema, &mut fields).unwrap();
    assert_eq!(arguments, json!({"text": "", "count": 10}));
    assert!(make_fields(&json!({"type": "object"}), &Fields::default()).is_empty());
}
