//! Tests of `call_outcome`.

use axum::http::StatusCode;
use serde_json::json;

use super::*;

fn outcome(status: u16, code: &str, is_operator: bool) -> CallOutcome {
    let error = ApiError {
        status: StatusCode::from_u16(status).unwrap(),
        code: code.to_owned(),
        detail: "it is so".to_owned(),
        pointer: String::new(),
        stage: String::new(),
        fault: None,
    };
    let arguments = json!({"words": "a b"});
    let called = Called { server: "s", name: "s__t", arguments: &arguments, is_operator };
    CallOutcome::of_error(&error, &called)
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
        let fault = outcome(status, code, true).fault.unwrap();
        assert_eq!((fault.stage.as_str(), &*fault.cause), (stage, "It is so."), "{status} {code}");
        assert!(!fault.summary.is_empty() && !fault.fix.is_empty());
    }
    let (address, _) = outcome(403, "FORBIDDEN", true).next.unwrap();
    assert_eq!(address, "/console/access?call=s__t&arguments=%7B%22words%22%3A%22a+b%22%7D");
    assert!(outcome(403, "FORBIDDEN", false).next.is_none(), "only operators see why");
    assert_eq!(outcome(502, "SERVER_ERROR", false).next.unwrap().0, "/console/servers/s");
}

fn of_result(result: &Value, is_operator: bool) -> CallOutcome {
    let called = Called { server: "s", name: "t", arguments: &json!({}), is_operator };
    CallOutcome::of_result(&called, result)
}

#[test]
fn a_denial_is_shown_as_one_and_only_operators_are_led_to_its_explanation() {
    for text in [
        "refused by policy thirteen: arguments.id: must not be 13",
        "the call was not made, refused by policy reopening: denied by key|1",
    ] {
        let result = json!({"content": [{"type": "text", "text": text}], "isError": true});
        let denied = of_result(&result, false);
        assert!(denied.is_denied() && denied.next.is_none() && denied.parts.is_empty());
        let fault = denied.fault.unwrap();
        assert_eq!(fault.summary, "A policy denies this call of t.");
        assert_eq!(fault.cause[1..], format!("{text}.")[1..]);
        assert!(of_result(&result, true).next.is_some());
    }
}

fn shown(result: &Value) -> Vec<String> {
    let outcome = of_result(result, false);
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
    let failed = of_result(&json!({"content": [], "isError": true}), true);
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
