//! Tests of `results`.

use axum::http::StatusCode;
use serde_json::json;
use tokio::sync::oneshot;

use super::*;

const ADA: (&str, &str) = ("ada", "acme");

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
    let name = results.keep(ADA, notice("done"));
    assert_eq!(text_of(results.find("ada", &name)).as_deref(), Some("done"));
    assert_eq!(text_of(results.find("ada", &name)).as_deref(), Some("done"), "a page is reloaded");
    assert!(results.find("eve", &name).is_none());
    assert!(results.find("ada", "").is_none());
}

#[test]
fn the_oldest_results_make_room() {
    let results = Results::default();
    let first = results.keep(ADA, notice("first"));
    for _ in 0..MAX_RESULTS {
        results.keep(ADA, notice("other"));
    }
    assert!(results.find("ada", &first).is_none());
    let name = results.keep(ADA, notice(&"x".repeat(MAX_BYTES / 2)));
    results.keep(ADA, notice(&"x".repeat(MAX_BYTES / 2)));
    assert!(results.find("ada", &name).is_none(), "their bytes are bounded together");
}

#[tokio::test]
async fn a_flood_of_one_organisation_drops_no_result_of_another() {
    let results = Results::default();
    let (name, _cancelled) = run(&results, "ada");
    for number in 0..2 * MAX_RESULTS {
        results.keep((&number.to_string(), "globex"), notice("flood"));
    }
    results.keep(("eve", "globex"), notice(&"x".repeat(MAX_BYTES)));
    assert!(results.find("ada", &name).is_some());
    assert_eq!(results.count_running("ada"), 1);
}

#[tokio::test]
async fn the_memory_of_fields_and_errors_is_counted() {
    let many = Fields::parse("a&".repeat(1000).as_bytes());
    assert!(many.bytes() >= 1000 * size_of::<(String, String)>(), "{}", many.bytes());
    let cause = "x".repeat(1 << 20);
    let fault = Fault::new("call", "t", "", &cause);
    let outcome = CallOutcome { fault: Some(fault), ..CallOutcome::cancelled() };
    let form = CallForm { typed: many, ..form() };
    let call = KeptCall::start(form, |_| async { outcome }, || ());
    call.wait_briefly().await;
    assert!(Kept::Call(Arc::new(call)).bytes() > 1 << 20);
}

fn form() -> CallForm {
    CallForm { name: "t".to_owned(), typed: Fields::default(), arguments: String::new() }
}

/// Starts a call that never ends; the returned receiver completes when it is cancelled.
fn run(results: &Results, owner: &str) -> (String, oneshot::Receiver<()>) {
    let (running, cancelled) = oneshot::channel::<()>();
    let make = |_| async move {
        let _running = running;
        std::future::pending().await
    };
    let call = KeptCall::start(form(), make, || ());
    (results.keep((owner, "acme"), Kept::Call(Arc::new(call))), cancelled)
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
    assert!(call.outcome().is_some_and(|outcome| outcome.severity() == Severity::Bad));
    for _ in 0..MAX_RESULTS {
        results.keep(ADA, notice("other"));
    }
    assert!(dropped.await.is_err(), "the call is no longer kept");
}

