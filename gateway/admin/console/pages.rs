//! The pages of the console: each combines operations of the API with a template. This module holds
//! their common imports, and a page with all components.

pub(crate) mod access;
pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod integrations;
pub(crate) mod keys;
pub(crate) mod overview;
pub(crate) mod pins;
pub(crate) mod servers;
pub(crate) mod settings;
pub(crate) mod tool;
pub(crate) mod usage;

use askama::Template;
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::api::access::{Admin, By};
use crate::api::agents::{Agent, list_agents};
use crate::api::body::{Body, body};
use crate::api::integrations::Integration;
use crate::api::page::{Page, query};
use crate::api::problem::Problem;
use crate::api::usage::Usage;
use crate::console::diagnosis::Severity;
use crate::console::form::{Fields, FormError, Labels};
use crate::console::plot::{Plot, RECENT, plot_calls};
use crate::console::redirect::{ListPart, PagePath, Tab, TabValue, redirect};
use crate::console::render::{
    PageError, PageResult, count, plain_text, render, show, show_json, show_text, text_of,
};
use crate::console::results::Kept;
use crate::console::snippets::{Snippet, find_address};
use crate::console::visit::Visit;
use crate::fault::{Fault, sentence};

// All components on one page, for design work and for the screenshots of the tests.

#[derive(Template)]
#[template(path = "parts.html")]
struct PartsPage<'a> {
    visit: &'a Visit,
    severities: [Severity; 4],
    plots: Vec<Plot>,
}

pub(crate) async fn show_parts(visit: Visit) -> PageResult {
    let calls = (0_u32..61).map(|step| Some(f64::from(step * 7 % 23)));
    let averages = (0_u32..61).map(|step| (step % 5 != 0).then(|| 12.0 + f64::from(step % 11)));
    show(&PartsPage {
        visit: &visit,
        severities: [Severity::Good, Severity::Waiting, Severity::Bad, Severity::Off],
        plots: vec![
            RECENT.plot("Calls", "", calls),
            RECENT.plot("Latency, average", "ms", averages),
            RECENT.plot("Errors", "", []),
        ],
    })
}
