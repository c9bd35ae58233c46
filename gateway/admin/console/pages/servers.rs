//! Servers that the visitor may see, those that need attention first.

use askama::Template;

use crate::api::servers::{self, Server};
use crate::console::api::Api;
use crate::console::diagnosis::Severity;
use crate::console::error::{PageResult, show};
use crate::console::fields::QueryFields;
use crate::console::layout::Layout;
use crate::console::list_part::ListPart;
use crate::console::page_path::PagePath;

/// States that the list can be filtered by.
const STATES: [(&str, &str); 4] =
    [("bad", "Failing"), ("waiting", "Waiting"), ("good", "Working"), ("off", "Disabled")];

#[derive(Template)]
#[template(path = "servers.html")]
struct ServersPage<'a> {
    layout: &'a Layout,
    search: &'a str,
    filters: Vec<Filter>,
    part: ListPart<Server>,
    address: &'a str,
}

struct Filter {
    label: &'static str,
    count: usize,
    address: String,
    is_chosen: bool,
}

pub(crate) async fn list_servers(
    layout: Layout,
    api: Api,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let search = fields.get("q");
    let chosen = fields.get("state");
    let mut servers = servers::list_visible(&api.by()?, search);
    let filters = make_filters(&servers, search, chosen);
    servers.retain(|server| chosen.is_empty() || server.severity().as_str() == chosen);
    servers.sort_by_key(Server::severity);
    let path = PagePath::new(&["console", "servers"]).with("q", search).with("state", chosen);
    let part = ListPart::cut(servers, fields.get("page"), &path);
    show(&ServersPage { address: &layout.address, layout: &layout, search, filters, part })
}

fn make_filters(servers: &[Server], search: &str, chosen: &str) -> Vec<Filter> {
    let page = PagePath::new(&["console", "servers"]).with("q", search);
    let mut filters = vec![Filter {
        label: "All",
        count: servers.len(),
        address: page.as_str().to_owned(),
        is_chosen: chosen.is_empty(),
    }];
    for (state, label) in STATES {
        let of_state = servers.iter().filter(|server| server.severity().as_str() == state);
        filters.push(Filter {
            label,
            count: of_state.count(),
            address: page.clone().with("state", state).as_str().to_owned(),
            is_chosen: chosen == state,
        });
    }
    filters
}

/// Counts the servers by state, the worst first.
pub(crate) fn count_states(servers: &[Server]) -> Vec<(Severity, usize)> {
    let all = [Severity::Bad, Severity::Waiting, Severity::Good, Severity::Off];
    let mut counts = Vec::new();
    for severity in all {
        let of_same = servers.iter().filter(|server| server.severity() == severity);
        counts.push((severity, of_same.count()));
    }
    counts
}
