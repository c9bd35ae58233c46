//! Approvers see the arguments that are sent, as far as they can be shown.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn shown(raw: &str) -> String {
    show_arguments(raw.as_bytes(), None)
}

#[test]
fn long_texts_are_cut_and_what_cannot_be_seen_is_written_out() {
    let raw = json!({"a": ["x".repeat(MAX_STRING + 5), "y".repeat(MAX_STRING)]}).to_string();
    let value: Value = serde_json::from_str(&shown(&raw)).unwrap();
    assert!(value["a"][0].as_str().unwrap().ends_with("x… (5 more characters)"));
    assert_eq!(value["a"][1].as_str().unwrap().len(), MAX_STRING);
    assert_eq!(show_text("a\u{202e}b\u{200b}\nc"), r"a\u{202e}b\u{200b}\u{a}c");
    let long = format!("[{}1]", "1,".repeat(MAX_SHOWN));
    assert!(
        shown(&long).ends_with("… (truncated: 32771 bytes in total)"),
        "{}",
        shown(&long).len()
    );
}

#[test]
fn numbers_are_shown_as_they_are_sent() {
    let raw = r#"{ "id": 18446744073709551617, "rate": 1e400, "sum": 0.10, "one": [1.0, -0] }"#;
    let wanted = r#"{"id":18446744073709551617,"rate":1e400,"sum":0.10,"one":[1.0,-0]}"#;
    assert_eq!(shown(raw), wanted);
    // Text behind escapes is shown.
    assert_eq!(shown(r#"{"\u0072m":"\u002drf"}"#), r#"{"rm":"-rf"}"#);
}

#[test]
fn arguments_are_never_shown_as_if_there_were_none() {
    let raw = r#"{"cmd":"rm -rf /","AKIAIOSFODNN7EXAMPLE":1,"AKIAIOSFODNN7EXAMPLF":2}"#;
    assert_eq!(shown(raw), HIDDEN);
}

proptest! {
    #[test]
    fn a_number_of_any_length_keeps_its_digits(digits in "[1-9][0-9]{0,60}(\\.[0-9]{1,30})?") {
        prop_assert_eq!(shown(&format!("{{\"n\" :{digits}}}")), format!("{{\"n\":{digits}}}"));
    }
}
