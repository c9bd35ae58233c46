//! Usage: calls, errors and latency of a time span by server, tool or caller, denials by rule, and
//! the day of each server.

use askama::Template;

use crate::api::problem::Problem;
use crate::api::query::query;
use crate::api::usage::{self, Usage, UsageItem};
use crate::console::api::Api;
use crate::console::error::{PageResult, show};
use crate::console::fields::QueryFields;
use crate::console::layout::Layout;
use crate::console::plot::Plot;
use crate::console::redirect::PagePath;

const WINDOWS: [(&str, &str); 3] = [("1h", "1 hour"), ("24h", "24 hours"), ("7d", "7 days")];
const GROUPS: [(&str, &str); 3] = [("server", "Servers"), ("tool", "Tools"), ("caller", "Callers")];

#[derive(Template)]
#[template(path = "usage.html")]
struct UsagePage<'a> {
    layout: &'a Layout,
    usage: &'a Usage,
    plots: Vec<Plot>,
    windows: Vec<Tab>,
    groups: Vec<Tab>,
    by: &'a str,
    server: &'a str,
    /// The caller of the filter; empty without one.
    caller: String,
    /// The address without the filters.
    unfiltered: String,
    view: &'a View<'a>,
}

struct Tab {
    label: &'static str,
    address: String,
    is_chosen: bool,
}

/// The state of the page in its address.
#[derive(Clone, Copy)]
struct View<'a> {
    window: &'a str,
    by: &'a str,
    server: &'a str,
    principal: &'a str,
}

impl View<'_> {
    fn address(&self) -> String {
        PagePath::new(&["console", "usage"])
            .with("window", self.window)
            .with("by", self.by)
            .with("server", self.server)
            .with("principal", self.principal)
            .into_text()
    }

    /// Returns the address of the parts of an item; empty for items that are counted together.
    fn parts_of(&self, item: &UsageItem) -> String {
        let principal = item.principal();
        let view = match self.by {
            "caller" if item.issuer.is_empty() => return String::new(),
            "caller" => View { by: "tool", principal: &principal, ..*self },
            "server" => View { by: "tool", server: &item.server, ..*self },
            _ => View { by: "caller", server: &item.server, ..*self },
        };
        view.address()
    }
}

pub(crate) async fn show_usage(
    layout: Layout,
    api: Api,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let view = View {
        window: choose(&WINDOWS, fields.get("window"), "24h"),
        by: choose(&GROUPS, fields.get("by"), "server"),
        server: fields.get("server"),
        principal: fields.get("principal"),
    };
    let usage = load_usage(
        &api,
        &[
            ("window", view.window),
            ("by", view.by),
            ("server", view.server),
            ("principal", view.principal),
        ],
    )
    .await?;
    let mut windows = Vec::new();
    for (window, label) in WINDOWS {
        let address = View { window, ..view }.address();
        windows.push(Tab { label, address, is_chosen: window == view.window });
    }
    let mut groups = Vec::new();
    for (by, label) in GROUPS {
        let address = View { by, ..view }.address();
        groups.push(Tab { label, address, is_chosen: by == view.by });
    }
    show(&UsagePage {
        plots: usage.plots(),
        caller: name_caller(&api, &view).await,
        unfiltered: View { server: "", principal: "", ..view }.address(),
        layout: &layout,
        usage: &usage,
        windows,
        groups,
        by: view.by,
        server: view.server,
        view: &view,
    })
}

/// Returns the usage of a time span, with these filters of the API.
pub(crate) async fn load_usage(api: &Api, filters: &[(&str, &str)]) -> Result<Usage, Problem> {
    Ok(usage::show_usage(api.by()?, query(filters)?).await?.0)
}

/// Returns the name of the caller of the filter, or its subject.
async fn name_caller(api: &Api, view: &View<'_>) -> String {
    let Some((_, subject)) = view.principal.split_once('|') else { return String::new() };
    let filters = [("window", view.window), ("by", "caller"), ("principal", view.principal)];
    let usage = load_usage(api, &filters).await.unwrap_or_default();
    match usage.items.first() {
        Some(item) => item.caller_text().to_owned(),
        None => subject.to_owned(),
    }
}

/// Returns the chosen value if it is one of the options.
fn choose(
    options: &[(&'static str, &'static str)],
    chosen: &str,
    default: &'static str,
) -> &'static str {
    for (value, _) in options {
        if *value == chosen {
            return value;
        }
    }
    default
}
