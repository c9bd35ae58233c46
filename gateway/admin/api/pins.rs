//! Tools that need a review: not approved, changed since, or with hidden text; their differences,
//! and their approval or rejection, which applies only to the reviewed definition. Operators decide
//! on tools of the operator's servers, and administrators on those of their organisation.

use lockgate_policy::pin::{Standing, name};
use lockgate_proxy::{FlaggedTool, PinChange};
use tokio::task::spawn_blocking;

use super::change::wait_until;
use super::figures::rank_number;
use super::operation::*;
use super::state::FileChangeError;

/// Maximum number of tools per approval.
const MAX_TOOLS: usize = 200;

types! {
/// A tool that needs review.
output pub(crate) struct Pin {
    /// `server/tool`.
    pub(crate) name: String,
    pub(crate) server: String,
    /// The organisation of the server; absent for servers of the configuration.
    pub(crate) organization_id: Option<String>,
    pub(crate) tool: String,
    /// Its status in the lock file, if there is one.
    pub(crate) standing: Option<&'static str>,
    pub(crate) fingerprint: String,
    /// Neither listed nor callable.
    pub(crate) quarantined: bool,
    pub(crate) findings: Vec<String>,
}
}

impl Pin {
    fn new(flagged_tool: FlaggedTool) -> Self {
        let findings = flagged_tool.findings.iter().map(ToString::to_string).collect();
        let FlaggedTool { slug, organisation, tool, standing, fingerprint, .. } = flagged_tool;
        Self {
            name: format!("{slug}/{tool}"),
            server: slug,
            organization_id: organisation.map(|organisation| organisation.to_string()),
            tool,
            standing: standing.map(Standing::as_str),
            fingerprint,
            quarantined: flagged_tool.quarantined,
            findings,
        }
    }
}

types! {
filter pub(crate) struct PinsQuery {
    /// Part of the name.
    search: Option<String> max 256,
    /// Only tools of this server.
    server: Option<String> max 256,
    /// Tools that were rejected, instead of those that need a review.
    rejected: Option<bool>,
    /// Default `name`.
    sort: Option<PinSort>,
}

/// The sort key of tools that need a review.
choice pub(crate) enum PinSort {
    Name,
    /// Those with the most findings first.
    Findings,
}
}

impl PinsQuery {
    fn admits(&self, flagged_tool: &FlaggedTool) -> bool {
        let is_rejected = flagged_tool.standing == Some(Standing::Rejected);
        let is_of_server = self.server.as_ref().is_none_or(|server| *server == flagged_tool.slug);
        is_of_server && is_rejected == self.rejected.unwrap_or(false)
    }
}

impl Paged<PinsQuery> {
    fn cut<T>(self, all: Vec<T>, pin: impl Fn(&T) -> &Pin) -> Result<Json<Page<T>>> {
        let is_by_findings = matches!(self.filter.sort, Some(PinSort::Findings));
        let page = self.part.cut_sorted(
            self.filter.search.as_deref(),
            all,
            |one| &pin(one).name,
            is_by_findings,
            |one| is_by_findings.then(|| rank_number(pin(one).findings.len() as u64)),
        )?;
        Ok(Json(page))
    }
}

types! {
/// The difference between a tool and its approved definition.
output pub(crate) struct PinDifference {
    #[serde(flatten)]
    pub(crate) pin: Pin,
    /// The differences, as text.
    pub(crate) changes: Vec<String>,
    /// The approved definition, unless the tool is new.
    #[cfg_attr(test, schema(value_type = Option<Object>))]
    pub(crate) before: Option<Value>,
    /// The current definition.
    #[cfg_attr(test, schema(value_type = Object))]
    pub(crate) after: Value,
}

/// Tools to approve or to reject.
input pub(crate) struct PinApproval {
    #[cfg_attr(test, schema(min_items = 1, max_items = 200))]
    pub(crate) tools: Vec<ToolToApprove>,
}

/// A tool to approve or to reject, with the reviewed definition.
input pub(crate) struct ToolToApprove {
    /// `server/tool`.
    pub(crate) name: String,
    /// The fingerprint of the reviewed definition. Rejected if the definition has changed since.
    pub(crate) fingerprint: String,
}

/// The decided tools.
output pub(crate) struct DecidedTools {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    approved: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rejected: Vec<String>,
    /// Set if this was a dry run.
    dry_run: bool,
}
}

pub(crate) async fn list_pins(
    by: By<Admin>,
    Query(query): Query<Paged<PinsQuery>>,
) -> Result<Json<Page<Pin>>> {
    let gateway = &by.state.gateway;
    let mut all = Vec::new();
    if by.caller.role == Role::Operator {
        all.extend(gateway.flagged_tools(None));
    }
    all.extend(gateway.flagged_tools(Some(by.caller.organisation())));
    all.retain(|flagged_tool| query.filter.admits(flagged_tool));
    query.cut(all.into_iter().map(Pin::new).collect(), |pin| pin)
}

pub(crate) async fn list_pin_differences(
    by: By<Admin>,
    Query(query): Query<Paged<PinsQuery>>,
) -> Result<Json<Page<PinDifference>>> {
    let mut all = list_changes(&by)?;
    all.retain(|change| query.filter.admits(&change.flagged_tool));
    let all = all.into_iter().map(|PinChange { flagged_tool, changes, before, pin, .. }| {
        PinDifference { pin: Pin::new(flagged_tool), changes, before, after: pin.definition }
    });
    query.cut(all.collect(), |difference| &difference.pin)
}

