//! Tests of `usage`: states of an hour, and steps without calls.

use super::*;

fn counts(calls: i64, failed: i64) -> UsageCounts {
    UsageCounts { calls, failed, ..UsageCounts::default() }
}

#[test]
fn an_hour_is_judged_by_its_samples_and_then_by_its_calls() {
    for ((calls, failed), (samples, down), state) in [
        ((0, 0), (0, 0), HourState::NoData),
        ((0, 0), (60, 0), HourState::Ok),
        ((4, 4), (60, 0), HourState::Ok),
        ((5, 2), (60, 0), HourState::Ok),
        ((6, 3), (60, 0), HourState::Failing),
        ((5, 3), (0, 0), HourState::Failing),
        ((1, 0), (0, 0), HourState::Ok),
        ((9, 0), (60, 1), HourState::Failing),
        ((9, 0), (60, 29), HourState::Failing),
        ((9, 0), (60, 30), HourState::Down),
        ((0, 0), (1, 1), HourState::Down),
    ] {
        let found = HourState::new(&counts(calls, failed), &counts(samples, down));
        assert_eq!(found, state, "{calls} {failed} {samples} {down}");
    }
}

#[test]
fn every_step_is_listed_also_without_calls() {
    let key = UsageKey { at: 7500, step: 300, ..UsageKey::default() };
    let steps = list_steps(&[UsageRow { key, counts: counts(3, 1) }], 7200, (300, 12));
    assert_eq!(steps.len(), 12);
    let found: Vec<(&str, i64)> =
        steps.iter().map(|step| (step.at.as_str(), step.figures.calls)).collect();
    assert_eq!(
        found[..3],
        [("1970-01-01T02:00:00Z", 0), ("1970-01-01T02:05:00Z", 3), ("1970-01-01T02:10:00Z", 0)]
    );
}
