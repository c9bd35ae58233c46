//! Overview: how the servers are, and what needs somebody now.

use std::time::{Duration, SystemTime};

use askama::Template;
use lockgate_text::date;
use serde::Deserialize;

use super::approvals::load_approvals;
use super::keys::{ApiKey, load_keys};
use super::pins::find_pins;
use super::servers::{count_states, load_servers};
use crate::console::api_client::{ApiClient, ApiError, ApiPath, sentence};
use crate::console::diagnosis::{RecentStep, ServerState, Severity, find_cause};
use crate::console::error::{PageResult, show};
use crate::console::layout::Layout;
use crate::console::plot::{Plot, plot_calls};

/// Matters of one kind that are shown one by one.
const MAX_SHOWN: usize = 8;
/// How long before its end a key is spoken of.
const KEY_NOTICE: Duration = Duration::from_secs(14 * 86_400);

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage<'a> {
    layout: &'a Layout,
    counts: Vec<(Severity, usize)>,
    matters: Vec<Matter>,
    server_count: usize,
    tool_count: usize,
    address: &'a str,
    now: Figures,
    /// Empty before the first call.
    plots: Vec<Plot>,
}

/// What became of calls of late, where the visitor may see it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Figures {
    servers: usize,
    recent: Vec<RecentStep>,
}

impl Figures {
    /// Calls and failed ones of the step that goes on and the one before it.
    fn last_minute(&self) -> (u64, u64) {
        let mut calls = 0;
        let mut failed = 0;
        for step in self.recent.iter().rev().take(2) {
            calls += step.calls;
            failed += step.failed;
        }
        (calls, failed)
    }
}

/// Something that needs somebody.
struct Matter {
    severity: Severity,
    title: String,
    detail: String,
    address: String,
    action: &'static str,
}

/// The page.
pub(crate) async fn show_overview(layout: Layout, api: ApiClient) -> PageResult {
    let (servers, server_count) = load_servers(&api, "").await?;
    let mut matters = Vec::new();
    add_servers(&mut matters, &servers)?;
    add_approvals(&mut matters, &api).await?;
    if layout.is_admin() {
        add_changed(&mut matters, &api).await?;
        add_keys(&mut matters, &load_keys(&api).await?.items);
    }
    let now: Figures = api.get(&ApiPath::new(&["api", "figures"])?).await?;
    show(&OverviewPage {
        plots: plot_calls(&now.recent),
        now,
        counts: count_states(&servers),
        matters,
        server_count,
        tool_count: servers.iter().map(|server| server.capabilities.tools).sum(),
        address: &layout.address,
        layout: &layout,
    })
}

fn add_servers(matters: &mut Vec<Matter>, servers: &[ServerState]) -> Result<(), ApiError> {
    let mut broken: Vec<&ServerState> = Vec::new();
    for server in servers {
        let is_starting = server.state == "pending" && server.stage.is_none();
        if server.severity() <= Severity::Waiting && !is_starting {
            broken.push(server);
        }
    }
    broken.sort_by_key(|server| server.severity());
    for server in broken.iter().take(MAX_SHOWN) {
        matters.push(Matter {
            severity: server.severity(),
            title: server.headline(),
            detail: sentence(find_cause(&server.reason)),
            address: ApiPath::new(&["console", "servers", &server.name])?.as_str().to_owned(),
            action: "See what to do",
        });
    }
    if broken.len() > MAX_SHOWN {
        matters.push(Matter {
            severity: Severity::Bad,
            title: format!("{} more servers need somebody.", broken.len() - MAX_SHOWN),
            detail: String::new(),
            address: "/console/servers?state=bad".to_owned(),
            action: "See them all",
        });
    }
    Ok(())
}

async fn add_approvals(matters: &mut Vec<Matter>, api: &ApiClient) -> Result<(), ApiError> {
    let waiting = load_approvals(api).await?;
    if let Some(first) = waiting.first() {
        let count = waiting.len();
        let noun = if count == 1 { "call waits" } else { "calls wait" };
        matters.push(Matter {
            severity: Severity::Waiting,
            title: format!("{count} {noun} for your approval."),
            detail: format!("The oldest is {} at {}.", first.tool, first.server),
            address: "/console/approvals".to_owned(),
            action: "Decide",
        });
    }
    Ok(())
}

async fn add_changed(matters: &mut Vec<Matter>, api: &ApiClient) -> Result<(), ApiError> {
    let (total, first) = find_pins(api, "").await?;
    if let Some(first) = first {
        let noun = if total == 1 { "tool" } else { "tools" };
        matters.push(Matter {
            severity: Severity::Waiting,
            title: format!("{total} {noun} should be looked at."),
            detail: format!("{} {}. {}", first.name, first.standing_text(), first.effect()),
            address: "/console/pins".to_owned(),
            action: "Compare and approve",
        });
    }
    Ok(())
}

fn add_keys(matters: &mut Vec<Matter>, keys: &[ApiKey]) {
    let soon = SystemTime::now() + KEY_NOTICE;
    let soon = soon.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let soon = date::of_seconds(i64::try_from(soon).unwrap_or(0));
    let ending = keys.iter().filter(|key| key.state == "active" && key.ends_before(&soon));
    for key in ending.take(MAX_SHOWN) {
        matters.push(Matter {
            severity: Severity::Waiting,
            title: format!("The key {} expires soon.", key.name),
            detail: format!("On {}.", key.expires_at.as_deref().unwrap_or("")),
            address: "/console/keys".to_owned(),
            action: "See the keys",
        });
    }
}
