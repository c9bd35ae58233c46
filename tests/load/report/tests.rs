//! Tests of met, missed and missing targets, as a table and as JSON.

use super::*;
use crate::measure::Scenario;
use crate::table;
use crate::wire::Era;

const GATE: &str = "gateway /mcp";

fn cell(target: &'static str, connections: usize, cpu_us: Option<f64>, p50_us: f64) -> Cell {
    let scenario = Scenario { era: Era::Legacy, connections, body: BodySize::Small };
    let sample =
        cpu_us.map(|cpu_us| Sample { cpu_us, per_second: 9.0, p50_us, p99_us: p50_us, calls: 5 });
    Cell { target, scenario, rounds: vec![sample], wrong: 0, fault: None }
}

fn report(gate_cpu: Option<f64>) -> Report {
    let cells = vec![
        cell(DIRECT, 1, Some(10.0), 40.0),
        cell(NGINX, 1, Some(20.0), 80.0),
        cell(GATE, 1, gate_cpu, 139.0),
    ];
    let lines = vec![Line {
        target: GATE,
        what: "initialize".into(),
        unit: "ms",
        value: Ok(1.5),
        limit: Some(1.0),
        required: true,
        kind: FigureKind::Noisy,
    }];
    Report { machine: "m".into(), setting: "s".into(), cells, lines }
}

#[test]
fn targets_are_met_missed_or_without_a_figure() {
    let seen = |gate| {
        let all = report(gate).verdicts();
        all.iter().map(|verdict| (verdict.value, verdict.met())).collect::<Vec<_>>()
    };
    assert_eq!(seen(Some(30.0)), [(Some(1.5), true), (Some(99.0), true), (Some(1.5), false)]);
    assert_eq!(seen(Some(50.0)), [(Some(2.5), false), (Some(99.0), true), (Some(1.5), false)]);
    assert_eq!(seen(None), [(None, false), (None, false), (Some(1.5), false)]);
}

#[test]
fn what_judging_costs_is_told_beside_the_gateway_without_it() {
    let mut report = report(Some(30.0));
    report.cells.push(cell(GUARD, 1, Some(36.0), 150.0));
    let verdicts = report.verdicts();
    let of = verdicts.iter().find(|verdict| verdict.target == GUARD).expect("a verdict");
    assert_eq!((of.value, of.limit, of.met()), (Some(1.2), 1.15, false));
}

#[test]
fn wrong_answers_and_missing_required_figures_are_faults() {
    let mut report = report(Some(30.0));
    assert!(report.faults().is_empty());
    report.cells[2].wrong = 3;
    report.lines[0].value = Err("refused".into());
    assert_eq!(report.faults().len(), 2);
    report.lines[0].required = false;
    assert_eq!(report.faults().len(), 1);
}

#[test]
fn the_table_and_the_json_name_every_target() {
    let report = report(Some(30.0));
    let (text, json) = (table::render(&report), report.json().to_string());
    for name in [DIRECT, NGINX, GATE] {
        assert!(text.contains(&format!("| {name} |")) && json.contains(name), "{name}");
    }
    assert!(
        text.contains("1.50 × | 2 × | yes |") && text.contains("1.50 ms | 1 ms | NO |"),
        "{text}"
    );
}
