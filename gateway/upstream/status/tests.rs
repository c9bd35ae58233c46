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
        let trouble = StageError { stage: Stage::Handshake, words, stderr: Vec::new() };
        assert_eq!(trouble.reason(), reason, "{status}");
    }
}

#[test]
fn the_step_that_failed_is_as_precise_as_the_words() {
    for (stage, words, step) in [
        (Stage::Connect, "lookup failed: no such host", "dns"),
        (Stage::Connect, "127.0.0.1:1: Connection refused (os error 111)", "connect"),
        (Stage::Connect, "the TLS handshake with a:443 failed", "tls"),
        (Stage::Connect, "the server answered with HTTP status 401", "auth"),
        (Stage::Handshake, "the server answered with HTTP status 503", "http"),
        (Stage::Handshake, "the answer is no JSON", "handshake"),
        (Stage::Discovery, "tools/list: HTTP status 500", "list"),
        (Stage::Run, "the process ended", "run"),
    ] {
        let trouble = StageError { stage, words: words.to_owned(), stderr: Vec::new() };
        assert_eq!(trouble.step(), step, "{words}");
    }
}
