//! [`Permitted`] and its parts. Only `authorize` creates permits, since constructors are visible up
//! to there.

use std::borrow::Cow;
use std::sync::Arc;

use lockgate_policy::response::Response;
use lockgate_policy::{
    ApprovalRule, DenyReason, HeldPermit, Passed, PolicyDenial, Target, TargetKind, Verdict,
};
use lockgate_protocol::code;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_telemetry::ToolMetrics;
use lockgate_telemetry::audit::DryRunDenial;
use lockgate_upstream::Upstream;

use crate::approvals::CallerAnswer;
use crate::context::{Replaced, RequestContext, Resumption};
use crate::rescue::RequestError;
use crate::rights::CallerRights;
use crate::snapshot::Snapshot;

/// The policies' decision on a permitted request.
pub(super) struct Judgement {
    pub(super) passed: Passed,
    /// Slots under the policies' concurrency limits.
    pub(super) held: Vec<HeldPermit>,
    /// Filter for the response.
    pub(super) response: Option<Arc<Response>>,
}

/// A running call that waits for its client's answers.
pub(crate) struct Parked {
    pub(crate) handle: Box<str>,
    /// JSON text of an object.
    pub(crate) answers: Option<Vec<u8>>,
}

#[derive(Clone, Default)]
struct Approval {
    rules: Vec<Arc<ApprovalRule>>,
    answer: Option<CallerAnswer>,
    /// Digest of the approved call.
    given: Option<[u8; 32]>,
}

/// How a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskUse {
    /// As an ordinary call.
    None,
    /// As a task that the client follows.
    OfClient,
    /// As a task that the gateway follows on behalf of the client.
    OfGateway,
    /// As a task that the client follows through the tasks extension.
    Converted,
}

/// A permit to send one request to one server. The parts that others may set do not decide about
/// the request.
pub struct Permitted {
    server: Arc<dyn Upstream>,
    method: Method,
    /// The server's own name, URI or task id.
    target: Arc<str>,
    /// Other members of `params` that are replaced for the server.
    replaced: Vec<Replaced>,
    /// Filter for the response.
    pub(super) response: Option<Arc<Response>>,
    /// Slots under the policies' concurrency limits.
    held: Option<Arc<Vec<HeldPermit>>>,
    /// The approval that is needed, if any.
    approval: Option<Box<Approval>>,
    /// The tool's metrics; `None` for other items.
    pub(crate) metrics: Option<Arc<ToolMetrics>>,
    /// The listed name, under which records are searched and which may differ from the name in the
    /// request; tools and prompts only.
    pub(crate) listed: Option<Arc<str>>,
    /// The policy that allows the request; `None` for requests of an earlier call.
    pub(crate) rule: Option<Arc<str>>,
    /// The denial by a policy in dry-run mode.
    pub(crate) would: Option<Box<DryRunDenial>>,
    /// The running call that this request continues.
    pub(crate) parked: Option<Box<Parked>>,
    /// Where the next round continues if the server asks a question.
    pub(crate) resumption: Resumption,
    pub(crate) task_use: TaskUse,
}

/// Parameters of a task that the gateway requests: its result is kept for an hour.
const TASK: &[u8] = br#"{"ttl":3600000}"#;

impl Permitted {
    pub(super) fn new(
        server: Arc<dyn Upstream>,
        method: Method,
        target: Arc<str>,
        replaced: Vec<Replaced>,
    ) -> Self {
        Self {
            server,
            method,
            target,
            replaced,
            response: None,
            held: None,
            approval: None,
            metrics: None,
            listed: None,
            rule: None,
            would: None,
            parked: None,
            resumption: Resumption::default(),
            task_use: TaskUse::None,
        }
    }

    /// Adds or removes the `task` parameter as the tool requires.
    pub(super) fn set_task(&mut self, is_asked: bool, task_use: TaskUse) {
        match task_use {
            TaskUse::OfGateway | TaskUse::Converted => {
                self.replaced.push((Key::Task, Some(TASK.to_vec())));
            }
            TaskUse::None if is_asked => self.replaced.push((Key::Task, None)),
            TaskUse::None | TaskUse::OfClient => {}
        }
        self.task_use = task_use;
    }

