//! Tests of `results`.

use serde_json::Value;

use super::*;

fn notice(text: &str) -> Kept {
    Kept::Notice(Notice { severity: Severity::Good, text: text.to_owned() })
}

fn text_of(kept: Option<Kept>) -> Option<String> {
    match kept {
        Some(Kept::Notice(notice)) => Some(notice.text),
        _ => None,
    }
}

#[test]
fn a_result_is_for_its_visitor_alone() {
    let results = Results::default();
    let name = results.keep("ada", notice("done"));
    assert_eq!(text_of(results.find("ada", &name)).as_deref(), Some("done"));
    assert_eq!(text_of(results.find("ada", &name)).as_deref(), Some("done"), "a page is reloaded");
    assert!(results.find("eve", &name).is_none());
    assert!(results.find("ada", "").is_none());
}

#[test]
fn the_oldest_results_make_room() {
    let results = Results::default();
    let first = results.keep("ada", notice("first"));
    for _ in 0..MAX_RESULTS {
        results.keep("ada", notice("other"));
    }
    assert!(results.find("ada", &first).is_none());
    let name = results.keep("ada", notice(&"x".repeat(MAX_BYTES / 2)));
    results.keep("ada", notice(&"x".repeat(MAX_BYTES / 2)));
    assert!(results.find("ada", &name).is_none(), "their bytes are bounded together");
}

#[test]
fn the_memory_of_fields_and_errors_is_counted() {
    let many = Fields::parse("a&".repeat(1000).as_bytes());
    assert!(many.bytes() >= 1000 * size_of::<(String, String)>(), "{}", many.bytes());
    let cause = "x".repeat(1 << 20);
    let fault = crate::fault::Fault::new("call", "t", "", &cause);
    let outcome = CallOutcome { fault: Some(fault), ..CallOutcome::of_result("t", &Value::Null) };
    let call = KeptCall { name: String::new(), typed: many, outcome };
    assert!(Kept::Call(Arc::new(call)).bytes() > 1 << 20);
}