pub(crate) async fn approve_pins(
    by: By<Admin>,
    Body(body): Body<PinApproval>,
) -> Result<Json<DecidedTools>> {
    decide(by, body, Standing::Approved).await
}

pub(crate) async fn reject_pins(
    by: By<Admin>,
    Body(body): Body<PinApproval>,
) -> Result<Json<DecidedTools>> {
    decide(by, body, Standing::Rejected).await
}

/// Approves or rejects tools.
async fn decide(
    by: By<Admin>,
    body: PinApproval,
    decision: Standing,
) -> Result<Json<DecidedTools>> {
    let chosen = choose(&list_changes(&by)?, &body.tools)?;
    let is_approved = decision == Standing::Approved;
    let names = body.tools.into_iter().map(|tool| tool.name).collect();
    let (approved, rejected) = if is_approved { (names, Vec::new()) } else { (Vec::new(), names) };
    let decided = DecidedTools { approved, rejected, dry_run: by.options.dry_run };
    if decided.dry_run {
        return Ok(Json(decided));
    }
    let record = describe_decision(&by.caller, &chosen, is_approved);
    let operations = Arc::clone(&by.state.operations);
    let pins = chosen.clone();
    by.record(async move {
        let written = spawn_blocking(move || operations.decide_pins(&pins, is_approved)).await;
        match written {
            Ok(Ok(())) => Ok(((), Some(record))),
            Ok(Err(error)) => Err(describe_error(&error)),
            Err(_) => Err(unwritable()),
        }
    })
    .await?;
    wait_until(|| !chosen.iter().any(|one| still_waits(&by.state, one, decision))).await;
    Ok(Json(decided))
}

fn describe_error(error: &FileChangeError) -> Problem {
    if *error == FileChangeError::Full {
        let detail = "the lock file is full; ask the operator to make room";
        return Problem::new(StatusCode::CONFLICT, "TOO_MANY", detail);
    }
    tracing::warn!(?error, "the lock file was not changed");
    unwritable()
}

fn unwritable() -> Problem {
    let detail = "the lock file cannot be changed; see the gateway's log";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "PINS_UNAVAILABLE", detail)
}

/// Returns new and changed tools that this caller may approve.
fn list_changes(by: &Context) -> Result<Vec<PinChange>> {
    let gateway = &by.state.gateway;
    let own = gateway.pin_changes(Some(by.caller.organisation()));
    let mut all = own.ok_or_else(|| {
        let detail = "pins are disabled: `pins.file` is not configured";
        Problem::new(StatusCode::CONFLICT, "NOTHING_PINNED", detail)
    })?;
    if by.caller.role == Role::Operator {
        all.extend(gateway.pin_changes(None).unwrap_or_default());
    }
    Ok(all)
}

/// Returns the named tools, if their definitions are those that were reviewed.
fn choose(all: &[PinChange], wanted: &[ToolToApprove]) -> Result<Vec<PinChange>> {
    if wanted.is_empty() || wanted.len() > MAX_TOOLS {
        return Err(Problem::in_body("/tools", "must have 1 to 200 items"));
    }
    let chosen = wanted.iter().enumerate().map(|(at, tool)| {
        let mut named = all.iter().filter(|one| tool.name == exposed_name(one)).peekable();
        let is_there = named.peek().is_some();
        let found = named.find(|one| one.flagged_tool.fingerprint == tool.fingerprint);
        found.cloned().ok_or_else(|| {
            if is_there {
                let detail = "the definition of the tool has changed: review it again";
                let problem = Problem::new(StatusCode::CONFLICT, "PIN_CHANGED", detail);
                return problem.at(&format!("/tools/{at}/fingerprint"));
            }
            let detail = "no such tool is waiting for approval: it may have been decided";
            Problem::not_found("PIN_NOT_FOUND", detail).at(&format!("/tools/{at}/name"))
        })
    });
    chosen.collect()
}

fn exposed_name(change: &PinChange) -> String {
    name(&change.flagged_tool.slug, &change.flagged_tool.tool)
}

fn describe_decision(caller: &Caller, chosen: &[PinChange], is_approved: bool) -> ChangeRecord {
    let (action, label) =
        if is_approved { ("approve pins", "approved") } else { ("reject pins", "rejected") };
    let tools = chosen.iter().map(|PinChange { lock_server, flagged_tool, pin, .. }| {
        json!({"name": name(lock_server, &flagged_tool.tool), "fingerprint": pin.fingerprint})
    });
    let tools: Vec<_> = tools.collect();
    let organisation = Some(caller.organisation().to_owned());
    let after = Some(json!({label: tools}).to_string());
    ChangeRecord { action, organisation, before: None, after }
}

fn still_waits(state: &ApiState, decided: &PinChange, decision: Standing) -> bool {
    let all = state.gateway.pin_changes(decided.flagged_tool.organisation.as_deref());
    let found = all.into_iter().flatten().find(|one| {
        one.lock_server == decided.lock_server
            && one.flagged_tool.tool == decided.flagged_tool.tool
            && one.pin.fingerprint == decided.pin.fingerprint
    });
    found.is_some_and(|one| one.flagged_tool.standing != Some(decision))
}
