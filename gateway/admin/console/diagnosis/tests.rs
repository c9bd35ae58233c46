//! Tests of `diagnosis`.

use super::*;

fn server(state: &str, stage: &str) -> ServerState {
    let fault = (!stage.is_empty()).then(|| Fault::new(stage, "search", "", "it is so"));
    ServerState { name: "search".into(), state: state.into(), fault, ..ServerState::default() }
}

#[test]
fn every_failure_has_a_cause_and_a_fix() {
    for (state, stage) in [
        ("needs-auth", "auth"),
        ("unresponsive", "run"),
        ("failed", "start"),
        ("failed", "connect"),
        ("pending", "connect"),
    ] {
        let server = server(state, stage);
        assert!(server.headline().contains("search"), "{state} {stage}");
        assert_eq!((server.stage(), server.cause().as_str()), (stage, "It is so."));
        assert!(!server.advice().is_empty(), "{state} {stage}");
        assert_eq!(server.severity(), Severity::Bad, "as the overview counts it");
        assert_eq!(server.next_step(true), NextStep::Reconnect("Retry now"));
        assert_eq!(server.next_step(false), NextStep::AskOperator);
    }
}

#[test]
fn a_connected_server_that_fails_is_not_good() {
    for (stage, text) in [("call", "calls fail"), ("list", "lists fail"), ("connect", "failed")] {
        let server = server("connected", stage);
        assert_eq!((server.severity(), server.state_text()), (Severity::Bad, text));
        assert_eq!(server.next_step(false), NextStep::AskOperator);
    }
    assert_eq!(server("connected", "").severity(), Severity::Good);
}

#[test]
fn no_button_is_offered_that_would_do_nothing() {
    assert_eq!(server("disabled", "").next_step(true), NextStep::Connect);
    assert_eq!(server("disabled", "").next_step(false), NextStep::None);
    assert_eq!(server("resting", "").next_step(true), NextStep::None);
    assert_eq!(server("connected", "").next_step(false), NextStep::None);
    let builtin = ServerState { transport: Some("builtin".into()), ..server("connected", "") };
    assert_eq!(builtin.next_step(true), NextStep::None);
}
