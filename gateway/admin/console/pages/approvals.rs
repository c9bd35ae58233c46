//! Approvals: calls that wait for the visitor's decision, a page for each, and finished approvals.

use super::agents::name_agent;
use super::*;
use crate::api::approvals::{self, WaitingApproval};

/// A waiting or finished approval.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Approval {
    pub(crate) id: String,
    pub(crate) caller: String,
    caller_name: Option<String>,
    /// The outcome: `approved`, `denied`, `expired` or `left`; empty while the call waits.
    state: String,
    pub(crate) ended_at: String,
    /// The people who decided.
    by: Vec<String>,
    pub(crate) organisation: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) endpoint: String,
    pub(crate) server: String,
    pub(crate) tool: String,
    /// The arguments as shown to approvers.
    arguments: Value,
    pub(crate) digest: String,
    /// Seconds.
    pub(crate) expires_in: u64,
    pub(crate) policies: Vec<Progress>,
}

/// The number of approvals given and required by a policy.
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
    visit: &'a Visit,
    approvals: Vec<Approval>,
    ended: Vec<Approval>,
}

#[derive(Template)]
#[template(path = "approval.html")]
struct ApprovalPage<'a> {
    visit: &'a Visit,
    approval: Approval,
    /// The name of the agent; empty without one.
    agent_name: String,
}

impl Approval {
    fn read(approval: &WaitingApproval) -> Self {
        Self::deserialize(&approval.0).unwrap_or_default()
    }

    pub(crate) fn arguments_text(&self) -> String {
        match &self.arguments {
            Value::String(text) => show_text(text),
            other => show_json(other),
        }
    }

    pub(crate) fn minutes_left(&self) -> u64 {
        self.expires_in.div_ceil(60)
    }

    /// Returns the name of the caller, or `issuer|subject`.
    pub(crate) fn caller_text(&self) -> &str {
        self.caller_name.as_deref().unwrap_or(&self.caller)
    }

    pub(crate) fn is_over(&self) -> bool {
        !self.state.is_empty()
    }

    /// Returns the outcome as a sentence.
    pub(crate) fn ending(&self) -> String {
        let by =
            if self.by.is_empty() { String::new() } else { format!(" by {}", self.by.join(", ")) };
        match self.state.as_str() {
            "approved" => format!("Approved{by}. The call was made."),
            "denied" => format!("Denied{by}. Nothing was sent to the server."),
            "expired" => "Expired without a decision. Nothing was sent to the server.".to_owned(),
            _ => "The client left before a decision. Nothing was sent to the server.".to_owned(),
        }
    }

    pub(crate) fn severity(&self) -> Severity {
        match self.state.as_str() {
            "" => Severity::Waiting,
            "approved" => Severity::Good,
            "denied" => Severity::Denied,
            _ => Severity::Off,
        }
    }
}

/// Returns the calls that wait for the visitor, the oldest first.
pub(crate) async fn load_approvals(visit: &Visit) -> Result<Vec<Approval>, Problem> {
    let waiting = approvals::list_approvals(visit.by()?, query(&[("limit", "100")])?).await?;
    Ok(waiting.0.items.iter().map(Approval::read).collect())
}

/// Lists waiting and finished approvals.
pub(crate) async fn list_approvals(visit: Visit) -> PageResult {
    let approvals = load_approvals(&visit).await?;
    let ended = load_ended(&visit).await?;
    show(&ApprovalsPage { visit: &visit, approvals, ended })
}

/// Returns finished approvals, the newest first.
async fn load_ended(visit: &Visit) -> Result<Vec<Approval>, Problem> {
    let ended = approvals::list_ended_approvals(visit.by()?, query(&[("limit", "100")])?).await?;
    Ok(ended.0.items.iter().map(Approval::read).collect())
}

async fn find_ended(visit: &Visit, id: &str) -> Result<Option<Approval>, Problem> {
    Ok(load_ended(visit).await?.into_iter().find(|one| one.id == id))
}

/// Shows a call and asks for a decision.
pub(crate) async fn show_approval(visit: Visit, Path(id): Path<String>) -> PageResult {
    let approval = match approvals::show_approval(visit.by()?, Path(id.clone())).await {
        Ok(Json(waiting)) => Approval::read(&waiting),
        Err(problem) if problem.status() == StatusCode::NOT_FOUND => {
            find_ended(&visit, &id).await?.ok_or(problem)?
        }
        Err(problem) => return Err(problem.into()),
    };
    let agent_name = match &approval.agent {
        Some(agent) => name_agent(&visit, agent).await,
        None => String::new(),
    };
    show(&ApprovalPage { visit: &visit, approval, agent_name })
}

/// Approves or denies a call.
pub(crate) async fn answer(
    visit: Visit,
    Path((id, decision)): Path<(String, String)>,
) -> PageResult {
    let answered = match decision.as_str() {
        "approve" => approvals::approve_call(visit.by()?, Path(id.clone())).await,
        "deny" => approvals::deny_call(visit.by()?, Path(id.clone())).await,
        _ => return Err(PageError::not_found("A call is approved or denied, and nothing else.")),
    };
    let (severity, text) = match answered {
        Ok(Json(answered)) => describe_answer(&answered),
        Err(problem) if problem.status() == StatusCode::NOT_FOUND => {
            let ended = find_ended(&visit, &id).await?;
            let how = ended.map_or(String::new(), |one| one.ending());
            (Severity::Waiting, format!("Your decision came too late. {how}"))
        }
        Err(problem) if problem.is_of_form() => (Severity::Bad, sentence(problem.detail())),
        Err(problem) => return Err(problem.into()),
    };
    visit.redirect_with(PagePath::new(&["approvals"]), severity, text)
}

/// Describes the effect of a decision.
fn describe_answer(answered: &Value) -> (Severity, String) {
    match answered["state"].as_str() {
        Some("approved") => (Severity::Good, "Approved. The call is being made.".to_owned()),
        Some("waiting") => {
            let text = "Your approval is counted. The call still waits for other approvers.";
            (Severity::Waiting, text.to_owned())
        }
        _ => (Severity::Denied, "Denied. Nothing was sent to the server.".to_owned()),
    }
}
