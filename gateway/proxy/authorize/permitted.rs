//! Leave to reach one server with one request. Only `authorize` can make it: its constructors end
//! there.

use std::borrow::Cow;
use std::sync::Arc;

use lockgate_policy::response::Response;
use lockgate_policy::{ApprovalRule, DenyReason, Held, Passed};
use lockgate_protocol::method::Method;
use lockgate_telemetry::ToolMetrics;
use lockgate_telemetry::audit::DryRunDenial;
use lockgate_upstream::Upstream;

use super::task_support::TaskUse;
use crate::approve::answer::CallerAnswer;
use crate::tokens::{Replaced, Resumption};

/// What policy says of one request that it allows.
pub(super) struct Judgement {
    /// With which arguments it goes on.
    pub(super) passed: Passed,
    /// Places among the requests that may run at the same time.
    pub(super) held: Vec<Held>,
    /// What may come back.
    pub(super) response: Option<Arc<Response>>,
}

/// A call that runs already, and what its client answers to it.
pub(crate) struct Parked {
    pub(crate) handle: Box<str>,
    /// JSON text of an object.
    pub(crate) answers: Option<Vec<u8>>,
}

/// What a person has to say before the server is reached.
#[derive(Clone, Default)]
struct Approval {
    rules: Vec<Arc<ApprovalRule>>,
    answer: Option<CallerAnswer>,
    /// What was approved.
    given: Option<[u8; 32]>,
}

/// Leave to reach one server with one request.
pub(crate) struct Permitted {
    server: Arc<dyn Upstream>,
    method: Method,
    /// The server's own name, URI or task id.
    target: String,
    /// Members of `params` with another value for the server.
    replaced: Vec<Replaced>,
    metrics: Option<Arc<ToolMetrics>>,
    /// The name under which it is listed, by which records are searched; tools and prompts only.
    listed: Option<Arc<str>>,
    /// The policy that allows it.
    rule: Option<Arc<str>>,
    /// The policy on trial that would have denied it, and why.
    would: Option<Box<DryRunDenial>>,
    /// What may come back.
    response: Option<Arc<Response>>,
    /// Places among the requests that may run at the same time.
    held: Option<Arc<Vec<Held>>>,
    /// It goes on with a call that runs already.
    parked: Option<Box<Parked>>,
    /// Where the next round goes on, when the server asks.
    resumption: Resumption,
    task_use: TaskUse,
    /// Who has to approve it first, where somebody has to.
    approval: Option<Box<Approval>>,
}

/// What the gateway asks for a task that it makes: that its result stays for an hour.
const TASK: &[u8] = br#"{"ttl":3600000}"#;

impl Permitted {
    pub(super) fn new(
        server: Arc<dyn Upstream>,
        method: Method,
        target: String,
        replaced: Vec<Replaced>,
    ) -> Self {
        Self {
            server,
            method,
            target,
            replaced,
            metrics: None,
            listed: None,
            rule: None,
            would: None,
            response: None,
            held: None,
            parked: None,
            resumption: Resumption::default(),
            task_use: TaskUse::None,
            approval: None,
        }
    }

    /// As the tool wants it: with a task that its client follows or the gateway does, or without.
    pub(super) fn with_task(mut self, is_asked: bool, task_use: TaskUse) -> Self {
        match task_use {
            TaskUse::OfGateway | TaskUse::Converted => {
                self.replaced.push(("task", Some(TASK.to_vec())));
            }
            TaskUse::None if is_asked => self.replaced.push(("task", None)),
            TaskUse::None | TaskUse::OfClient => {}
        }
        self.task_use = task_use;
        self
    }

    /// The call runs as a task that the gateway has made.
    pub(crate) fn runs_task(&self) -> bool {
        matches!(self.task_use, TaskUse::OfGateway | TaskUse::Converted)
    }

    /// The call runs as a task that the gateway follows.
    pub(crate) fn follows_task(&self) -> bool {
        self.task_use == TaskUse::OfGateway
    }

    /// The call runs as a task that its client follows in the way of the tasks extension.
    pub(crate) fn converts_task(&self) -> bool {
        self.task_use == TaskUse::Converted
    }

    /// The call makes a task that its client follows.
    pub(crate) fn makes_task(&self) -> bool {
        self.task_use == TaskUse::OfClient
    }

    pub(super) fn with_parked(mut self, parked: Option<Parked>) -> Self {
        self.parked = parked.map(Box::new);
        self
    }

    /// The call that it goes on with, if one runs already.
    pub(crate) fn take_parked(&mut self) -> Option<Box<Parked>> {
        self.parked.take()
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.parked.is_some()
    }

    /// Says where the next round goes on.
    pub(crate) fn resume_at(&mut self, resumption: Resumption) {
        self.resumption = resumption;
    }

