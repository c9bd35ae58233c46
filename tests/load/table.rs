//! The report as Markdown tables, which can be pasted into the README.

use std::fmt::Write;

use crate::report::{Line, Report};

pub fn render(report: &Report) -> String {
    let mut text = format!("{}\n{}\n\n", report.machine, report.setting);
    // Writing to a string cannot fail.
    let _ = calls(report, &mut text);
    let _ = lines(&report.lines, &mut text);
    let _ = verdicts(report, &mut text);
    text
}

fn calls(report: &Report, text: &mut String) -> std::fmt::Result {
    writeln!(
        text,
        "| body | conn | era | target | CPU µs/call | min–max | × nginx | calls/s | p50 µs | p99 µs | added p50 µs |"
    )?;
    writeln!(text, "|---|---:|---|---|---:|---:|---:|---:|---:|---:|---:|")?;
    for cell in &report.cells {
        let scenario = cell.scenario;
        let cpu = || cell.rounds.iter().flatten().map(|sample| sample.cpu_us);
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {:.1}–{:.1} | {} | {} | {} | {} | {} |",
            scenario.body.word(),
            scenario.connections,
            scenario.era.word(),
            cell.target,
            shown(cell.median(|sample| sample.cpu_us), 1),
            cpu().fold(f64::NAN, f64::min),
            cpu().fold(f64::NAN, f64::max),
            shown(report.ratio(cell), 2),
            shown(cell.median(|sample| sample.per_second), 0),
            shown(cell.median(|sample| sample.p50_us), 0),
            shown(cell.median(|sample| sample.p99_us), 0),
            shown(report.added(cell), 0),
        )?;
    }
    writeln!(text)
}

fn lines(lines: &[Line], text: &mut String) -> std::fmt::Result {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(text, "| figure | target | value |\n|---|---|---:|")?;
    for line in lines {
        match &line.value {
            Ok(value) => {
                writeln!(text, "| {} | {} | {value:.2} {} |", line.what, line.target, line.unit)?
            }
            Err(words) => writeln!(text, "| {} | {} | none: {words} |", line.what, line.target)?,
        }
    }
    writeln!(text)
}

fn verdicts(report: &Report, text: &mut String) -> std::fmt::Result {
    let verdicts = report.verdicts();
    if !verdicts.is_empty() {
        writeln!(text, "| target | of | value | at most | met |\n|---|---|---:|---:|---|")?;
    }
    for verdict in &verdicts {
        let met = if verdict.met() { "yes" } else { "NO" };
        let (value, unit) = (shown(verdict.value, 2), verdict.unit);
        writeln!(
            text,
            "| {} | {} | {value} {unit} | {} {unit} | {met} |",
            verdict.what, verdict.target, verdict.limit
        )?;
    }
    for fault in report.faults() {
        writeln!(text, "FAULT {fault}")?;
    }
    Ok(())
}

fn shown(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.decimals$}"))
}
