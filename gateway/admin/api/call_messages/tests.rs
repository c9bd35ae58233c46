//! Tests of `call_messages`.

use serde_json::json;

use super::*;

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
