//! Tests of `servers`: sums of recent calls.

use super::*;

fn step(calls: u64, failed: u64, ms: Option<u64>) -> RecentCalls {
    let (ran, micros) = ms.map_or((0, 0), |ms| (calls, calls * ms * 1000));
    RecentCalls { calls, failed, ran, micros }
}

#[test]
fn steps_of_several_servers_end_together_and_weigh_what_they_have() {
    let old = vec![step(1, 0, Some(10)), step(3, 1, Some(20)), step(0, 0, None)];
    let young = vec![step(1, 0, Some(60))];
    assert_eq!(
        add_up(vec![old, Vec::new(), young]),
        [step(1, 0, Some(10)), step(3, 1, Some(20)), step(1, 0, Some(60))]
    );
    let both = add_up(vec![vec![step(3, 0, Some(10))], vec![step(1, 1, Some(50))]]);
    assert_eq!(both, [step(4, 1, Some(20))]);
    assert_eq!(add_up(Vec::new()), []);
}
