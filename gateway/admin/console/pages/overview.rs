//! Overview: problems that need attention, the state of the servers, and first steps for new users.

use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream::{empty, once, select};
use lockgate_text::date;

use super::pins::find_pins;
use super::servers::{ServerRow, load_unserved, make_rows};
use super::usage::load_usage;
use super::*;
use crate::api::approvals::{WaitingApproval, list_waiting};
use crate::api::events;
use crate::api::keys::{ApiKey, list_visible};
use crate::api::pins::Pin;
use crate::api::servers::{self, Figures, Server, show_figures};
use crate::console::sessions::Visitor;
use crate::console::sign_in::SIGNED_OUT;

/// Maximum number of problems of one kind that are listed.
const MAX_SHOWN: usize = 16;
/// Time before its expiry at which a key is listed.
const KEY_NOTICE: Duration = Duration::from_secs(14 * 86_400);

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage<'a> {
    visit: &'a Visit,
    counts: [(Severity, usize); 4],
    approvals: Vec<WaitingApproval>,
    /// Failing servers that the visitor can repair.
    failing: Vec<ServerRow>,
    /// The number of further failing servers, and of those that only an operator can repair.
    more: usize,
    shared: usize,
    /// The number of tools to review, and the first of them.
    pins: (usize, Option<Pin>),
    /// Keys that expire soon.
    keys: Vec<ApiKey>,
    server_count: usize,
    tool_count: usize,
    now: Figures,
    /// Empty before the first call.
    plots: Vec<Plot>,
    /// The last 24 hours, for administrators; without calls or states, nothing is shown.
    usage: Option<Usage>,
    /// The progress of adding a server, connecting a client and creating an agent: `done`, `to do`,
    /// or empty if only operators know. `None` once all are done.
    steps: Option<[&'static str; 3]>,
    snippets: Vec<Snippet>,
}

impl OverviewPage<'_> {
    fn is_calm(&self) -> bool {
        let is_working = self.failing.is_empty() && self.shared == 0;
        is_working && self.approvals.is_empty() && self.pins.0 == 0 && self.keys.is_empty()
    }
}

impl Figures {
    /// Returns the calls and failures of the current and the previous step.
    fn last_minute(&self) -> (u64, u64) {
        let last = self.recent.iter().rev().take(2);
        last.fold((0, 0), |(calls, failed), step| (calls + step.calls, failed + step.failed))
    }
}

pub(crate) async fn show_overview(visit: Visit) -> PageResult {
    let servers = servers::list_visible(&visit.by()?, "");
    let rows = make_rows(&servers, &load_unserved(&visit)?);
    let severities = [Severity::Bad, Severity::Waiting, Severity::Good, Severity::Off];
    let mut counts = severities.map(|severity| (severity, 0));
    for (severity, count) in &mut counts {
        *count = rows.iter().filter(|row| row.severity == *severity).count();
    }
    let server_count = rows.len();
    let tool_count = rows.iter().map(|row| row.tools).sum();
    let failing = rows.into_iter().filter(ServerRow::needs_attention);
    let (mut failing, shared): (Vec<_>, Vec<_>) =
        failing.partition(|row| visit.is_operator() || !row.is_shared);
    failing.sort_by_key(|row| row.severity);
    let more = failing.len().saturating_sub(MAX_SHOWN);
    failing.truncate(MAX_SHOWN);
    let mut pins = (0, None);
    let mut keys = Vec::new();
    let mut usage = None;
    if visit.is_admin() {
        pins = find_pins(&visit, "").await?;
        keys = list_visible(&visit.by()?);
        let soon = date::of_time(SystemTime::now() + KEY_NOTICE);
        keys.retain(|key| key.state == "active" && key.ends_before(&soon));
        keys.truncate(MAX_SHOWN);
        // Partial updates leave the day as it is.
        if !visit.is_script() {
            usage = load_usage(&visit, &[]).await.ok();
        }
    }
    let Json(now) = show_figures(visit.by()?).await;
    let agents = list_agents(visit.by()?, query(&[("limit", "1")])?).await;
    let has_agent = agents.is_ok_and(|Json(agents)| agents.total > 0);
    visit.show(&OverviewPage {
        approvals: list_waiting(&*visit.by::<User>()?),
        snippets: visit.make_snippets("lockgate", &visit.me.endpoint, None),
        plots: plot_calls(&now.recent),
        steps: list_steps(&visit, &servers, has_agent),
        shared: shared.len(),
        visit: &visit,
        counts,
        failing,
        more,
        pins,
        keys,
        server_count,
        tool_count,
        now,
        usage,
    })
}

/// Returns the progress of the first steps; `None` once all are done.
fn list_steps(visit: &Visit, servers: &[Server], has_agent: bool) -> Option<[&'static str; 3]> {
    let mut others = servers.iter().filter(|one| one.transport != Some("builtin"));
    let has_server = others.any(|one| one.state == "connected" || one.state == "resting");
    let has_calls = servers.iter().any(|one| one.metrics.as_ref().is_some_and(|m| m.calls > 0));
    // The calls of shared servers are counted for operators only.
    let is_shared = servers.iter().all(|one| one.organization_id.is_none());
    let is_unknown = has_server && is_shared && !visit.is_operator();
    if has_server && (has_calls || is_unknown) && has_agent {
        return None;
    }
    let [server, calls, agent] =
        [has_server, has_calls, has_agent].map(|is_done| if is_done { "done" } else { "to do" });
    Some([server, if is_unknown && !has_calls { "" } else { calls }, agent])
}

// Live updates of open pages, from the events of the API. On an event, a page requests its own
// content again. The stream ends with the visitor's session, with an event that reloads the page.

/// Reloads the page of a running call.
const CALL_CHANGED: Bytes = Bytes::from_static(b"event: called\ndata: {}\n\n");

/// Streams the events that the visitor may receive, and with `call` changes of that call.
pub(crate) async fn follow_events(
    Extension(visitor): Extension<Visitor>,
    Extension(visit): Extension<Visit>,
) -> Response {
    let changes = match visit.find_kept(visit.query.get("call")) {
        Some(Kept::Call(call)) => call.changes().left_stream(),
        _ => empty().right_stream(),
    };
    let (head, events) = open_events(&visit).await.into_response().into_parts();
    if head.status != StatusCode::OK {
        return Response::from_parts(head, events);
    }
    let sessions = Arc::clone(&visit.console.sessions);
    let leaver = visitor.clone();
    let end = Box::pin(async move { sessions.wait_for_end(&leaver).await });
    let sessions = Arc::clone(&visit.console.sessions);
    let last = once(async move { sessions.has_ended(&visitor).then_some(SIGNED_OUT) });
    let last = last.filter_map(|words| async move { words.map(|words| Ok(Bytes::from(words))) });
    // The stream ends with the events of the API.
    let events = events.into_data_stream().map(Some).chain(once(async { None }));
    let changes = changes.map(|()| Some(Ok(CALL_CHANGED)));
    let events = select(events, changes).take_while(|event| ready(event.is_some()));
    let events = events.filter_map(ready).take_until(end);
    Response::from_parts(head, Body::from_stream(events.chain(last)))
}

async fn open_events(visit: &Visit) -> Result<impl IntoResponse, Problem> {
    let names = ["decisions", "position"];
    let position = query(&names.map(|name| (name, visit.query.get(name))))?;
    events::follow_events(visit.by()?, visit.headers.clone(), position).await
}
