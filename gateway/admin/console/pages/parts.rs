//! All components on one page, for design work and for the screenshots of the tests.

use askama::Template;

use crate::console::diagnosis::Severity;
use crate::console::error::{PageResult, show};
use crate::console::layout::Layout;
use crate::console::plot::Plot;

#[derive(Template)]
#[template(path = "parts.html")]
struct PartsPage<'a> {
    layout: &'a Layout,
    severities: [Severity; 4],
    plots: Vec<Plot>,
}

pub(crate) async fn show_parts(layout: Layout) -> PageResult {
    let mut calls = Vec::new();
    let mut averages = Vec::new();
    for step in 0_u32..61 {
        calls.push(Some(f64::from(step * 7 % 23)));
        averages.push((step % 5 != 0).then(|| 12.0 + f64::from(step % 11)));
    }
    show(&PartsPage {
        layout: &layout,
        severities: [Severity::Good, Severity::Waiting, Severity::Bad, Severity::Off],
        plots: vec![
            Plot::new("Calls", "", calls),
            Plot::new("Latency, average", "ms", averages),
            Plot::new("Errors", "", Vec::new()),
        ],
    })
}
