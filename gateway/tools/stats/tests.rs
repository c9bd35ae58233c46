//! Tests of `stats`.

use super::*;

#[test]
fn an_organisation_has_figures_of_its_own() {
    let stats = Stats::default();
    let tool: Arc<str> = "file/read".into();
    let run = |organisation: &str, ms| {
        let event = Event::Executed {
            took: Duration::from_millis(ms),
            ended: CallOutcome::Success,
            organisation,
        };
        stats.observe(&tool, event);
    };
    stats.observe(&tool, Event::Registered);
    run("acme", 10);
    run("acme", 20);
    run("", 40);
    let figures = |organisation| {
        let figures = stats.get(&tool, organisation);
        (figures.invocations, figures.p95.as_millis())
    };
    assert_eq!(figures(Some("acme")), (2, 20));
    assert_eq!(figures(Some("")), (1, 40));
    assert_eq!(figures(Some("other")), (0, 0));
    assert_eq!(figures(None), (3, 40));
    for n in 0..MAX_ORGANISATIONS {
        run(&format!("new{n}"), 1);
    }
    assert_eq!(stats.0.lock()[&tool].organisations.len(), MAX_ORGANISATIONS);
    assert_eq!(figures(Some("acme")), (0, 0), "the least lately used goes");
    assert_eq!(figures(None).0, 3 + MAX_ORGANISATIONS as u64);
}