    /// Returns whether this is neither a parked call nor one that creates a task.
    pub(crate) fn is_plain(&self) -> bool {
        self.parked.is_none() && self.task_use == TaskUse::None
    }

    /// Applies the policies' decision, including rewritten arguments and approvals.
    pub(super) fn with_judgement(mut self, judgement: Judgement) -> Self {
        let Judgement { passed, held, response } = judgement;
        if let Some(denied) = passed.dry_run {
            let reason = describe_reason(&denied.reason);
            self.would = Some(Box::new(DryRunDenial { reason, rule: denied.rule }));
        }
        self.rule = Some(passed.rule);
        if !passed.approvals.is_empty() {
            self.approval.get_or_insert_default().rules = passed.approvals;
        }
        if passed.arguments.is_some() {
            self.replaced.push((Key::Arguments, passed.arguments));
        }
        self.response = response;
        self.with_held(held)
    }

    pub(super) fn set_answer(&mut self, answer: CallerAnswer) {
        self.approval.get_or_insert_default().answer = Some(answer);
    }

    /// Marks the call with this digest as approved.
    pub(crate) fn with_approval(mut self, digest: [u8; 32]) -> Self {
        self.approval.get_or_insert_default().given = Some(digest);
        self
    }

    /// Returns whether an approval is needed and not yet given.
    pub(crate) fn awaits_approval(&self) -> bool {
        matches!(&self.approval, Some(approval) if approval.given.is_none())
    }

    pub(crate) fn approvals(&self) -> &[Arc<ApprovalRule>] {
        self.approval.as_ref().map_or(&[], |approval| &approval.rules)
    }

    pub(crate) fn answer(&self) -> Option<&CallerAnswer> {
        self.approval.as_ref()?.answer.as_ref()
    }

    pub(crate) fn approved(&self) -> Option<&[u8; 32]> {
        self.approval.as_ref()?.given.as_ref()
    }

    pub(super) fn with_held(mut self, held: Vec<HeldPermit>) -> Self {
        self.held = if held.is_empty() { None } else { Some(Arc::new(held)) };
        self
    }

    pub fn server(&self) -> &Arc<dyn Upstream> {
        &self.server
    }

    pub(crate) fn method(&self) -> Method {
        self.method
    }

    pub fn target(&self) -> &str {
        &self.target
    }

    /// Returns the error for a response that breaks the protocol.
    pub(crate) fn broken(&self, what: &str) -> RequestError {
        RequestError::new(code::INTERNAL, format!("server {} {what}", self.server.slug()))
    }

    pub(crate) fn response(&self) -> Option<&Response> {
        self.response.as_deref()
    }

    /// Returns the response filter for use beyond the permit's lifetime.
    pub(crate) fn shared_response(&self) -> Option<Arc<Response>> {
        self.response.clone()
    }

    pub(crate) fn replaced(&self) -> &[Replaced] {
        &self.replaced
    }

    /// Returns the permit for the same request's next round, with answers to the server's questions
    /// and the server's state.
    pub(crate) fn next_round(&self, responses: Option<Vec<u8>>, state: Option<Vec<u8>>) -> Self {
        let mut replaced = self.replaced.clone();
        replaced.retain(|(name, _)| !matches!(name, Key::InputResponses | Key::RequestState));
        replaced.push((Key::InputResponses, responses));
        replaced.push((Key::RequestState, state));
        Self {
            response: self.response.clone(),
            held: self.held.clone(),
            approval: self.approval.clone(),
            metrics: self.metrics.clone(),
            listed: self.listed.clone(),
            rule: self.rule.clone(),
            task_use: self.task_use,
            ..Self::new(Arc::clone(&self.server), self.method, Arc::clone(&self.target), replaced)
        }
    }

    /// Returns a copy that renders the response elsewhere.
    pub(crate) fn for_response(&self) -> Self {
        Self { resumption: self.resumption.clone(), ..self.next_round(None, None) }
    }
}

