//! Tests of `write`.

#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn the_id_of_a_response_is_found_without_reading_the_rest() {
    for id in ["1", "-7", "\"a\"", r#""a\",\"result\":""#, r#""\\""#, "\"\"", "\"ü,\""] {
        assert_eq!(id_of_response(&result(id.as_bytes(), b"{}")), Some(id.as_bytes()), "{id}");
        assert_eq!(
            id_of_response(&error(Some(id.as_bytes()), -1, "no", None)),
            Some(id.as_bytes()),
            "{id}"
        );
        let mut head = Vec::new();
        result_head(&mut head, id.as_bytes());
        assert_eq!(id_of_response(&head), Some(id.as_bytes()), "{id}");
    }
    let others: [&[u8]; 6] = [
        &error(None, -1, "no", None),
        &notification("n", b"{}"),
        b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}]",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":\"a",
        b"",
    ];
    for other in others {
        assert_eq!(id_of_response(other), None, "{}", String::from_utf8_lossy(other));
    }
}