    pub(crate) fn resumption(&self) -> &Resumption {
        &self.resumption
    }

    /// As policy has it: with the arguments that it wrote, and the places that it gave.
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
            self.replaced.push(("arguments", passed.arguments));
        }
        self.with_held(held).with_response(response)
    }

    /// What the caller answered to the question whether the call may be made.
    pub(super) fn with_answer(mut self, answer: CallerAnswer) -> Self {
        self.approval.get_or_insert_default().answer = Some(answer);
        self
    }

    /// The same once it is approved.
    pub(crate) fn with_approval(mut self, digest: [u8; 32]) -> Self {
        self.approval.get_or_insert_default().given = Some(digest);
        self
    }

    /// Whether somebody has to approve it before the server is reached.
    pub(crate) fn awaits_approval(&self) -> bool {
        matches!(&self.approval, Some(approval) if approval.given.is_none())
    }

    /// The policies that have it approved.
    pub(crate) fn approvals(&self) -> &[Arc<ApprovalRule>] {
        match &self.approval {
            Some(approval) => &approval.rules,
            None => &[],
        }
    }

    pub(crate) fn answer(&self) -> Option<&CallerAnswer> {
        self.approval.as_ref()?.answer.as_ref()
    }

    /// The digest of the call that was approved, where one was.
    pub(crate) fn approved(&self) -> Option<&[u8; 32]> {
        self.approval.as_ref()?.given.as_ref()
    }

    /// What the request holds until it has ended.
    pub(super) fn with_held(mut self, held: Vec<Held>) -> Self {
        self.held = if held.is_empty() { None } else { Some(Arc::new(held)) };
        self
    }

    pub(super) fn with_response(mut self, response: Option<Arc<Response>>) -> Self {
        self.response = response;
        self
    }

    /// The name under which it is listed.
    pub(super) fn with_listed(mut self, listed: &Arc<str>) -> Self {
        self.listed = Some(Arc::clone(listed));
        self
    }

    /// Where the call is counted.
    pub(super) fn with_metrics(mut self, metrics: Option<Arc<ToolMetrics>>) -> Self {
        self.metrics = metrics;
        self
    }

    /// The policy that allows it; none for requests that belong to an earlier one.
    pub(crate) fn rule(&self) -> Option<&Arc<str>> {
        self.rule.as_ref()
    }

    /// The name of that policy.
    pub(crate) fn rule_name(&self) -> Option<&str> {
        self.rule.as_deref()
    }

    pub(crate) fn server(&self) -> &Arc<dyn Upstream> {
        &self.server
    }

    pub(crate) fn method(&self) -> Method {
        self.method
    }

    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    /// The name under which it is listed, which may be another one than was used.
    pub(crate) fn listed(&self) -> Option<&str> {
        self.listed.as_deref()
    }

    /// What a policy on trial would have done.
    pub(crate) fn would(&self) -> Option<&DryRunDenial> {
        self.would.as_deref()
    }

    /// What may come back; anything without it.
    pub(crate) fn response(&self) -> Option<&Response> {
        self.response.as_deref()
    }

    /// The same for what outlives this leave.
    pub(crate) fn shared_response(&self) -> Option<Arc<Response>> {
        self.response.clone()
    }

    /// Where the call is counted, for tools.
    pub(crate) fn metrics(&self) -> Option<Arc<ToolMetrics>> {
        self.metrics.clone()
    }

    pub(crate) fn replaced(&self) -> &[Replaced] {
        &self.replaced
    }

    /// The same leave for the next round of the same request: answers to the server's questions,
    /// its state.
    pub(crate) fn next_round(&self, responses: Option<Vec<u8>>, state: Option<Vec<u8>>) -> Self {
        let mut replaced = self.replaced.clone();
        replaced.retain(|(name, _)| !matches!(*name, "inputResponses" | "requestState"));
        replaced.push(("inputResponses", responses));
        replaced.push(("requestState", state));
        Self {
            replaced,
            server: Arc::clone(&self.server),
            method: self.method,
            target: self.target.clone(),
            metrics: self.metrics.clone(),
            listed: self.listed.clone(),
            rule: self.rule.clone(),
            would: None,
            response: self.response.clone(),
            held: self.held.clone(),
            parked: None,
            resumption: Resumption::default(),
            task_use: self.task_use,
            approval: self.approval.clone(),
        }
    }
}

/// Why a policy denies, for people who read records.
pub(super) fn describe_reason(because: &DenyReason) -> Cow<'static, str> {
    match because {
        DenyReason::Hidden => "the policy hides it".into(),
        DenyReason::Unapproved => "a person would have to approve it".into(),
        DenyReason::Arguments(refusal) => refusal.to_string().into(),
        DenyReason::Failure(failure) | DenyReason::Unjudged(failure, _) => {
            format!("the policy could not be evaluated: {failure}").into()
        }
    }
}
