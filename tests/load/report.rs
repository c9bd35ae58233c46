//! All figures of a run, the verdicts on them, and their JSON form. A missing figure misses its
//! target.

use serde_json::{Value, json};

use crate::measure::{BodySize, Cell, Sample, compare};

pub const DIRECT: &str = "direct";
pub const NGINX: &str = "nginx";
pub const OPEN: &str = "gateway /mcp";
pub const GUARD: &str = "gateway guarded";
pub const UNDIGESTED: &str = "gateway guarded, arguments omitted";

/// Limit on the CPU time of a guarded call relative to an open call.
pub const GUARDED_AT_MOST: f64 = 1.15;

/// Ratio to nginx above which even a quick run on a noisy machine fails.
pub const MAX_RATIO: f64 = 4.0;
/// The same for an unoptimised debug build.
pub const DEBUG_CEILING: f64 = 40.0;
/// Limit on the allocations of a plain call in a debug build: 10 to 18, the more the busier the
/// machine is.
pub const MAX_ALLOCATIONS: f64 = 20.0;

/// A figure other than the cost of a call.
pub struct Line {
    pub target: &'static str,
    pub what: String,
    pub unit: &'static str,
    pub value: Result<f64, String>,
    pub limit: Option<f64>,
    /// Whether the run fails without this figure.
    pub required: bool,
    pub kind: FigureKind,
}

/// A target of the project and its value in this run.
pub struct Verdict {
    pub target: &'static str,
    pub what: String,
    pub unit: &'static str,
    pub value: Option<f64>,
    pub limit: f64,
    pub kind: FigureKind,
}

/// The reliability of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FigureKind {
    /// A ratio of CPU times: a run above the ceiling fails.
    Ratio,
    /// Equal in every run: a run above the limit fails.
    Exact,
    Noisy,
}

impl Verdict {
    pub fn met(&self) -> bool {
        self.value.is_some_and(|value| value <= self.limit)
    }
}

pub struct Report {
    pub machine: String,
    pub setting: String,
    pub cells: Vec<Cell>,
    pub lines: Vec<Line>,
}

impl Report {
    /// Returns the cell of another target in the same scenario.
    pub fn beside(&self, cell: &Cell, target: &str) -> Option<&Cell> {
        self.cells.iter().find(|other| other.target == target && other.scenario == cell.scenario)
    }

    /// Returns the CPU time per call as a multiple of nginx's in the same rounds.
    pub fn ratio(&self, cell: &Cell) -> Option<f64> {
        self.ratio_to(cell, NGINX)
    }

    fn ratio_to(&self, cell: &Cell, other: &str) -> Option<f64> {
        compare(cell, self.beside(cell, other)?, |sample| sample.cpu_us, |of, with| of / with)
    }

    /// Returns the microseconds that a cell adds to the median of a direct call.
    pub fn added(&self, cell: &Cell) -> Option<f64> {
        compare(cell, self.beside(cell, DIRECT)?, |sample| sample.p50_us, |of, with| of - with)
    }

    pub fn verdicts(&self) -> Vec<Verdict> {
        let mut all = Vec::new();
        for cell in self.cells.iter().filter(|cell| cell.target != DIRECT && cell.target != NGINX) {
            let scenario = cell.scenario;
            let (body, era, connections) =
                (scenario.body, scenario.era.word(), scenario.connections);
            if cell.target == GUARD {
                all.push(Verdict {
                    target: cell.target,
                    what: format!(
                        "CPU per call beside {OPEN}, {}, {connections} conn, {era}",
                        body.word()
                    ),
                    unit: "×",
                    value: self.ratio_to(cell, OPEN),
                    limit: GUARDED_AT_MOST,
                    kind: FigureKind::Ratio,
                });
                continue;
            }
            all.push(Verdict {
                target: cell.target,
                what: format!(
                    "CPU per call beside nginx, {}, {connections} conn, {era}",
                    body.word()
                ),
                unit: "×",
                value: self.ratio(cell),
                limit: if body == BodySize::Small { 2.0 } else { 1.5 },
                kind: FigureKind::Ratio,
            });
            if connections == 1 && body == BodySize::Small {
                all.push(Verdict {
                    target: cell.target,
                    what: format!("added at the median, small, 1 conn, {era}"),
                    unit: "µs",
                    value: self.added(cell),
                    limit: 100.0,
                    kind: FigureKind::Noisy,
                });
            }
        }
        for line in &self.lines {
            if let Some(limit) = line.limit {
                let value = line.value.as_ref().ok().copied();
                all.push(Verdict {
                    target: line.target,
                    what: line.what.clone(),
                    unit: line.unit,
                    value,
                    limit,
                    kind: line.kind,
                });
            }
        }
        all
    }

    /// Returns the faults of the run: wrong responses and missing required figures.
    pub fn faults(&self) -> Vec<String> {
        let of_cell = |cell: &Cell| {
            let words = cell.fault.as_deref().unwrap_or("no reason");
            let scenario = cell.scenario;
            (cell.wrong > 0).then(|| {
                format!(
                    "{}: {} wrong, {} {} conn {}: {words}",
                    cell.target,
                    cell.wrong,
                    scenario.body.word(),
                    scenario.connections,
                    scenario.era.word()
                )
            })
        };
        let of_line = |line: &Line| {
            let words = line.value.as_ref().err().filter(|_| line.required)?;
            Some(format!("{}: {}: {words}", line.target, line.what))
        };
        self.cells.iter().filter_map(of_cell).chain(self.lines.iter().filter_map(of_line)).collect()
    }

    pub fn json(&self) -> Value {
        let cells: Vec<Value> = self.cells.iter().map(|cell| self.cell_json(cell)).collect();
        let lines: Vec<Value> = self.lines.iter().map(line_json).collect();
        let verdicts: Vec<Value> = self
            .verdicts()
            .iter()
            .map(|verdict| {
                json!({"target": verdict.target, "what": verdict.what, "unit": verdict.unit, "value": verdict.value,
                       "limit": verdict.limit, "met": verdict.met()})
            })
            .collect();
        json!({"machine": self.machine, "setting": self.setting, "calls": cells, "figures": lines,
               "targets": verdicts, "faults": self.faults()})
    }

    fn cell_json(&self, cell: &Cell) -> Value {
        let rounds: Vec<Value> = cell.rounds.iter().flatten().map(sample_json).collect();
        json!({
            "target": cell.target,
            "era": cell.scenario.era.word(),
            "connections": cell.scenario.connections,
            "body": cell.scenario.body.word(),
            "cpu_us": cell.median(|sample| sample.cpu_us),
            "per_second": cell.median(|sample| sample.per_second),
            "p50_us": cell.median(|sample| sample.p50_us),
            "p99_us": cell.median(|sample| sample.p99_us),
            "cpu_ratio_to_nginx": self.ratio(cell),
            "added_p50_us": self.added(cell),
            "wrong": cell.wrong,
            "fault": cell.fault,
            "rounds": rounds,
        })
    }
}

fn sample_json(sample: &Sample) -> Value {
    json!({"cpu_us": sample.cpu_us, "per_second": sample.per_second, "p50_us": sample.p50_us,
           "p99_us": sample.p99_us, "calls": sample.calls})
}

fn line_json(line: &Line) -> Value {
    json!({"target": line.target, "what": line.what, "unit": line.unit, "value": line.value.as_ref().ok(),
           "fault": line.value.as_ref().err()})
}

#[cfg(test)]
mod tests;
