//! Tests of `status`.

use super::*;

#[test]
fn a_server_that_wants_credentials_is_not_taken_for_another_kind_of_server() {
    for (status, reason) in [
        (400, "it answered, but not as an MCP server at this address"),
        (401, "it wants credentials"),
        (403, "it wants other credentials"),
        (404, "it answered, but not as an MCP server at this address"),
        (407, "it wants credentials"),
        (502, "it answered that it is broken or busy"),
    ] {
        let words = format!("the server answered with HTTP status {status}");
        let trouble = Trouble { stage: Stage::Handshake, words, stderr: Vec::new() };
        assert_eq!(trouble.reason(), reason, "{status}");
    }
}
