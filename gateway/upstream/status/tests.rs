//! Tests of `status`.

use super::*;

#[test]
fn a_server_that_wants_credentials_is_not_taken_for_another_kind_of_server() {
    for (status, reason) in [
        (400, "no MCP server at this address"),
        (401, "it requires credentials"),
        (403, "it requires other credentials"),
        (404, "no MCP server at this address"),
        (407, "it requires credentials"),
        (502, "it returned a server error"),
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