pub(super) fn describe_reason(because: &DenyReason) -> Cow<'static, str> {
    match because {
        DenyReason::Hidden => "the policy hides it".into(),
        DenyReason::Unapproved => "it requires an approval".into(),
        DenyReason::Arguments(refusal) => refusal.to_string().into(),
        DenyReason::Failure(failure) | DenyReason::Unjudged(failure, _) => {
            format!("the policy could not be evaluated: {failure}").into()
        }
    }
}

/// Charges a request for no particular server (lists, discovery) to the caller's rate limits.
pub fn admit(
    snapshot: &Snapshot,
    rights: &CallerRights,
    method: Method,
) -> Result<Vec<HeldPermit>, RequestError> {
    take_allowance(snapshot, rights, method, None)
}

fn take_allowance(
    snapshot: &Snapshot,
    rights: &CallerRights,
    method: Method,
    about: Option<(&Verdict, &Target<'_>)>,
) -> Result<Vec<HeldPermit>, RequestError> {
    let policy = &snapshot.policy;
    let limiter = &*snapshot.limiter;
    let held = policy.limit(limiter, &rights.class, method.as_str(), &rights.subject(), about);
    held.map_err(|limited| RequestError::limited(method, &limited))
}

/// Decides on a visible item: rate limits, then arguments.
pub(super) fn evaluate(
    context: &RequestContext,
    verdict: &Verdict,
    target: &Target<'_>,
) -> Result<Judgement, RequestError> {
    evaluate_target(context, verdict, target).map_err(|problem| problem.of_server(target.server))
}

fn evaluate_target(
    context: &RequestContext,
    verdict: &Verdict,
    target: &Target<'_>,
) -> Result<Judgement, RequestError> {
    let rights = &context.rights;
    let held =
        take_allowance(&context.snapshot, rights, context.request.method, Some((verdict, target)))?;
    let policy = &context.snapshot.policy;
    let subject = rights.subject();
    let question = rights.question(&subject, target);
    let arguments =
        if verdict.reads_arguments() { context.request.param(Key::Arguments) } else { None };
    let passed = policy.evaluate(verdict, &question, arguments);
    let passed = passed.map_err(|denied| write_denial(target, denied))?;
    if let Some(denied) = &passed.dry_run {
        let who = subject.principal();
        let reason = describe_reason(&denied.reason);
        let tool = target.exposed;
        let rule = &*denied.rule;
        tracing::info!(target: "audit", decision = "dry-run", who, tool, rule, %reason, "would be \
            denied");
    }
    Ok(Judgement { passed, held, response: verdict.response().cloned() })
}

/// Builds the response to denied arguments: for a tool a result that the model can read and
/// correct, as the specification requires for invalid input; for other items an error.
fn write_denial(target: &Target<'_>, denied: PolicyDenial) -> RequestError {
    let rule = &*denied.rule;
    if let DenyReason::Failure(failure) | DenyReason::Unjudged(failure, _) = &denied.reason {
        tracing::warn!(
            tool = target.exposed,
            rule,
            failure,
            "denied, because a policy could not be evaluated"
        );
    }
    let words = match denied.reason {
        DenyReason::Arguments(refusal) => format!("refused by policy {rule}: {refusal}"),
        DenyReason::Failure(_) => {
            format!("refused by policy {rule}, which cannot evaluate this call")
        }
        DenyReason::Unjudged(_, argument) => {
            format!("refused by policy {rule}, which cannot evaluate this call: {argument}")
        }
        DenyReason::Hidden | DenyReason::Unapproved => format!("refused by policy {rule}"),
    };
    let problem = match target.kind {
        TargetKind::Tool => RequestError::tool_error(words),
        _ => RequestError::invalid(words),
    };
    problem.denied(denied.rule)
}

/// Returns the error for a missing or hidden item. The request counts against the method's rate
/// limits, so that names cannot be guessed without bound.
pub(super) fn answer_missing(context: &RequestContext, problem: RequestError) -> RequestError {
    take_allowance(&context.snapshot, &context.rights, context.request.method, None)
        .err()
        .unwrap_or(problem)
}
