//! Tests of `recent`.

use super::*;
use crate::histogram::Histogram;

#[test]
fn a_step_has_what_was_added_in_it() {
    let durations = Histogram::default();
    let mut steps = RecentSteps::default();
    steps.end_step(durations.counts(), 0);
    assert_eq!(steps.list(&durations.counts(), 0), [RecentCalls::default()], "before any call");
    durations.observe(Duration::from_millis(10));
    durations.observe(Duration::from_millis(30));
    steps.end_step(durations.counts(), 1);
    durations.observe(Duration::from_millis(50));
    let all = steps.list(&durations.counts(), 1);
    let shown: Vec<_> = all.iter().map(|step| (step.calls, step.failed)).collect();
    assert_eq!(shown, [(2, 1), (1, 0)]);
    assert_eq!(all[1].average, Some(Duration::from_millis(50)));
}

#[test]
fn the_oldest_steps_go() {
    let durations = Histogram::default();
    let mut steps = RecentSteps::default();
    durations.observe(Duration::from_millis(1));
    for _ in 0..RECENT_STEPS + 5 {
        steps.end_step(durations.counts(), 0);
    }
    let all = steps.list(&durations.counts(), 0);
    assert_eq!(all.len(), RECENT_STEPS + 1);
    assert!(all.iter().all(|step| step.calls == 0), "the call was in a step that has gone");
}
