//! Tests of `results`.

use tokio::sync::oneshot;

use super::*;
use crate::console::call_outcome::CallOutcome;
use crate::console::form::Fields;

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

#[tokio::test]
async fn the_memory_of_fields_and_errors_is_counted() {
    let many = Fields::parse("a&".repeat(1000).as_bytes());
    assert!(many.bytes() >= 1000 * size_of::<(String, String)>(), "{}", many.bytes());
    let cause = "x".repeat(1 << 20);
    let fault = crate::fault::Fault::new("call", "t", "", &cause);
    let outcome = CallOutcome { fault: Some(fault), ..CallOutcome::cancelled() };
    let call = KeptCall::start(("t", many), |_| async { outcome }, || ());
    call.wait_briefly().await;
    assert!(Kept::Call(Arc::new(call)).bytes() > 1 << 20);
}

/// Starts a call that never ends; the returned receiver completes when it is cancelled.
fn run(results: &Results, owner: &str) -> (String, oneshot::Receiver<()>) {
    let (running, cancelled) = oneshot::channel::<()>();
    let make = |_| async move {
        let _running = running;
        std::future::pending().await
    };
    let call = KeptCall::start(("t", Fields::default()), make, || ());
    (results.keep(owner, Kept::Call(Arc::new(call))), cancelled)
}

#[tokio::test]
async fn running_calls_are_counted_and_end_when_they_are_cancelled_or_dropped() {
    let results = Results::default();
    let (name, cancelled) = run(&results, "ada");
    let (_, dropped) = run(&results, "ada");
    assert_eq!((results.count_running("ada"), results.count_running("eve")), (2, 0));
    let Some(Kept::Call(call)) = results.find("ada", &name) else { panic!("it is kept") };
    call.cancel();
    assert!(cancelled.await.is_err(), "its task is gone");
    assert_eq!(results.count_running("ada"), 1);
    assert!(call.outcome().is_some_and(|outcome| outcome.is_error()));
    for _ in 0..MAX_RESULTS {
        results.keep("ada", notice("other"));
    }
    assert!(dropped.await.is_err(), "the call is no longer kept");
}
