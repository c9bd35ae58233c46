//! Tests of `diagnosis`.

use super::*;

fn server(state: &str, stage: Option<&str>) -> ServerState {
    let stage = stage.map(str::to_owned);
    ServerState { name: "search".into(), state: state.into(), stage, ..ServerState::default() }
}

#[test]
fn every_state_that_is_not_good_says_what_happened_and_what_to_do() {
    let failures = [
        ("needs-auth", None),
        ("unresponsive", None),
        ("failed", Some("start")),
        ("failed", Some("connect")),
        ("failed", Some("handshake")),
        ("failed", Some("dns")),
        ("failed", Some("tls")),
        ("failed", Some("http")),
        ("failed", Some("auth")),
        ("failed", Some("list")),
        ("failed", Some("run")),
        ("pending", Some("connect")),
    ];
    for (state, stage) in failures {
        let server = server(state, stage);
        assert!(server.headline().contains("search"), "{state} {stage:?}");
        assert!(!server.advice().is_empty(), "{state} {stage:?}");
        assert_ne!(server.severity(), Severity::Good);
        assert_eq!(server.next_step(true), NextStep::Reconnect("Try again now"));
        assert_eq!(server.next_step(false), NextStep::AskOperator);
    }
}

#[test]
fn nothing_is_offered_that_would_do_nothing() {
    assert_eq!(server("disabled", None).next_step(true), NextStep::Connect);
    assert_eq!(server("disabled", None).next_step(false), NextStep::None);
    assert_eq!(server("resting", None).next_step(true), NextStep::None);
    assert_eq!(server("connected", None).next_step(false), NextStep::None);
    let builtin = ServerState { transport: Some("builtin".into()), ..server("connected", None) };
    assert_eq!(builtin.next_step(true), NextStep::None);
}
