//! Tests of `outbound`.

use serde_json::{Value, json};

use super::*;
use crate::jsonrpc::{self, Message, SentBy};

fn request(arguments: &Value) -> Request {
    let text = json!({"jsonrpc": "2.0", "id": "theirs", "method": "tools/call",
        "params": {"name": "slug__tool", "arguments": arguments, "more": [1, 2], "_meta": {"example.com/k": 1}}});
    match jsonrpc::parse(text.to_string().into(), 64, SentBy::Client) {
        Ok(Message::Request(request)) => request,
        other => panic!("{other:?}"),
    }
}

/// Checks the threshold for copying: the text is the same message, and shares the client's bytes.
#[test]
fn a_large_member_is_passed_on_without_a_copy() {
    for length in [
        0,
        1,
        MAX_COPIED_BYTES - 12,
        MAX_COPIED_BYTES - 11,
        MAX_COPIED_BYTES - 10,
        5 * MAX_COPIED_BYTES,
    ] {
        let arguments = json!({"text": "x".repeat(length)});
        let request = request(&arguments);
        let outbound = Outbound {
            request: Some(&request),
            target: Some("tool"),
            progress: true,
            ..Outbound::default()
        };
        let gap = outbound.write(&mut Vec::new(), 7, Method::ToolsCall);
        assert_eq!(gap.is_some(), arguments.to_string().len() >= MAX_COPIED_BYTES, "{length}");
        if let Some((_, value)) = gap {
            assert_eq!(value.as_ptr(), request.param(Key::Arguments).unwrap().as_ptr());
        }
        let text = outbound.text(7, Method::ToolsCall);
        let read: Value = serde_json::from_slice(&text).unwrap();
        let params = json!({"name": "tool", "arguments": arguments, "more": [1, 2],
            "_meta": {"progressToken": 7, "example.com/k": 1}});
        assert_eq!(
            read,
            json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}),
            "{length}"
        );
    }
}
