//! Tests of `call`.

use axum::response::IntoResponse;
use serde_json::json;

use super::*;

fn status_of(error: &Value) -> u16 {
    describe_failure(StatusCode::OK, error).status().as_u16()
}

#[test]
fn a_request_that_the_gateway_does_not_read_is_the_callers_mistake() {
    let error = json!({"code": -32600, "message": "invalid request: a key is no text"});
    let problem = describe_failure(StatusCode::BAD_REQUEST, &error);
    assert_eq!(problem.status(), StatusCode::BAD_REQUEST);
    assert_eq!(status_of(&error), 502, "of a server it is an error of its own");
}

#[test]
fn every_kind_of_failure_has_a_status_of_its_own() {
    let server = |reason: &str| json!({"code": -32603, "message": "m", "data": {"upstream": "a", "reason": reason}});
    for (reason, expected) in [
        ("needs_auth", 502),
        ("timeout", 504),
        ("unavailable", 502),
        ("connection_lost", 502),
        ("gateway_overloaded", 503),
        ("client_connections", 503),
        ("bad_response", 502),
    ] {
        assert_eq!(status_of(&server(reason)), expected, "{reason}");
    }
    let mut left_alone = server("unavailable");
    left_alone["data"]["retryAfterMs"] = 5000.into();
    assert_eq!(status_of(&left_alone), 503);
    left_alone["data"]["state"] = "failed".into();
    assert_eq!(status_of(&left_alone), 502);
    for (code, message, expected) in [
        (-32602, "unknown tool: x", 404),
        (-32602, "resource not found", 404),
        (-32602, "`name` is missing", 400),
        (-32601, "method not found: x", 404),
        (-31029, "too many", 429),
        (-32021, "the client must be one that can be asked", 428),
        (-31053, "too many", 503),
        (-31001, "missing", 401),
        (-31003, "scope", 403),
        (-1, "the server's own", 502),
    ] {
        assert_eq!(status_of(&json!({"code": code, "message": message})), expected, "{code}");
    }
}

#[test]
fn a_wait_is_told_in_whole_seconds() {
    let error = json!({"code": -31029, "message": "m", "data": {"retryAfterMs": 1200}});
    let response = describe_failure(StatusCode::OK, &error).into_response();
    assert_eq!(response.headers()["retry-after"], "2");
}

fn add(messages: &CallMessages, method: &str, params: &Value) {
    let text = json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string();
    messages.add(&text.into());
}

#[test]
fn progress_is_replaced_and_log_messages_are_kept() {
    let messages = CallMessages::default();
    for step in 1..=3 {
        let params = json!({"progressToken": 1, "progress": step, "total": 3});
        add(&messages, "notifications/progress", &params);
        let data = json!({"level": "warning", "data": {"step": step}});
        add(&messages, "notifications/message", &data);
    }
    messages.add(&Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
    let log = messages.read();
    let progress = log.progress.unwrap();
    assert_eq!((progress.progress, progress.total), (3.0, Some(3.0)));
    assert_eq!(log.lines.len(), 3);
    assert_eq!((&*log.lines[2].level, &*log.lines[2].text), ("warning", r#"{"step":3}"#));
}

#[test]
fn the_oldest_log_messages_make_room_and_long_ones_are_cut() {
    let messages = CallMessages::default();
    for line in 0..=MAX_LINES {
        let params = json!({"level": "info", "data": format!("{line} {}", "x".repeat(MAX_TEXT))});
        add(&messages, "notifications/message", &params);
        assert_eq!(messages.read().dropped, line / MAX_LINES);
    }
    let log = messages.read();
    assert_eq!((log.lines.len(), log.dropped), (MAX_LINES, 1));
    assert!(log.lines[0].text.starts_with("1 x"));
    assert!(log.lines.iter().all(|line| line.text.len() == MAX_TEXT));
    let large = json!({"level": "info", "data": "x".repeat(MAX_MESSAGE)});
    add(&messages, "notifications/message", &large);
    assert_eq!(messages.read().dropped, 1);
}
