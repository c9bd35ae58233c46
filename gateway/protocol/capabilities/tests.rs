//! Tests of `capabilities`.

use super::*;

#[test]
fn the_tasks_extension_is_added_to_whatever_is_there() {
    for (carried, expected) in [
        (json!({}), json!({"extensions": {TASKS: {}}})),
        (json!({"roots": {}}), json!({"roots": {}, "extensions": {TASKS: {}}})),
        (
            json!({"extensions": {UI: {"a": 1}}, "roots": {}}),
            json!({"extensions": {UI: {"a": 1}, TASKS: {}}, "roots": {}}),
        ),
        (json!({"extensions": {TASKS: {}}}), json!({"extensions": {TASKS: {}}})),
    ] {
        let text = with_tasks(carried.to_string().as_bytes());
        let read: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(read, expected, "from {carried}");
        assert_eq!(read.to_string().as_bytes(), &*text, "no key twice");
    }
}
