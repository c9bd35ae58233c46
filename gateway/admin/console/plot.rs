//! Small bar charts as SVG, over equal time steps. Values are also given as text and as a table,
//! for screen readers.

use crate::api::figures::RecentStep;

/// Width of a bar with its gap, in units of the drawing.
const STEP: f64 = 4.0;
const HEIGHT: f64 = 48.0;
/// Minimum height of a bar above zero.
const LEAST: f64 = 1.5;
/// The steps of recent calls.
const RECENT: PlotSpan = PlotSpan {
    bars: 61,
    step: "30 s",
    words: "30 minutes",
    start: "30 min ago",
    times: Vec::new(),
};

/// The time steps of a plot.
#[derive(Clone)]
pub(crate) struct PlotSpan {
    /// Bars of a full plot; with fewer steps, its left side is empty.
    pub(crate) bars: usize,
    /// The length of a step, and of all.
    pub(crate) step: &'static str,
    pub(crate) words: &'static str,
    /// The left end of the axis.
    pub(crate) start: &'static str,
    /// The starts of the steps; empty for steps of 30 s up to now.
    pub(crate) times: Vec<String>,
}

/// A bar chart of one metric.
pub(crate) struct Plot {
    pub(crate) title: &'static str,
    /// The unit of the values; empty for counts.
    pub(crate) unit: &'static str,
    /// From the oldest to the newest; `None` for a step without data.
    values: Vec<Option<f64>>,
    pub(crate) span: PlotSpan,
}

/// Returns plots of the calls of the last half hour, or none if there were no calls.
pub(crate) fn plot_calls(recent: &[RecentStep]) -> Vec<Plot> {
    if recent.iter().all(|step| step.calls == 0 && step.failed == 0) {
        return Vec::new();
    }
    vec![
        RECENT.plot("Calls", "", recent.iter().map(|step| Some(step.calls as f64))),
        RECENT.plot("Errors", "", recent.iter().map(|step| Some(step.failed as f64))),
        RECENT.plot("Latency, average", "ms", recent.iter().map(|step| step.average_ms)),
    ]
}

impl PlotSpan {
    /// Creates a plot of a value for each step, the oldest first.
    pub(crate) fn plot(
        &self,
        title: &'static str,
        unit: &'static str,
        values: impl IntoIterator<Item = Option<f64>>,
    ) -> Plot {
        Plot { title, unit, values: values.into_iter().collect(), span: self.clone() }
    }
}

impl Plot {
    pub(crate) fn width(&self) -> f64 {
        self.span.bars as f64 * STEP
    }

    /// Returns the position and the height of each bar above zero.
    pub(crate) fn bars(&self) -> Vec<(f64, f64)> {
        let most = self.most();
        let first = self.span.bars.saturating_sub(self.values.len());
        let mut bars = Vec::new();
        for (at, value) in self.values.iter().enumerate() {
            let value = match *value {
                Some(value) if value > 0.0 && most > 0.0 => value,
                _ => continue,
            };
            let height = (value / most * HEIGHT).max(LEAST);
            bars.push(((first + at) as f64 * STEP, height));
        }
        bars
    }

    pub(crate) fn least_text(&self) -> String {
        let values = self.values.iter().flatten();
        self.write(values.copied().reduce(f64::min))
    }

    pub(crate) fn most_text(&self) -> String {
        self.write(Some(self.most()))
    }

    /// Returns the value of the current step.
    pub(crate) fn last_text(&self) -> String {
        self.write(self.values.last().copied().flatten())
    }

    /// Returns the steps above zero, the newest first: the start or the time since, and the value.
    pub(crate) fn rows(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        for (back, value) in self.values.iter().rev().enumerate() {
            if matches!(value, Some(value) if *value > 0.0) {
                let ago = match self.span.times.iter().rev().nth(back) {
                    Some(time) => time.clone(),
                    None if back == 0 => "now".to_owned(),
                    None => format!("{} min {} s ago", back / 2, back % 2 * 30),
                };
                rows.push((ago, self.write(*value)));
            }
        }
        rows
    }

    fn most(&self) -> f64 {
        let values = self.values.iter().flatten();
        values.copied().fold(0.0, f64::max)
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
