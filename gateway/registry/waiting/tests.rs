//! Tests of `waiting`: time steps and their rollover, expiry, and the bound in memory.

use lockgate_store::CALL;

use super::*;

const NOON: i64 = 1_800_000_000 - 1_800_000_000 % HOUR;

fn counted(kind: &str, name: &str, calls: i64) -> (UsageKey, UsageCounts) {
    let key = UsageKey { kind: kind.to_owned(), name: name.to_owned(), ..UsageKey::default() };
    (key, UsageCounts { calls, ..UsageCounts::default() })
}

fn sum(usage: &WaitingUsage, step: i64, from: i64) -> Vec<(i64, i64)> {
    let filter = UsageFilter { step, from, ..UsageFilter::default() };
    let rows = usage.sum(UsageGroup::Time, &filter);
    rows.iter().map(|row| (row.key.at, row.counts.calls)).collect()
}

#[test]
fn the_last_second_of_a_step_is_in_it_and_the_next_begins_another() {
    let usage = WaitingUsage::default();
    for (at, calls) in [(NOON, 1), (NOON + 299, 2), (NOON + 300, 4), (NOON + HOUR, 8)] {
        usage.add(&[counted(CALL, "a", calls)], at, at);
    }
    assert_eq!(sum(&usage, 300, 0), [(NOON, 3), (NOON + 300, 4), (NOON + HOUR, 8)]);
    assert_eq!(sum(&usage, HOUR, 0), [(NOON, 7), (NOON + HOUR, 8)]);
    assert_eq!(sum(&usage, HOUR, NOON + 1), [(NOON + HOUR, 8)]);
    assert_eq!(usage.0.lock().since, NOON);
}

#[test]
fn short_steps_are_kept_two_hours_states_26_and_hours_eight_days() {
    let usage = WaitingUsage::default();
    let filter = UsageFilter { step: HOUR, ..UsageFilter::default() };
    usage.add(&[counted(CALL, "a", 1), counted(STATE, "", 1)], NOON, NOON);
    for (hours, short, states, long) in
        [(1, 1, 1, 1), (2, 0, 1, 1), (25, 0, 1, 1), (26, 0, 0, 1), (191, 0, 0, 1), (192, 0, 0, 0)]
    {
        usage.add(&[], NOON, NOON + hours * HOUR);
        let states_left = usage.sum(UsageGroup::StateTime, &filter).len();
        let left = (sum(&usage, 300, 0).len(), states_left, sum(&usage, HOUR, 0).len());
        assert_eq!(left, (short, states, long), "after {hours} h");
    }
}

/// Returns the number of rows, and the start of the count.
fn bounds(usage: &WaitingUsage) -> (usize, i64) {
    let waiting = usage.0.lock();
    (waiting.rows.len(), waiting.since)
}

#[test]
fn beyond_the_bound_the_oldest_rows_go_and_the_start_of_the_count_moves() {
    let usage = WaitingUsage::default();
    usage.add(&[counted(CALL, "old", 1)], NOON, NOON);
    let many: Vec<_> = (0..MAX_ROWS / 2).map(|at| counted(CALL, &at.to_string(), 1)).collect();
    usage.add(&many[1..], NOON + HOUR, NOON + HOUR);
    assert_eq!(bounds(&usage), (MAX_ROWS, NOON));
    usage.add(&many[..1], NOON + HOUR, NOON + HOUR);
    assert_eq!(bounds(&usage), (MAX_ROWS, NOON + HOUR));
    assert_eq!(sum(&usage, HOUR, 0), [(NOON + HOUR, (MAX_ROWS / 2) as i64)]);
}

#[test]
fn rows_that_could_not_be_written_are_added_to_newer_ones() {
    let usage = WaitingUsage::default();
    usage.add(&[counted(CALL, "a", 1)], NOON, NOON);
    let taken = usage.take();
    assert_eq!((taken.len(), sum(&usage, 300, 0)), (2, Vec::new()));
    usage.add(&[counted(CALL, "a", 2)], NOON, NOON);
    usage.put_back(taken);
    assert_eq!(sum(&usage, 300, 0), [(NOON, 3)]);
}
