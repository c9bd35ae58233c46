//! Usage: calls, errors and latency of a time span by server, tool or caller, denials by rule, and
//! the day of each server.

use super::*;
use crate::api::usage::{
    self, CallFigures, HourState, ServerDay, ServerHour, UsageItem, UsageWindow,
};
use crate::console::plot::PlotSpan;

const WINDOWS: [(&str, &str); 3] = [("1h", "1 hour"), ("24h", "24 hours"), ("7d", "7 days")];
const GROUPS: [(&str, &str); 3] = [("server", "Servers"), ("tool", "Tools"), ("caller", "Callers")];

#[derive(Template)]
#[template(path = "usage.html")]
struct UsagePage<'a> {
    visit: &'a Visit,
    usage: &'a Usage,
    plots: Vec<Plot>,
    /// The caller of the filter; empty without one.
    caller: String,
    window: &'static str,
    by: &'static str,
}

impl UsagePage<'_> {
    /// Returns the address of the parts of an item; `None` for items that are counted together.
    fn parts_of(&self, item: &UsageItem) -> Option<String> {
        let principal = item.principal();
        let changes = match self.by {
            "caller" if item.issuer.is_empty() => return None,
            "caller" => [("by", "tool"), ("principal", &*principal)],
            "server" => [("by", "tool"), ("server", &item.server)],
            _ => [("by", "caller"), ("server", &item.server)],
        };
        Some(self.visit.filtered_by(&changes).into_text())
    }
}

pub(crate) async fn show_usage(visit: Visit) -> PageResult {
    let window = choose(&WINDOWS, visit.query.get("window"), "24h");
    let by = choose(&GROUPS, visit.query.get("by"), "server");
    let [server, principal] = ["server", "principal"].map(|name| visit.query.get(name));
    let filters = [("window", window), ("by", by), ("server", server), ("principal", principal)];
    let usage = load_usage(&visit, &filters).await?;
    let mut caller = String::new();
    if let Some((_, subject)) = principal.split_once('|') {
        let filters = [("window", window), ("by", "caller"), ("principal", principal)];
        let of_caller = load_usage(&visit, &filters).await.unwrap_or_default();
        of_caller.items.first().map_or(subject, UsageItem::caller_text).clone_into(&mut caller);
    }
    visit.show(&UsagePage {
        plots: usage.plots(),
        visit: &visit,
        usage: &usage,
        caller,
        window,
        by,
    })
}

/// Returns the usage of a time span, with these filters of the API.
pub(crate) async fn load_usage(visit: &Visit, filters: &[(&str, &str)]) -> Result<Usage, Problem> {
    Ok(usage::show_usage(visit.by()?, query(filters)?).await?.0)
}

