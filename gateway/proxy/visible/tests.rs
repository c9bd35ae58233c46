//! Tests of the start of failing calls.

use lockgate_telemetry::RecentCalls;

use super::find_first_failing;

/// Returns steps of this many calls and failures, the current one last.
fn steps(all: &[(u64, u64)]) -> Vec<RecentCalls> {
    let mut steps = Vec::new();
    for (calls, failed) in all {
        steps.push(RecentCalls { calls: *calls, failed: *failed, ..RecentCalls::default() });
    }
    steps
}

#[test]
fn a_success_within_the_deciding_steps_is_no_new_start() {
    let recent = steps(&[(9, 0), (4, 4), (0, 0), (6, 6), (1, 0)]);
    assert_eq!(find_first_failing(&recent), 3);
}

#[test]
fn failures_before_the_deciding_steps_count_until_a_good_step() {
    let mut all = vec![(5, 5); 14];
    all[2] = (5, 1);
    assert_eq!(find_first_failing(&steps(&all)), 10);
}
