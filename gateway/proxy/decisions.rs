//! Explanations of policy decisions, and policy test cases, on the current policies and catalog. No
//! server is called, and no rate limit is charged.

use std::time::Duration;

use lockgate_authn::Principal;
use lockgate_policy::cases::{Asked, Caller, Case};
use lockgate_policy::{Explanation, Question, Target, TargetKind};
use lockgate_protocol::name::Slug;
use lockgate_protocol::uri;
use lockgate_upstream::{ListKind, UpstreamState};

use crate::catalog::Catalog;
use crate::gateway::Gateway;
use crate::snapshot::Snapshot;

/// A request to explain.
pub struct DecisionQuestion {
    pub kind: TargetKind,
    /// `server/name`, or the name exposed at `/mcp`.
    pub name: String,
    /// Path of the endpoint.
    pub endpoint: String,
    pub subject: Caller,
    /// JSON text.
    pub arguments: Option<String>,
}

/// The state of a called name, regardless of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetState {
    /// It exists; policies may hide it.
    Known,
    /// The organisation has no server of this name.
    UnknownServer,
    /// The server does not offer it.
    UnknownName,
    /// The server is not connected and its lists are not known.
    Unavailable,
    /// Its definition waits for approval.
    Quarantined,
}

/// The queue for the CPU pool is full.
#[derive(Debug, thiserror::Error)]
#[error("too many expensive requests are waiting for evaluation (limits.queued_judgements)")]
pub struct TooManyJudgements {
    pub retry_after: Duration,
}

impl Gateway {
    /// Explains the decision on a request. The time is charged to `asking`. The inner error
    /// describes an invalid question.
    ///
    /// # Errors
    /// [`TooManyJudgements`].
    pub async fn explain(
        &self,
        asking: &Principal,
        question: DecisionQuestion,
    ) -> Result<Result<Explanation, String>, TooManyJudgements> {
        let snapshot = self.snapshot();
        let catalog = self.directory.catalog();
        self.judge_apart(asking, move || explain_one(&snapshot, &catalog, &question)).await
    }

    /// Returns the state of `server/tool`, or of a name at `/mcp`, in an organisation, before
    /// policies.
    #[must_use]
    pub fn find_tool_state(&self, organisation: &str, name: &str) -> TargetState {
        let mut flagged = self.flagged_tools();
        flagged.extend(self.flagged_tools_of(organisation));
        for suspect in &flagged {
            let is_named =
                suspect.exposed == name || format!("{}/{}", suspect.slug, suspect.tool) == name;
            if is_named && suspect.quarantined {
                return TargetState::Quarantined;
            }
        }
        match name.split_once('/') {
            Some((slug, own)) => self.find_own_tool(organisation, slug, own),
            None if self.lists_tool(organisation, name) => TargetState::Known,
            None => TargetState::UnknownName,
        }
    }

    fn find_own_tool(&self, organisation: &str, slug: &str, own: &str) -> TargetState {
        let servers = self.servers_for(organisation);
        let Some(server) = servers.iter().find(|server| server.slug() == slug) else {
            return TargetState::UnknownServer;
        };
        let catalog = server.catalog();
        if catalog.items(ListKind::Tools).iter().any(|item| *item.key == *own) {
            return TargetState::Known;
        }
        let status = server.status();
        match status.state {
            UpstreamState::Connected | UpstreamState::Resting if status.trouble.is_none() => {
                TargetState::UnknownName
            }
            _ => TargetState::Unavailable,
        }
    }

    /// Returns whether a tool has this name at `/mcp`, regardless of policies.
    fn lists_tool(&self, organisation: &str, exposed: &str) -> bool {
        let shared = self.directory.catalog();
        if shared.items(ListKind::Tools).iter().any(|entry| *entry.exposed == *exposed) {
            return true;
        }
        let Some(own) = self.directory.organisation(organisation) else { return false };
        let state = own.state();
        let mut entries = state.catalog.items(ListKind::Tools).iter();
        entries.any(|entry| *entry.exposed == *exposed)
    }