/// Returns the chosen value if it is one of the options.
fn choose(options: &Labels, chosen: &str, default: &'static str) -> &'static str {
    let found = options.iter().find(|(value, _)| *value == chosen);
    found.map_or(default, |(value, _)| value)
}

// Usage as returned by the API, with its texts: figures with units, plots of the time span, and
// strips that draw the state of a server over the day.

/// Maximum number of strips on the overview.
const MAX_STRIPS: usize = 8;

impl CallFigures {
    pub(crate) fn error_rate(&self) -> String {
        match self.calls {
            0 => "–".to_owned(),
            calls => format!("{:.1}", self.failed as f64 * 100.0 / calls as f64),
        }
    }

    pub(crate) fn p50(&self) -> String {
        write_ms(self.p50_ms)
    }

    pub(crate) fn p95(&self) -> String {
        write_ms(self.p95_ms)
    }
}

fn write_ms(ms: Option<f64>) -> String {
    match ms {
        None => "–".to_owned(),
        Some(ms) if ms < 10.0 => format!("{ms:.1}"),
        Some(ms) => format!("{ms:.0}"),
    }
}

impl Usage {
    /// Returns plots of the calls, or none if there were no calls.
    pub(crate) fn plots(&self) -> Vec<Plot> {
        if self.total.calls == 0 {
            return Vec::new();
        }
        let (step, words, start) = match self.window {
            UsageWindow::Hour => ("5 min", "hour", "1 h ago"),
            UsageWindow::Day => ("hour", "24 hours", "24 h ago"),
            UsageWindow::Week => ("hour", "7 days", "7 d ago"),
        };
        let times = self.steps.iter().map(|step| step.at.clone()).collect();
        let span = PlotSpan { bars: self.steps.len(), step, words, start, times };
        let figures = self.steps.iter().map(|step| &step.figures);
        vec![
            span.plot("Calls", "", figures.clone().map(|one| Some(one.calls as f64))),
            span.plot("Errors", "", figures.clone().map(|one| Some(one.failed as f64))),
            span.plot("Latency, p50", "ms", figures.clone().map(|one| one.p50_ms)),
            span.plot("Latency, p95", "ms", figures.map(|one| one.p95_ms)),
        ]
    }

    /// Returns servers with data of the day, those with the most bad hours first.
    pub(crate) fn worst_days(&self) -> Vec<&ServerDay> {
        let mut days: Vec<&ServerDay> = self.servers.iter().filter(|day| day.has_data()).collect();
        days.sort_by_key(|day| std::cmp::Reverse(day.count_bad_hours()));
        days.truncate(MAX_STRIPS);
        days
    }

    /// Returns the day of the server of an item, if the visitor may see it.
    pub(crate) fn find_day(&self, item: &UsageItem) -> Option<&ServerDay> {
        self.servers.iter().find(|day| day.qualified_name() == item.server)
    }

    /// Returns servers that were not called in the time span, but have data of the day.
    pub(crate) fn idle_days(&self) -> Vec<&ServerDay> {
        let mut idle: Vec<_> = self.servers.iter().filter(|day| day.has_data()).collect();
        idle.retain(|day| {
            let name = day.qualified_name();
            !self.items.iter().any(|item| item.server == name)
        });
        idle
    }
}

impl UsageItem {
    /// Returns the name of the caller; the id if it has none.
    pub(crate) fn caller_text(&self) -> &str {
        match (&self.name, self.issuer.as_str()) {
            (Some(name), _) => name,
            (None, "") => "other callers",
            (None, "local") => "this machine",
            (None, "anonymous") => "anonymous",
            (None, _) => &self.subject,
        }
    }

    pub(crate) fn principal(&self) -> String {
        format!("{}|{}", self.issuer, self.subject)
    }
}

impl ServerDay {
    fn qualified_name(&self) -> String {
        match &self.organization_id {
            Some(organisation) => format!("{organisation}/{}", self.name),
            None => self.name.clone(),
        }
    }

    fn count_bad_hours(&self) -> usize {
        self.hours.iter().filter(|hour| hour.state.is_bad()).count()
    }

    pub(crate) fn has_data(&self) -> bool {
        self.hours.iter().any(|hour| hour.state != HourState::NoData)
    }

    /// Returns the number of hours in each state, in words.
    pub(crate) fn summary(&self) -> String {
        let mut parts = Vec::new();
        for (state, words) in [
            (HourState::Ok, "ok"),
            (HourState::Failing, "failing"),
            (HourState::Down, "down"),
            (HourState::NoData, "without data"),
        ] {
            let count = self.hours.iter().filter(|hour| hour.state == state).count();
            if count > 0 {
                parts.push(format!("{count} h {words}"));
            }
        }
        parts.join(", ")
    }

    /// Returns the summary, with the starts of hours that were failing or down.
    pub(crate) fn label(&self) -> String {
        let mut label = format!("{} in the last 24 hours: {}", self.name, self.summary());
        for hour in &self.hours {
            if hour.state.is_bad() {
                let time = hour.at.get(11..16).unwrap_or("");
                label.push_str(&format!("; {} from {time} UTC", hour.state.as_str()));
            }
        }
        label
    }
}

impl ServerHour {
    /// Returns the height of its cell in a strip of 16: states do not depend on colours.
    pub(crate) fn height(&self) -> usize {
        match self.state {
            HourState::Ok => 4,
            HourState::Failing => 8,
            HourState::Down => 16,
            HourState::NoData => 1,
        }
    }

    pub(crate) fn state_text(&self) -> &'static str {
        if self.state == HourState::NoData { "no data" } else { self.state.as_str() }
    }
}

impl HourState {
    fn is_bad(self) -> bool {
        matches!(self, Self::Failing | Self::Down)
    }
}

#[cfg(test)]
mod tests;
