//! Servers: all that the visitor may see, the ones that need somebody first.

use askama::Template;

use crate::console::api_client::{ApiClient, ApiError, ApiPath, List};
use crate::console::diagnosis::{ServerState, Severity};
use crate::console::error::{PageResult, show};
use crate::console::fields::QueryFields;
use crate::console::layout::Layout;

/// Servers of one page of the API.
const PART: usize = 200;
/// Servers that are looked at: beyond, the page says that there are more.
const MAX_SERVERS: usize = 1000;

/// States that a list can be narrowed to.
const STATES: [(&str, &str); 4] =
    [("bad", "Broken"), ("waiting", "Waiting"), ("good", "Working"), ("off", "Switched off")];

#[derive(Template)]
#[template(path = "servers.html")]
struct ServersPage<'a> {
    layout: &'a Layout,
    search: &'a str,
    filters: Vec<Filter>,
    servers: Vec<ServerState>,
    /// How many there are beyond those that were looked at.
    more: usize,
    /// The address of this very list.
    address: &'a str,
}

/// A choice that narrows the list.
struct Filter {
    label: &'static str,
    count: usize,
    address: String,
    is_chosen: bool,
}

/// Servers that the visitor may see, up to a bound, and how many there are.
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

/// The list.
pub(crate) async fn list_servers(
    layout: Layout,
    api: ApiClient,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let search = fields.get("q");
    let chosen = fields.get("state");
    let (mut servers, total) = load_servers(&api, search).await?;
    let more = total.saturating_sub(servers.len());
    let filters = make_filters(&servers, search, chosen)?;
    servers.retain(|server| chosen.is_empty() || server.severity().as_str() == chosen);
    servers.sort_by_key(ServerState::severity);
    let address = &layout.address;
    show(&ServersPage { layout: &layout, search, filters, servers, more, address })
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

/// How many servers are in which state, the worst first.
pub(crate) fn count_states(servers: &[ServerState]) -> Vec<(Severity, usize)> {
    let all = [Severity::Bad, Severity::Waiting, Severity::Good, Severity::Off];
    let mut counts = Vec::new();
    for severity in all {
        let of_same = servers.iter().filter(|server| server.severity() == severity);
        counts.push((severity, of_same.count()));
    }
    counts
}
