//! Explanations of policy decisions, and policy test cases, on the current policies and catalog. No
//! server is called, and no rate limit is charged.

use std::sync::Arc;
use std::time::Duration;

use lockgate_authn::{DEFAULT_ORGANISATION, Principal};
use lockgate_policy::cases::{Asked, Caller, Case};
use lockgate_policy::{Explanation, Question, TargetKind};
use lockgate_protocol::name::Slug;
use lockgate_protocol::uri;
use lockgate_upstream::{ListKind, Upstream, UpstreamState};

use crate::catalog::{Catalog, Groups};
use crate::directory::{DirectoryState, select};
use crate::gateway::Gateway;
use crate::snapshot::Snapshot;
use crate::transport::Endpoint;

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

lockgate_text::words! {
    /// The state of a called name at an endpoint, regardless of policies.
    pub enum TargetState {
        /// It exists; policies may hide it.
        Known = "known",
        /// The endpoint does not exist for the caller.
        UnknownEndpoint = "unknown-endpoint",
        /// The endpoint does not offer the server: it is not assigned to the agent.
        Unassigned = "unassigned",
        /// The tool is switched off for the agent.
        SwitchedOff = "switched-off",
        /// The credential lacks scopes that the tool requires.
        MissingScope = "missing-scope",
        /// The organisation has no server of this name.
        UnknownServer = "unknown-server",
        /// The server does not offer it.
        UnknownName = "unknown-tool",
        /// The server is not connected and its lists are not known.
        Unavailable = "unavailable",
        /// Its definition waits for approval.
        Quarantined = "quarantined",
    }
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
        let organisation = question.subject.organisation.as_deref();
        let own = self.directory.organisation(organisation.unwrap_or(DEFAULT_ORGANISATION));
        let own = own.map(|own| (Arc::clone(&own.name), Arc::clone(&own.state().catalog)));
        self.judge_apart(asking, move || explain_one(&snapshot, &catalog, own.as_ref(), &question))
            .await
    }

    /// Returns the state of `server/tool`, or of a name at `/mcp`, for a caller at the endpoint
    /// with this path, before policies.
    pub fn find_tool_state(&self, caller: &Principal, path: &str, name: &str) -> TargetState {
        let snapshot = self.snapshot();
        let own = self.directory.organisation(caller.organisation());
        let state = own.map(|own| own.state());
        let endpoint = Endpoint::parse(path).filter(|endpoint| endpoint.is_open_to(caller));
        let Some(endpoint) = endpoint else { return TargetState::UnknownEndpoint };
        let Some(selection) = select(&endpoint, state.as_deref(), &snapshot, caller) else {
            return TargetState::UnknownEndpoint;
        };
        if self.is_quarantined(caller.organisation(), name) {
            return TargetState::Quarantined;
        }
        let (server, tool) = match self.find_named_tool(caller, state.as_deref(), name) {
            Ok(found) => found,
            Err(unknown) => return unknown,
        };
        if !selection.includes(&*server) {
            return TargetState::Unassigned;
        }
        if let Some(hidden) = selection.hidden(&*server)
            && hidden.contains(&*tool)
        {
            return TargetState::SwitchedOff;
        }
        let at = endpoint.resource();
        match snapshot.authenticator.may_call(caller, server.slug(), &tool, at) {
            Ok(()) => TargetState::Known,
            Err(_) => TargetState::MissingScope,
        }
    }

    /// Returns why tools of the operator's grouped servers stay apart.
    pub fn explain_groups(&self) -> Vec<String> {
        let snapshot = self.snapshot();
        let catalog = self.directory.catalog();
        let tools = catalog.items(ListKind::Tools);
        Groups::find(tools, &snapshot.config.groups, snapshot.naming).1
    }

    /// Returns whether the tool with this name, or `server/tool`, waits for approval.
    fn is_quarantined(&self, organisation: &str, name: &str) -> bool {
        let mut flagged = self.flagged_tools(None);
        flagged.extend(self.flagged_tools(Some(organisation)));
        flagged.iter().any(|tool| {
            let is_named = tool.exposed == name || format!("{}/{}", tool.slug, tool.tool) == name;
            is_named && tool.quarantined
        })
    }

    /// Returns the server and the own name of a tool, regardless of policies; the state of a name
    /// without a tool is an error.
    fn find_named_tool(
        &self,
        caller: &Principal,
        state: Option<&DirectoryState>,
        name: &str,
    ) -> Result<(Arc<dyn Upstream>, Arc<str>), TargetState> {
        let Some((slug, own)) = name.split_once('/') else {
            return find_listed(&self.directory.catalog(), state, name)
                .ok_or(TargetState::UnknownName);
        };
        let servers = self.servers_for(caller.organisation());
        let server = servers.into_iter().find(|server| server.slug() == slug);
        let server = server.ok_or(TargetState::UnknownServer)?;
        if server.catalog().items(ListKind::Tools).iter().any(|item| *item.key == *own) {
            return Ok((server, own.into()));
        }
        let status = server.status();
        Err(match status.state {
            UpstreamState::Connected | UpstreamState::Resting if status.trouble.is_none() => {
                TargetState::UnknownName
            }
            _ => TargetState::Unavailable,
        })
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
    own: Option<&(Arc<str>, Arc<Catalog>)>,
    question: &DecisionQuestion,
) -> Result<Explanation, String> {
    let DecisionQuestion { kind, name, .. } = question;
    let kind = *kind;
    let found = own.and_then(|(_, own)| find_entry(own, kind, name));
    let (organisation, asked) = match (find_entry(catalog, kind, name), found) {
        (None, Some(asked)) => (own.map(|(organisation, _)| &**organisation), asked),
        _ => (None, find_asked(snapshot, catalog, kind, name)?),
    };
    let target = asked.target(kind, organisation);
    let subject = question.subject.subject();
    let policy_question =
        Question { subject: &subject, endpoint: &question.endpoint, target: &target };
    let arguments = question.arguments.as_deref().map(str::as_bytes);
    Ok(snapshot.policy.explain(&policy_question, arguments))
}

