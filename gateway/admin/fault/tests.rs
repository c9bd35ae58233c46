//! Tests of `fault`.

use lockgate_upstream::Stage;

use super::*;

fn trouble(stage: Stage, words: &str, stderr: &[&str]) -> StageError {
    let stderr = stderr.iter().map(|line| (*line).to_owned()).collect();
    StageError { stage, words: words.to_owned(), stderr }
}

#[test]
fn every_row_is_found_by_its_own_mark() {
    assert_eq!(TABLE.len(), 38);
    for (at, row) in TABLE.iter().enumerate() {
        let fault = Fault::new(row.stage, "notes", row.mark, "why");
        assert_eq!(fault.summary, row.summary.replace("{}", "notes"), "row {at} is hidden");
        assert!(fault.summary.ends_with('.') && fault.fix.ends_with('.'), "row {at}");
        assert_eq!(fault.cause, "Why.");
    }
    for stage in ["start", "dns", "connect", "tls", "http", "auth", "handshake", "list", "run"] {
        let rows = TABLE.iter().filter(|row| row.stage == stage && row.mark.is_empty());
        assert_eq!(rows.count(), 1, "{stage}: one row for all other failures");
    }
}

#[test]
fn a_program_that_exits_is_shown_with_its_code_and_last_words() {
    let words = "the connection to the server was lost before its response; it exited with code \
        1; SSL_CERT_FILE is set but not passed to the server";
    let trouble = trouble(Stage::Handshake, words, &["starting", "missing API_KEY", ""]);
    let fault = Fault::of_server("notes", &trouble, true);
    assert_eq!(fault.stage, "start");
    assert_eq!(fault.cause, "It exited with code 1: missing API_KEY.");
    let fault = Fault::of_server("notes", &trouble, false);
    assert_eq!(fault.cause, "It exited with code 1.", "its own words are for operators");
}

#[test]
fn a_server_that_hangs_is_shown_with_the_time_it_had() {
    let words = "the server did not answer within 5 s (start_timeout)";
    let fault = Fault::of_server("notes", &trouble(Stage::Handshake, words, &[]), false);
    assert_eq!(fault.summary, "notes did not answer in time.");
    assert_eq!(
        (fault.stage.as_str(), fault.cause.as_str()),
        ("handshake", "It did not answer within 5 s.",)
    );
}

#[test]
fn addresses_are_for_operators() {
    let words = "10.0.0.7:80: Connection refused (os error 111)";
    let trouble = trouble(Stage::Connect, words, &[]);
    assert!(Fault::of_server("notes", &trouble, true).cause.contains("10.0.0.7"));
    assert!(!Fault::of_server("notes", &trouble, false).cause.contains("10.0.0.7"));
}
