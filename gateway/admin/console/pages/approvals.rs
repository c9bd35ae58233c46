//! Approvals: calls that wait for the visitor, one page each to decide on.

use askama::Template;
use axum::extract::Path;
use axum::http::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::console::api_client::{ApiClient, ApiError, ApiPath, List};
use crate::console::error::{PageResult, show};
use crate::console::layout::Layout;
use crate::console::redirect::redirect;
use crate::console::shown::{show_json, show_text};

/// A call that waits.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Approval {
    pub(crate) id: String,
    pub(crate) caller: String,
    pub(crate) organisation: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) endpoint: String,
    pub(crate) server: String,
    pub(crate) tool: String,
    /// As approvers are shown them.
    arguments: Value,
    pub(crate) digest: String,
    /// Seconds.
    pub(crate) expires_in: u64,
    pub(crate) policies: Vec<Progress>,
}

/// How many approvals a policy has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Progress {
    pub(crate) policy: String,
    pub(crate) approvals: usize,
    pub(crate) needed: usize,
}

#[derive(Template)]
#[template(path = "approvals.html")]
struct ApprovalsPage<'a> {
    layout: &'a Layout,
    approvals: Vec<Approval>,
}

#[derive(Template)]
#[template(path = "approval.html")]
struct ApprovalPage<'a> {
    layout: &'a Layout,
    approval: Approval,
}

impl Approval {
    pub(crate) fn arguments_text(&self) -> String {
        match &self.arguments {
            Value::String(text) => show_text(text),
            other => show_json(other),
        }
    }

    pub(crate) fn minutes_left(&self) -> u64 {
        self.expires_in.div_ceil(60)
    }
}

/// What waits for the visitor, the oldest first.
pub(crate) async fn load_approvals(api: &ApiClient) -> Result<Vec<Approval>, ApiError> {
    let path = ApiPath::new(&["api", "approvals"])?.with("limit", "100");
    let waiting: List<Approval> = api.get(&path).await?;
    Ok(waiting.items)
}

/// The list.
pub(crate) async fn list_approvals(layout: Layout, api: ApiClient) -> PageResult {
    let approvals = load_approvals(&api).await?;
    show(&ApprovalsPage { layout: &layout, approvals })
}

/// One call, to decide on.
pub(crate) async fn show_approval(
    layout: Layout,
    api: ApiClient,
    Path(id): Path<String>,
) -> PageResult {
    let approval = api.get(&ApiPath::new(&["api", "approvals", &id])?).await?;
    show(&ApprovalPage { layout: &layout, approval })
}

/// Approves or denies a call.
pub(crate) async fn answer(
    api: ApiClient,
    Path((id, decision)): Path<(String, String)>,
) -> PageResult {
    let path = ApiPath::new(&["api", "approvals", &id, &decision])?;
    api.change(Method::POST, &path, None, None).await?;
    Ok(redirect("/console/approvals"))
}
