//! Forms as adapted to clients of each revision.

use serde_json::json;

use super::*;

fn form(required: &[&str]) -> Vec<u8> {
    let titled = json!([{"const": "a", "title": "First"}, {"const": "b"}]);
    let schema = json!({"type": "object", "required": required, "properties": {
        "one": {"type": "string", "title": "One", "oneOf": titled},
        "plain": {"type": "string", "enum": ["a", "b"]},
        "many": {"type": "array", "items": {"anyOf": titled}},
        "free": {"type": "string", "default": "x"},
    }});
    json!({"message": "?", "requestedSchema": schema}).to_string().into_bytes()
}

#[test]
fn a_client_of_2025_06_18_gets_the_names_of_choices_beside_them() {
    let adapted = adapt_form(Method::Elicit, &form(&["one"]), Revision::V2025_06_18).unwrap();
    let adapted: Value = serde_json::from_slice(&adapted).unwrap();
    let wanted = json!({
        "one": {"type": "string", "title": "One", "enum": ["a", "b"], "enumNames": ["First", "b"]},
        "plain": {"type": "string", "enum": ["a", "b"]},
        "free": {"type": "string", "default": "x"},
    });
    assert_eq!(adapted["requestedSchema"]["properties"], wanted);
    assert_eq!(adapted["message"], "?");
}

#[test]
fn what_a_client_can_read_stays_byte_for_byte() {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        assert_eq!(adapt_form(Method::Elicit, &form(&[]), revision), None);
    }
    let plain = br#"{"message":"?","requestedSchema":{"type":"object","properties":{}}}"#;
    assert_eq!(adapt_form(Method::Elicit, plain, Revision::V2025_06_18), None);
    assert_eq!(adapt_form(Method::Sample, &form(&[]), Revision::V2025_06_18), None);
}

#[test]
fn a_form_that_cannot_be_filled_in_is_not_shown() {
    let declared = br#"{"elicitation":{}}"#;
    let asked =
        |required: &[&str], revision| may_ask(declared, Method::Elicit, &form(required), revision);
    assert!(asked(&["one"], Revision::V2025_06_18));
    assert!(!asked(&["one", "many"], Revision::V2025_06_18));
    assert!(asked(&["one", "many"], Revision::V2025_11_25));
}
