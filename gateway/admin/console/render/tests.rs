//! Tests of `render`.

use serde_json::{Value, json};

use super::*;

#[test]
fn what_fits_is_shown_whole_and_the_rest_is_said_to_be_elsewhere() {
    let whole = "x".repeat(MOST_SHOWN);
    assert_eq!(show_text(&whole), whole);
    assert_eq!(show_text(&format!("{whole}y")), format!("{whole}{REST}"));
    assert_eq!(show_json(&json!({"a": [1]})), "{\n  \"a\": [\n    1\n  ]\n}");
}

#[test]
fn no_character_is_cut_in_two() {
    let shown = show_text(&format!("x{}", "ü".repeat(MOST_SHOWN / 2)));
    let text = shown.strip_suffix(REST).unwrap();
    assert_eq!(text.len(), MOST_SHOWN - 1);
    assert!(text.ends_with('ü'));
}

#[test]
fn a_value_that_grows_as_it_is_written_is_written_no_further_than_shown() {
    let mut deep = json!(vec![1; 100_000]);
    for _ in 0..58 {
        deep = json!([deep]);
    }
    let shown = show_json(&deep);
    assert_eq!(shown.len(), MOST_SHOWN + REST.len());
    assert!(shown.ends_with(REST));
    let most: Value = json!("x".repeat(MOST_SHOWN - 2));
    assert_eq!(show_json(&most).len(), MOST_SHOWN, "with its quotes");
}
