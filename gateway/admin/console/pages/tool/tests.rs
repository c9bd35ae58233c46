//! Tests of `tool`: the focus after a row was added or removed.

use super::*;

fn focus(typed: &str) -> String {
    let typed = Fields::parse(typed.as_bytes());
    let person = json!({"type": "object", "properties": {
        "name": {"type": "string"},
        "phones": {"type": "array", "items": {"type": "string"}},
    }});
    let nested = json!({"type": "array", "items": {"type": "string"}});
    let schema = json!({"type": "object", "properties": {
        "people": {"type": "array", "items": person},
        "lists": {"type": "array", "items": nested},
    }});
    find_focus(&make_fields(&schema, &typed), &typed)
}

#[test]
fn the_first_input_of_a_new_row_has_the_focus() {
    assert_eq!(focus("add=arg.people"), "arg.people.0.name");
    let two = "count.arg.people=1&arg.people.0.name=Ada&add=arg.people";
    assert_eq!(focus(two), "arg.people.1.name");
    let inner = "count.arg.people=1&add=arg.people.0.phones";
    assert_eq!(focus(inner), "arg.people.0.phones.0");
    assert_eq!(focus("add=arg.lists"), "arg.lists-add", "a row without inputs");
}

#[test]
fn the_add_button_has_the_focus_after_a_row_was_removed() {
    let typed = "count.arg.people=2&arg.people.1.name=Ada&remove=arg.people.1";
    assert_eq!(focus(typed), "arg.people-add");
    assert_eq!(focus("remove=arg.people.0.phones.1"), "arg.people.0.phones-add");
    assert_eq!(focus(""), "");
}