    /// Runs cases and returns each case's name and its deviations from the expected decision.
    ///
    /// # Errors
    /// [`TooManyJudgements`].
    pub async fn try_cases(
        &self,
        asking: &Principal,
        cases: Vec<Case>,
    ) -> Result<Vec<(String, Vec<String>)>, TooManyJudgements> {
        let snapshot = self.snapshot();
        let catalog = self.directory.catalog();
        self.judge_apart(asking, move || try_all(&snapshot, &catalog, cases)).await
    }

    async fn judge_apart<T: Send + 'static>(
        &self,
        asking: &Principal,
        judge: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, TooManyJudgements> {
        let Ok(turn) = self.cpu_pool.turn(asking.caller_id()).await else {
            return Err(TooManyJudgements { retry_after: self.cpu_pool.limit().expected_wait() });
        };
        Ok(turn.run(judge).await)
    }
}

fn explain_one(
    snapshot: &Snapshot,
    catalog: &Catalog,
    question: &DecisionQuestion,
) -> Result<Explanation, String> {
    let asked = find_asked(snapshot, catalog, question.kind, &question.name)?;
    let target = Target {
        kind: question.kind,
        server: &asked.server,
        organisation: None,
        exposed: &asked.exposed,
        own: &asked.own,
        category: asked.category.as_deref(),
        annotations: asked.annotations.unwrap_or_default(),
    };
    let subject = question.subject.subject();
    let policy_question =
        Question { subject: &subject, endpoint: &question.endpoint, target: &target };
    let arguments = question.arguments.as_deref().map(str::as_bytes);
    Ok(snapshot.policy.explain(&policy_question, arguments))
}

fn try_all(snapshot: &Snapshot, catalog: &Catalog, cases: Vec<Case>) -> Vec<(String, Vec<String>)> {
    let mut tried = Vec::new();
    for case in cases {
        let differences = try_one(snapshot, catalog, &case);
        tried.push((case.name, differences));
    }
    tried
}

fn try_one(snapshot: &Snapshot, catalog: &Catalog, case: &Case) -> Vec<String> {
    let decided =
        case.decide(&snapshot.policy, |kind, name, _| find_asked(snapshot, catalog, kind, name));
    match decided {
        Ok(outcome) => case.differences(&outcome),
        Err(words) => vec![words],
    }
}

/// Resolves a name to a catalog entry, or to an assumed item of a server that is not there.
fn find_asked(
    snapshot: &Snapshot,
    catalog: &Catalog,
    kind: TargetKind,
    name: &str,
) -> Result<Asked, String> {
    let list = match kind {
        TargetKind::Tool => ListKind::Tools,
        TargetKind::Prompt | TargetKind::PromptCompletion => ListKind::Prompts,
        TargetKind::Resource => ListKind::Resources,
        TargetKind::ResourceCompletion => ListKind::Templates,
    };
    let written = name.split_once('/').filter(|(server, _)| Slug::is_valid(server));
    for entry in catalog.items(list) {
        let is_written = written == Some((&*entry.slug, &*entry.item.key));
        if is_written || *entry.exposed == *name {
            let target = entry.target(kind);
            return Ok(Asked {
                server: target.server.to_owned(),
                own: target.own.to_owned(),
                exposed: target.exposed.to_owned(),
                category: target.category.map(str::to_owned),
                annotations: Some(target.annotations),
            });
        }
    }
    let Some((server, own)) = written else {
        return Err(format!("`{name:.200}` does not exist; use server/name"));
    };
    let is_uri = matches!(kind, TargetKind::Resource | TargetKind::ResourceCompletion);
    let exposed = match Slug::new(server) {
        Ok(_) if is_uri => uri::expose(server, own).into_owned(),
        Ok(slug) => snapshot.naming.expose([(&slug, own)]).pop().unwrap_or_default(),
        Err(_) => name.to_owned(),
    };
    let asked =
        Asked { server: server.to_owned(), own: own.to_owned(), exposed, ..Asked::default() };
    Ok(asked)
}
