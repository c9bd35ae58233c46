//! Activity: the latest calls from the audit trail, updated live.

use std::time::SystemTime;

use askama::Template;
use axum::http::StatusCode;
use lockgate_text::date;

use super::audit::{AuditRecord, search_records, view_records};
use crate::console::api::Api;
use crate::console::error::{PageResult, show};
use crate::console::fields::QueryFields;
use crate::console::layout::Layout;

/// Number of calls shown.
const SHOWN: &str = "50";

#[derive(Template)]
#[template(path = "activity.html")]
struct ActivityPage<'a> {
    layout: &'a Layout,
    calls: Vec<AuditRecord>,
    server: &'a str,
    decision: &'a str,
    is_live: bool,
    /// The time at which the page was rendered.
    now: String,
    missing: &'a str,
    address: &'a str,
    /// The address of the same page, paused or live.
    other: String,
}

pub(crate) async fn show_activity(
    layout: Layout,
    api: Api,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let server = fields.get("server");
    let decision = fields.get("decision");
    let is_live = fields.get("live") != "no";
    let filters =
        [("limit", SHOWN), ("kind", "decision"), ("server", server), ("decision", decision)];
    let mut page = ActivityPage {
        layout: &layout,
        calls: Vec::new(),
        server,
        decision,
        is_live,
        now: write_now(),
        missing: "",
        address: &layout.address,
        other: write_other(server, decision, is_live),
    };
    match search_records(&api, &filters).await {
        Ok(found) => page.calls = view_records(found.items),
        Err(problem) if problem.status() == StatusCode::CONFLICT => {
            page.missing = "Activity is read from the audit trail, which must be in a file.";
        }
        Err(problem) => return Err(problem.into()),
    }
    show(&page)
}

fn write_now() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    date::of_seconds(i64::try_from(now.as_secs()).unwrap_or(0))
}

fn write_other(server: &str, decision: &str, is_live: bool) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in
        [("server", server), ("decision", decision), ("live", if is_live { "no" } else { "" })]
    {
        if !value.is_empty() {
            query.append_pair(name, value);
        }
    }
    format!("/console/activity?{}", query.finish())
}
