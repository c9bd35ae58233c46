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
        let outcome = outcome(status, code, true);
        assert_eq!((outcome.stage, &*outcome.texts[0]), (stage, "It is so."), "{status} {code}");
        assert!(outcome.is_error() && !outcome.advice.is_empty());
    }
    let (address, _) = outcome(403, "FORBIDDEN", true).next.unwrap();
    assert_eq!(address, "/console/access?call=s__t&arguments=%7B%22words%22%3A%22a+b%22%7D");
    assert!(outcome(403, "FORBIDDEN", false).next.is_none(), "only operators see why");
    assert_eq!(outcome(502, "SERVER_ERROR", false).next.unwrap().0, "/console/servers/s");
}

#[test]
fn what_a_tool_says_is_shown_part_by_part() {
    let result =
        json!({"content": [{"type": "text", "text": "a"}, {"type": "image", "data": "x"}]});
    let outcome = CallOutcome::of_result(&result);
    assert!(!outcome.is_error() && outcome.texts[0] == "a" && outcome.texts[1].contains("image"));
    let failed = CallOutcome::of_result(&json!({"content": [], "isError": true}));
    assert_eq!(failed.stage, "call");
}