fn outcome((status, code): (u16, &'static str), detail: &str) -> CallOutcome {
    let error = Problem::new(StatusCode::from_u16(status).unwrap(), code, detail.to_owned());
    CallOutcome::of_error(&error, "s__t", false)
}

#[test]
fn each_failure_has_its_stage_and_the_next_step() {
    for (status, code, stage) in [
        (400, "INVALID_PARAMS", "schema"),
        (403, "FORBIDDEN", "policy"),
        (404, "TOOL_NOT_FOUND", "pin"),
        (429, "RATE_LIMITED", "limit"),
        (503, "OVERLOADED", "limit"),
        (503, "SERVER_FAILED", "call"),
        (504, "SERVER_FAILED", "call"),
        (502, "SERVER_ERROR", "call"),
    ] {
        let outcome = outcome((status, code), "it is so");
        assert_eq!(outcome.is_of_server, stage == "call", "a link to the server");
        let fault = outcome.fault.unwrap();
        assert_eq!((fault.stage.as_str(), &*fault.cause), (stage, "It is so."), "{status} {code}");
        assert!(!fault.summary.is_empty() && !fault.fix.is_empty());
    }
}

fn of_result(result: &Value) -> CallOutcome {
    CallOutcome::of_result("t", result)
}

#[test]
fn a_denial_is_shown_as_one() {
    let unapproved = "the call was not made, refused by policy reopening: ";
    for (text, stage, summary, cause) in [
        (
            "refused by policy thirteen: arguments.id: must not be 13".to_owned(),
            "policy",
            "A policy denies this call of t.",
            "Refused by policy thirteen: arguments.id: must not be 13.",
        ),
        (
            format!("{unapproved}it was denied by bob"),
            "approval",
            "A person denied this call of t.",
            "Policy reopening: it was denied by bob.",
        ),
        (
            format!("{unapproved}it was not approved in time"),
            "approval",
            "This call of t was not approved in time.",
            "Policy reopening: it was not approved in time.",
        ),
        (
            "the call was not made, refused: its client is gone".to_owned(),
            "approval",
            "This call of t was not approved.",
            "The call was not made, refused: its client is gone.",
        ),
    ] {
        let result = json!({"content": [{"type": "text", "text": text}], "isError": true});
        let denied = of_result(&result);
        assert_eq!(denied.severity(), Severity::Denied);
        assert!(!denied.is_of_server && denied.parts.is_empty());
        let fault = denied.fault.unwrap();
        assert_eq!((fault.stage.as_str(), &*fault.summary, &*fault.cause), (stage, summary, cause));
        let error = outcome((400, "INVALID_PARAMS"), &text).fault.unwrap();
        assert_eq!((error.stage.as_str(), &*error.cause), (stage, cause));
    }
    let full = format!("{unapproved}too many calls are waiting for approval (limits.approvals)");
    let outcome = outcome((503, "OVERLOADED"), &full);
    assert!(outcome.severity() == Severity::Bad && !outcome.is_of_server);
    assert_eq!(outcome.fault.unwrap().stage, "limit");
}

fn shown(result: &Value) -> Vec<String> {
    let outcome = of_result(result);
    let parts = outcome.parts.iter().map(|part| match part {
        CallPart::Text(label, text) => format!("{label}|{text}"),
        CallPart::Image(kind, bytes) => format!("{kind} {}", bytes.len()),
        CallPart::Link(uri, name) => format!("{uri} {name}"),
    });
    parts.collect()
}

#[test]
fn a_result_is_shown_part_by_part() {
    let result = json!({"content": [
        {"type": "text", "text": "a"},
        {"type": "image", "mimeType": "image/png", "data": "iVBORw=="},
        {"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zz4="},
        {"type": "resource_link", "uri": "note://1", "name": "One"},
        {"type": "resource", "resource": {"uri": "note://2", "text": "two"}},
    ]});
    let parts = shown(&result);
    assert_eq!(parts[0], "|a");
    assert_eq!(parts[1], "image/png 4");
    assert!(parts[2].contains("svg+xml"), "an image that can run scripts is shown as JSON");
    assert_eq!(parts[3..], ["note://1 One", "note://2|two"]);
    let failed = of_result(&json!({"content": [], "isError": true}));
    assert_eq!(failed.fault.unwrap().summary, "t returned an error.");
}

#[test]
fn prompts_and_resources_are_shown_too() {
    let prompt = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}]});
    assert_eq!(shown(&prompt), ["user|Hi"]);
    let resource = json!({"contents": [{"uri": "note://1", "text": "one"}]});
    assert_eq!(shown(&resource), ["note://1|one"]);
}

#[test]
fn images_beyond_the_bound_are_not_decoded() {
    let image = |bytes: usize| {
        let data = "A".repeat(bytes / 3 * 4);
        json!({"type": "image", "mimeType": "image/png", "data": data})
    };
    let parts = shown(&json!({"content": [image(MAX_IMAGE), image(30_000)]}));
    assert!(parts[0].starts_with("image/png"), "{}", &parts[0][..20]);
    assert!(parts[1].starts_with('|'), "there is no room for another one");
}

/// Returns a value that is short as compact JSON but long when indented.
fn deep_list() -> Value {
    let mut deep = json!(vec![1; 100_000]);
    for _ in 0..58 {
        deep = json!([deep]);
    }
    deep
}

#[test]
fn of_what_others_write_a_page_shows_a_bounded_part() {
    let parts: Vec<Value> = (0..10_000).map(|_| json!({"type": "text", "text": "x"})).collect();
    for result in [
        json!({"structuredContent": deep_list()}),
        json!({"content": [deep_list(), deep_list(), deep_list()]}),
        json!({"content": parts}),
    ] {
        let outcome = of_result(&result);
        assert!(outcome.bytes() < 2 * MOST_SHOWN, "{}", outcome.bytes());
        let Some(CallPart::Text(_, text)) = outcome.parts.last() else { panic!("no text") };
        assert!(text.ends_with(REST.trim_start()));
    }
}