fn try_all(snapshot: &Snapshot, catalog: &Catalog, cases: Vec<Case>) -> Vec<(String, Vec<String>)> {
    let tried = cases.into_iter().map(|case| {
        let decided = case
            .decide(&snapshot.policy, |kind, name, _| find_asked(snapshot, catalog, kind, name));
        let differences =
            decided.map_or_else(|words| vec![words], |outcome| case.differences(&outcome));
        (case.name, differences)
    });
    tried.collect()
}

/// Returns the server and the own name of the tool with this name at `/mcp`.
fn find_listed(
    shared: &Catalog,
    state: Option<&DirectoryState>,
    exposed: &str,
) -> Option<(Arc<dyn Upstream>, Arc<str>)> {
    let own = state.map_or(&[][..], |state| state.catalog.items(ListKind::Tools));
    let mut entries = shared.items(ListKind::Tools).iter().chain(own);
    let entry = entries.find(|entry| *entry.exposed == *exposed)?;
    Some((Arc::clone(&entry.server), Arc::clone(&entry.item.key)))
}

/// Resolves a name, or `server/name`, to a catalog entry.
fn find_entry(catalog: &Catalog, kind: TargetKind, name: &str) -> Option<Asked> {
    let list = match kind {
        TargetKind::Tool => ListKind::Tools,
        TargetKind::Prompt | TargetKind::PromptCompletion => ListKind::Prompts,
        TargetKind::Resource => ListKind::Resources,
        TargetKind::ResourceCompletion => ListKind::Templates,
    };
    let written = split_name(name);
    let entry = catalog.items(list).iter().find(|entry| {
        written == Some((&*entry.slug, &*entry.item.key)) || *entry.exposed == *name
    })?;
    let target = entry.target(kind);
    Some(Asked {
        server: target.server.to_owned(),
        own: target.own.to_owned(),
        exposed: target.exposed.to_owned(),
        category: target.category.map(str::to_owned),
        annotations: Some(target.annotations),
    })
}

fn split_name(name: &str) -> Option<(&str, &str)> {
    name.split_once('/').filter(|(server, _)| Slug::is_valid(server))
}

/// Resolves a name to a catalog entry, or to an assumed item of a server that is not there.
fn find_asked(
    snapshot: &Snapshot,
    catalog: &Catalog,
    kind: TargetKind,
    name: &str,
) -> Result<Asked, String> {
    if let Some(asked) = find_entry(catalog, kind, name) {
        return Ok(asked);
    }
    let Some((server, own)) = split_name(name) else {
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
