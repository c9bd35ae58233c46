//! Tests of medians, and of comparisons within rounds.

use super::*;

fn cell(target: &'static str, cpu: &[Option<f64>]) -> Cell {
    let sample = |cpu_us| Sample { cpu_us, per_second: 1.0, p50_us: 1.0, p99_us: 1.0, calls: 1 };
    let scenario = Scenario { era: Era::Modern, connections: 1, body: BodySize::Small };
    Cell {
        target,
        scenario,
        rounds: cpu.iter().map(|cpu| cpu.map(sample)).collect(),
        wrong: 0,
        fault: None,
    }
}

#[test]
fn medians_of_odd_and_even_counts() {
    assert_eq!(median(vec![]), None);
    assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
}

/// The ranks match the tables of the sign test: 1 and 6 of 6, 14 and 27 of 40.
#[test]
fn a_median_has_bounds() {
    let values = |count: u32| (1..=count).rev().map(f64::from).collect::<Vec<_>>();
    assert_eq!(median_within(values(5)), None);
    assert_eq!(median_within(values(6)), Some((1.0, 6.0)));
    assert_eq!(median_within(values(40)), Some((14.0, 27.0)));
    assert_eq!(median_within(vec![1.0; 100]), Some((1.0, 1.0)));
}

#[test]
fn compares_rounds_that_both_have() {
    let of = cell("a", &[Some(10.0), None, Some(30.0), Some(80.0)]);
    let with = cell("b", &[Some(10.0), Some(1.0), Some(10.0), Some(20.0)]);
    assert_eq!(compare(&of, &with, |sample| sample.cpu_us, |of, with| of / with), Some(3.0));
    assert_eq!(pairs(&of, &with, |sample| sample.cpu_us, |of, with| of / with), [1.0, 3.0, 4.0]);
}

#[test]
fn every_scenario_is_there_once_with_the_promised_sizes() {
    assert_eq!(scenarios().len(), 10);
    assert_eq!((BodySize::Small.text().len(), BodySize::Large.text().len()), (100, 65536));
}
