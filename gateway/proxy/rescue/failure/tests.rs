//! Tests of errors of denials.

use super::*;

fn limited(reached: Reached) -> RequestError {
    RequestError::limited(Method::ToolsCall, &Limited { rule: "calls".into(), reached })
}

#[test]
fn the_message_and_the_data_give_the_same_wait() {
    for (wait, words, ms) in [
        (Duration::from_millis(10), "too many tool calls (policy calls); wait 10 ms", 10),
        (Duration::from_micros(300), "too many tool calls (policy calls); wait 1 ms", 1),
        (Duration::from_millis(1_500), "too many tool calls (policy calls); wait 1.5 s", 1_500),
    ] {
        let problem = limited(Reached::Rate(wait));
        assert_eq!(problem.message, words);
        assert_eq!(problem.data.as_ref().unwrap()["retryAfterMs"], ms);
    }
}

#[test]
fn a_store_of_rates_that_is_away_is_named_as_the_cause() {
    let problem = limited(Reached::Unavailable(Duration::from_secs(1)));
    assert_eq!(
        problem.message,
        "tool calls cannot be counted, because the store of shared rates is away (policy calls); \
         wait 1.0 s"
    );
}
