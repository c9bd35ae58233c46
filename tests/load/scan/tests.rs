//! Tests of the scanner on typical client JSON and on truncated bytes.

use super::*;

const CALL: &str = r#" {"params": {"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","x":[1,{"id":9}],
  "io.modelcontextprotocol/clientCapabilities":{}},"arguments":{"n":[{}],"text":"a\"b\\"},"name":"echo"},
  "id" : "q\"7", "method":"tools/call","jsonrpc":"2.0"}"#;

#[test]
fn finds_members_in_any_order_with_escapes_and_space() {
    let found = envelope(CALL.as_bytes());
    let expected = Envelope {
        id: Some(br#""q\"7""#),
        method: b"tools/call",
        params: Params {
            name: Some(b"echo"),
            text: Some(br#"a\"b\\"#),
            asked: None,
            revision: Some(b"2026-07-28"),
            capabilities: true,
        },
    };
    assert_eq!(found, Some(expected));
}

#[test]
fn keeps_the_type_of_the_id_and_sees_that_a_notification_has_none() {
    let number = envelope(br#"{"id":-17,"method":"ping"}"#);
    assert_eq!(number.and_then(|found| found.id), Some(&b"-17"[..]));
    let none = envelope(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(none.map(|found| found.id), Some(None));
}

#[test]
fn bytes_that_end_early_are_no_envelope() {
    let trimmed = CALL.trim_end();
    for end in 0..trimmed.len() {
        assert_eq!(envelope(&trimmed.as_bytes()[..end]), None, "cut at {end}");
    }
}

#[test]
fn other_values_are_no_envelope() {
    for bytes in ["[]", "7", "\"a\"", "", "{]", "{\"a\"}", "{\"a\":}}"] {
        assert_eq!(envelope(bytes.as_bytes()), None, "{bytes}");
    }
}
