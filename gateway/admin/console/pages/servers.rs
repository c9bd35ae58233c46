//! Servers that the visitor may see, those that need attention first.

use askama::Template;

use crate::console::api_client::{ApiClient, ApiError, ApiPath, List};
use crate::console::diagnosis::{ServerState, Severity};
use crate::console::error::{PageResult, show};
use crate::console::fields::QueryFields;
use crate::console::layout::Layout;
use crate::console::list_part::ListPart;

/// Number of servers per page of the API.
const PART: usize = 200;
/// Maximum number of servers to read; further servers are not counted by state.
const MAX_SERVERS: usize = 10_000;

/// States that the list can be filtered by.
const STATES: [(&str, &str); 4] =
    [("bad", "Failing"), ("waiting", "Waiting"), ("good", "Working"), ("off", "Disabled")];

#[derive(Template)]
#[template(path = "servers.html")]
struct ServersPage<'a> {
    layout: &'a Layout,
    search: &'a str,
    filters: Vec<Filter>,
    part: ListPart<ServerState>,
    address: &'a str,
}

struct Filter {
    label: &'static str,
    count: usize,
    address: String,
    is_chosen: bool,
}

/// Returns the servers that the visitor may see, up to a limit, and their total number.
pub(crate) async fn load_servers(
    api: &ApiClient,
    search: &str,
) -> Result<(Vec<ServerState>, usize), ApiError> {
    let mut servers = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = ApiPath::new(&["api", "servers"])?
            .with("limit", &PART.to_string())
            .with("search", search)
            .with("cursor", &cursor);
        let part: List<ServerState> = api.get(&path).await?;
        servers.extend(part.items);
        match part.next_cursor {
            Some(next) if servers.len() < MAX_SERVERS => cursor = next,
            _ => return Ok((servers, part.total)),
        }
    }
}

pub(crate) async fn list_servers(
    layout: Layout,
    api: ApiClient,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let search = fields.get("q");
    let chosen = fields.get("state");
    let (mut servers, _) = load_servers(&api, search).await?;
    let filters = make_filters(&servers, search, chosen)?;
    servers.retain(|server| chosen.is_empty() || server.severity().as_str() == chosen);
    servers.sort_by_key(ServerState::severity);
    let path = ApiPath::new(&["console", "servers"])?.with("q", search).with("state", chosen);
    let part = ListPart::cut(servers, fields.get("page"), &path);
    show(&ServersPage { address: &layout.address, layout: &layout, search, filters, part })
}

fn make_filters(
    servers: &[ServerState],
    search: &str,
    chosen: &str,
) -> Result<Vec<Filter>, ApiError> {
    let page = ApiPath::new(&["console", "servers"])?.with("q", search);
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
    Ok(filters)
}

/// Counts the servers by state, the worst first.
pub(crate) fn count_states(servers: &[ServerState]) -> Vec<(Severity, usize)> {
    let all = [Severity::Bad, Severity::Waiting, Severity::Good, Severity::Off];
    let mut counts = Vec::new();
    for severity in all {
        let of_same = servers.iter().filter(|server| server.severity() == severity);
        counts.push((severity, of_same.count()));
    }
    counts
}
