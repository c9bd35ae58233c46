//! Small plots as SVG, made here: bars over even steps of time, with their figures as text and as a
//! table for those who do not see them.

use super::diagnosis::RecentStep;

/// Width of one bar with the space beside it, and of the bar, in units of the drawing.
const STEP: f64 = 4.0;
const BAR: f64 = 3.0;
/// Height of the drawing.
const HEIGHT: f64 = 48.0;
/// Least height of a bar that is not nothing.
const LEAST: f64 = 1.5;
/// The title of plots of failed calls.
const ERRORS: &str = "Errors";
/// Bars of a whole drawing: with fewer steps, it begins empty.
const BARS: usize = 61;

/// See the module.
pub(crate) struct Plot {
    pub(crate) title: &'static str,
    /// Of the figures; none of counts.
    pub(crate) unit: &'static str,
    /// From the oldest to the newest; none where there is nothing to say.
    values: Vec<Option<f64>>,
}

/// Plots of what became of calls in the last half hour: none before the first.
pub(crate) fn plot_calls(recent: &[RecentStep]) -> Vec<Plot> {
    if recent.iter().all(|step| step.calls == 0 && step.failed == 0) {
        return Vec::new();
    }
    let mut calls = Vec::new();
    let mut failed = Vec::new();
    let mut averages = Vec::new();
    for step in recent {
        calls.push(Some(step.calls as f64));
        failed.push(Some(step.failed as f64));
        averages.push(step.average_ms);
    }
    vec![
        Plot::new("Calls", "", calls),
        Plot::new(ERRORS, "", failed),
        Plot::new("Latency, average", "ms", averages),
    ]
}

/// One bar.
pub(crate) struct Bar {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) height: f64,
}

impl Plot {
    pub(crate) fn new(title: &'static str, unit: &'static str, values: Vec<Option<f64>>) -> Self {
        Self { title, unit, values }
    }

    /// Errors are drawn in the colour of failures.
    pub(crate) fn is_of_errors(&self) -> bool {
        self.title == ERRORS
    }

    pub(crate) fn width(&self) -> f64 {
        BARS as f64 * STEP
    }

    pub(crate) fn bars(&self) -> Vec<Bar> {
        let most = self.most();
        let first = BARS.saturating_sub(self.values.len());
        let mut bars = Vec::new();
        for (at, value) in self.values.iter().enumerate() {
            let value = match *value {
                Some(value) if value > 0.0 && most > 0.0 => value,
                _ => continue,
            };
            let height = (value / most * HEIGHT).max(LEAST);
            bars.push(Bar { x: (first + at) as f64 * STEP, y: HEIGHT - height, height });
        }
        bars
    }

    pub(crate) fn bar_width(&self) -> f64 {
        BAR
    }

    pub(crate) fn least_text(&self) -> String {
        let mut least: Option<f64> = None;
        for value in self.values.iter().flatten() {
            if least.is_none_or(|least| *value < least) {
                least = Some(*value);
            }
        }
        self.write(least)
    }

    pub(crate) fn most_text(&self) -> String {
        self.write(Some(self.most()))
    }

    /// The step that goes on.
    pub(crate) fn last_text(&self) -> String {
        match self.values.last() {
            Some(last) => self.write(*last),
            None => self.write(None),
        }
    }

    /// Each step with something in it, the newest first: how long ago it began, and its figure.
    pub(crate) fn rows(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        for (back, value) in self.values.iter().rev().enumerate() {
            if matches!(value, Some(value) if *value > 0.0) {
                let ago = match back {
                    0 => "now".to_owned(),
                    _ => format!("{} min {} s ago", back / 2, back % 2 * 30),
                };
                rows.push((ago, self.write(*value)));
            }
        }
        rows
    }

    fn most(&self) -> f64 {
        let mut most = 0.0;
        for value in self.values.iter().flatten() {
            most = f64::max(most, *value);
        }
        most
    }

    fn write(&self, value: Option<f64>) -> String {
        let Some(value) = value else { return "–".to_owned() };
        match self.unit {
            "" => format!("{value:.0}"),
            unit => format!("{value:.1} {unit}"),
        }
    }
}

#[cfg(test)]
mod tests;
