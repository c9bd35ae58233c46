//! Tests of `diagnosis`.

use super::*;
use crate::api::servers::Capabilities;

fn server(state: &'static str, stage: &str) -> Server {
    Server {
        name: "search".into(),
        organization_id: None,
        state,
        stage: None,
        reason: String::new(),
        fault: (!stage.is_empty()).then(|| Fault::new(stage, "search", "", "it is so")),
        since: String::new(),
        last_good: None,
        last_heard: None,
        transport: None,
        revision: None,
        capabilities: Capabilities { tools: 0, prompts: 0, resources: 0 },
        restarts: 0,
        metrics: None,
        recent: Vec::new(),
        operator: None,
        dry_run: false,
    }
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
        let fault = server.describe();
        assert!(fault.summary.contains("search"), "{state} {stage}");
        assert_eq!((fault.stage.as_str(), fault.cause.as_str()), (stage, "It is so."));
        assert!(!fault.fix.is_empty(), "{state} {stage}");
        assert_eq!(server.severity(), Severity::Bad, "as the overview counts it");
        assert_eq!(server.next_step(true), NextStep::Button("reconnect", "Retry now"));
        assert_eq!(server.next_step(false), NextStep::AskOperator);
    }
}

#[test]
fn a_connected_server_that_fails_is_not_good() {
    for (stage, text) in [("call", "calls fail"), ("list", "lists fail"), ("connect", "failed")] {
        let server = server("connected", stage);
        assert_eq!(server.severity(), Severity::Bad);
        assert_eq!(say_server_state(server.state, server.fault.as_ref()), text);
        assert_eq!(server.next_step(false), NextStep::AskOperator);
    }
    assert_eq!(server("connected", "").severity(), Severity::Good);
}

#[test]
fn no_button_is_offered_that_would_do_nothing() {
    assert_eq!(server("disabled", "").next_step(true), NextStep::Button("connect", "Connect"));
    assert_eq!(server("disabled", "").next_step(false), NextStep::None);
    assert_eq!(server("resting", "").next_step(true), NextStep::None);
    assert_eq!(server("connected", "").next_step(false), NextStep::None);
    let builtin = Server { transport: Some("builtin"), ..server("connected", "") };
    assert_eq!(builtin.next_step(true), NextStep::None);
}

#[test]
fn an_idle_server_that_fails_is_not_good() {
    let fault = Fault::new("call", "search", "", "it is so");
    for (fault, severity, text) in
        [(None, Severity::Good, "idle"), (Some(&fault), Severity::Bad, "calls fail")]
    {
        assert_eq!(Severity::of_server("resting", fault), severity);
        assert_eq!(say_server_state("resting", fault), text);
    }
}
