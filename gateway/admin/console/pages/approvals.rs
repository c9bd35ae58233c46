//! Approvals: calls that wait for the visitor's decision, a page for each, and finished approvals.

use super::agents::name_agent;
use super::*;
use crate::api::approvals::{self, WaitingApproval};

#[derive(Template)]
#[template(path = "approvals.html")]
struct ApprovalsPage<'a> {
    visit: &'a Visit,
    /// The oldest first.
    approvals: ListPart<WaitingApproval>,
    /// The newest first.
    ended: Vec<WaitingApproval>,
}

#[derive(Template)]
#[template(path = "approval.html")]
struct ApprovalPage<'a> {
    visit: &'a Visit,
    approval: WaitingApproval,
    /// The name of the agent; empty without one.
    agent_name: String,
}

impl WaitingApproval {
    /// Returns a member that is a text; empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        text_of(&self.0, name)
    }

    /// Returns the items of a member.
    pub(crate) fn list(&self, name: &str) -> &[Value] {
        self.0[name].as_array().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn arguments_text(&self) -> String {
        match &self.0["arguments"] {
            Value::String(text) => show_text(text),
            other => show_json(other),
        }
    }

    pub(crate) fn minutes_left(&self) -> u64 {
        self.0["expires_in"].as_u64().unwrap_or(0).div_ceil(60)
    }

    /// Returns the name of the caller, or `issuer|subject`.
    pub(crate) fn caller_text(&self) -> &str {
        self.0["caller_name"].as_str().unwrap_or(self.get("caller"))
    }

    pub(crate) fn is_over(&self) -> bool {
        !self.get("state").is_empty()
    }

    /// Returns the outcome as a sentence.
    pub(crate) fn ending(&self) -> String {
        let by: Vec<&str> = self.list("by").iter().filter_map(Value::as_str).collect();
        let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(", ")) };
        match self.get("state") {
            "approved" => format!("Approved{by}. The call was made."),
            "denied" => format!("Denied{by}. Nothing was sent to the server."),
            "expired" => "Expired without a decision. Nothing was sent to the server.".to_owned(),
            _ => "The client left before a decision. Nothing was sent to the server.".to_owned(),
        }
    }

    pub(crate) fn severity(&self) -> Severity {
        match self.get("state") {
            "" => Severity::Waiting,
            "approved" => Severity::Good,
            "denied" => Severity::Denied,
            _ => Severity::Off,
        }
    }
}

/// Lists waiting and finished approvals.
pub(crate) async fn list_approvals(visit: Visit) -> PageResult {
    let by: By<User> = visit.by()?;
    let approvals = visit.cut(approvals::list_waiting(&by));
    visit.show(&ApprovalsPage { visit: &visit, approvals, ended: approvals::list_ended(&by) })
}

fn find_ended(visit: &Visit, id: &str) -> Result<Option<WaitingApproval>, Problem> {
    Ok(approvals::list_ended(&*visit.by::<User>()?).into_iter().find(|one| one.get("id") == id))
}

/// Shows a call and asks for a decision.
pub(crate) async fn show_approval(visit: Visit, Path(id): Path<String>) -> PageResult {
    let approval = match approvals::show_approval(visit.by()?, Path(id.clone())).await {
        Ok(Json(waiting)) => waiting,
        Err(problem) if problem.status() == StatusCode::NOT_FOUND => {
            find_ended(&visit, &id)?.ok_or(problem)?
        }
        Err(problem) => return Err(problem.into()),
    };
    let agent_name = name_agent(&visit, approval.get("agent")).await;
    visit.show(&ApprovalPage { visit: &visit, approval, agent_name })
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
            let ended = find_ended(&visit, &id)?;
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
