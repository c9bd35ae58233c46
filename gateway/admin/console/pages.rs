//! The pages of the console: each combines requests to the API with a template.

pub(crate) mod access;
pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod integration;
pub(crate) mod integrations;
pub(crate) mod keys;
pub(crate) mod overview;
pub(crate) mod pins;
pub(crate) mod servers;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod tool;
pub(crate) mod usage;

use askama::Template;

use crate::console::diagnosis::Severity;
use crate::console::plot::Plot;
use crate::console::render::{PageResult, show};
use crate::console::visit::Visit;

// All components on one page, for design work and for the screenshots of the tests.

#[derive(Template)]
#[template(path = "parts.html")]
struct PartsPage<'a> {
    visit: &'a Visit,
    severities: [Severity; 4],
    plots: Vec<Plot>,
}

pub(crate) async fn show_parts(visit: Visit) -> PageResult {
    let mut calls = Vec::new();
    let mut averages = Vec::new();
    for step in 0_u32..61 {
        calls.push(Some(f64::from(step * 7 % 23)));
        averages.push((step % 5 != 0).then(|| 12.0 + f64::from(step % 11)));
    }
    show(&PartsPage {
        visit: &visit,
        severities: [Severity::Good, Severity::Waiting, Severity::Bad, Severity::Off],
        plots: vec![
            Plot::new("Calls", "", calls),
            Plot::new("Latency, average", "ms", averages),
            Plot::new("Errors", "", Vec::new()),
        ],
    })
}
