//! Cost of a forwarded call: all targets under the same load, in turn, over several rounds. Ratios
//! are taken only within a round, since conditions change between rounds.

use std::time::Duration;

use bytes::Bytes;

use crate::generate::{Fleet, Limit, quantile};
use crate::process::Running;
use crate::wire::{Era, Face};

/// Calls per connection before the measurement.
const WARM: u64 = 50;

/// A face to call, and the process charged with its CPU time.
pub struct Target<'a> {
    pub face: Face,
    pub process: &'a Running,
}

#[derive(Clone, Copy, PartialEq)]
pub struct Scenario {
    pub era: Era,
    pub connections: usize,
    pub body: BodySize,
}

#[derive(Clone, Copy, PartialEq)]
pub enum BodySize {
    Small,
    Large,
}

impl BodySize {
    pub const BOTH: [Self; 2] = [Self::Small, Self::Large];

    pub fn word(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "64 KiB",
        }
    }

    /// Returns how many connections call at once.
    fn connections(self) -> &'static [usize] {
        match self {
            Self::Small => &[1, 32, 128],
            Self::Large => &[1, 32],
        }
    }

    /// Returns a text for a legacy call of about 200 bytes, or a text of 64 KiB.
    pub fn text(self) -> Bytes {
        let length = match self {
            Self::Small => 100,
            Self::Large => 64 << 10,
        };
        b"the quick brown fox jumps over the lazy dog "
            .iter()
            .copied()
            .cycle()
            .take(length)
            .collect()
    }
}

/// Returns every combination of era, connections and body.
pub fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for body in BodySize::BOTH {
        for &connections in body.connections() {
            all.extend(Era::BOTH.map(|era| Scenario { era, connections, body }));
        }
    }
    all
}

#[derive(Clone, Copy)]
pub struct Plan {
    pub rounds: usize,
    pub window: Duration,
    /// Calls after which a window ends early.
    pub calls: u64,
}

/// The figures of a window of a target.
#[derive(Clone, Copy)]
pub struct Sample {
    pub cpu_us: f64,
    pub per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub calls: u64,
}

/// All windows of a target in a scenario; a failed round has no sample.
pub struct Cell {
    pub target: &'static str,
    pub scenario: Scenario,
    pub rounds: Vec<Option<Sample>>,
    pub wrong: u64,
    pub fault: Option<String>,
}

impl Cell {
    /// Returns the median of a figure over all rounds; `None` without samples.
    pub fn median(&self, figure: impl Fn(&Sample) -> f64) -> Option<f64> {
        median(self.rounds.iter().flatten().map(figure).collect())
    }
}

pub async fn measure(targets: &[Target<'_>], plan: Plan, progress: impl Fn(&str)) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for scenario in scenarios() {
        let new = |target: &Target<'_>| Cell {
            target: target.face.name,
            scenario,
            rounds: Vec::new(),
            wrong: 0,
            fault: None,
        };
        cells.extend(targets.iter().map(new));
    }
    for round in 0..plan.rounds {
        for (number, scenario) in scenarios().into_iter().enumerate() {
            let Scenario { era, connections, body } = scenario;
            progress(&format!(
                "round {} of {}: {}, {connections} connections, {} body",
                round + 1,
                plan.rounds,
                era.word(),
                body.word()
            ));
            for turn in 0..targets.len() {
                // Rotate the order so that targets do not always follow the same target.
                let which = (turn + round) % targets.len();
                let (Some(target), Some(cell)) =
                    (targets.get(which), cells.get_mut(number * targets.len() + which))
                else {
                    continue;
                };
                match window(target, scenario, plan, cell).await {
                    Ok(sample) => cell.rounds.push(Some(sample)),
                    Err(error) => {
                        cell.rounds.push(None);
                        cell.wrong += 1;
                        cell.fault.get_or_insert_with(|| format!("{error:#}"));
                    }
                }
            }
        }
    }
    cells
}

async fn window(
    target: &Target<'_>,
    scenario: Scenario,
    plan: Plan,
    cell: &mut Cell,
) -> anyhow::Result<Sample> {
    let mut fleet =
        Fleet::connect(&target.face, scenario.era, scenario.connections, &scenario.body.text())
            .await?;
    let warm = Limit { time: plan.window, calls: WARM * scenario.connections as u64 };
    let warmed = fleet.drive(warm).await?;
    let before = target.process.cpu()?;
    let result = fleet.drive(Limit { time: plan.window, calls: plan.calls }).await?;
    let nanos = target.process.cpu()?.since(&before);
    cell.wrong += warmed.wrong + result.wrong;
    cell.fault = cell.fault.take().or(warmed.fault).or(result.fault);
    fleet.close().await?;
    let calls = result.nanos.len() as u64;
    anyhow::ensure!(
        calls > 0,
        "no call succeeded: {}",
        cell.fault.as_deref().unwrap_or("no reason")
    );
    let micros = |nanos: u64| nanos as f64 / 1e3;
    Ok(Sample {
        cpu_us: micros(nanos) / calls as f64,
        per_second: calls as f64 / result.elapsed.as_secs_f64(),
        p50_us: micros(quantile(&result.nanos, 0.50)),
        p99_us: micros(quantile(&result.nanos, 0.99)),
        calls,
    })
}

/// Compares a figure of two cells for each round with samples of both.
pub fn pairs(
    of: &Cell,
    with: &Cell,
    figure: impl Fn(&Sample) -> f64,
    how: impl Fn(f64, f64) -> f64,
) -> Vec<f64> {
    let rounds = of.rounds.iter().zip(&with.rounds);
    rounds
        .filter_map(|(of, with)| Some(how(figure(of.as_ref()?), figure(with.as_ref()?))))
        .collect()
}

/// Returns the median of `pairs`.
pub fn compare(
    of: &Cell,
    with: &Cell,
    figure: impl Fn(&Sample) -> f64,
    how: impl Fn(f64, f64) -> f64,
) -> Option<f64> {
    median(pairs(of, with, figure, how))
}

/// Returns the 95 % confidence interval of the median of the underlying distribution (sign test);
/// `None` below six values.
pub fn median_within(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    // Normal approximation; for six values it selects the minimum and the maximum.
    let outside = ((count - 1.96 * count.sqrt()) / 2.0).floor();
    let outside = if values.len() < 6 || outside < 0.0 { return None } else { outside as usize };
    Some((*values.get(outside)?, *values.get(values.len() - 1 - outside)?))
}

pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle).copied()?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some((upper + values.get(middle - 1)?) / 2.0)
}

#[cfg(test)]
mod tests;
