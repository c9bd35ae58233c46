//! Tests of `counters`: recent calls.

use super::*;
use crate::histogram::Histogram;

fn counts(ran: &Histogram, unavailable: u64, failed: u64) -> CallCounts {
    CallCounts { ran: ran.counts(), unavailable, failed }
}

#[test]
fn a_step_has_what_was_added_in_it() {
    let durations = Histogram::default();
    let mut steps = RecentSteps::default();
    steps.end_step(counts(&durations, 0, 0));
    let all = steps.list(&counts(&durations, 0, 0));
    assert_eq!(all, [RecentCalls::default()], "before any call");
    durations.observe(Duration::from_millis(10));
    durations.observe(Duration::from_millis(30));
    steps.end_step(counts(&durations, 3, 4));
    durations.observe(Duration::from_millis(50));
    let all = steps.list(&counts(&durations, 3, 4));
    let shown: Vec<_> = all.iter().map(|step| (step.calls, step.failed)).collect();
    assert_eq!(shown, [(5, 4), (1, 0)]);
    assert_eq!(all[1].average(), Some(Duration::from_millis(50)));
}

#[test]
fn the_oldest_steps_go() {
    let durations = Histogram::default();
    let mut steps = RecentSteps::default();
    durations.observe(Duration::from_millis(1));
    for _ in 0..RECENT_STEPS + 5 {
        steps.end_step(counts(&durations, 0, 0));
    }
    let all = steps.list(&counts(&durations, 0, 0));
    assert_eq!(all.len(), RECENT_STEPS + 1);
    assert!(all.iter().all(|step| step.calls == 0), "the call was in a step that has gone");
}
