//! Metrics, spans and audit records of decisions and calls. A call's outcome is recorded once, on
//! drop.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_admission::clock;
use lockgate_policy::TargetKind;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_telemetry::audit::{self, Decision, Ticket};
use lockgate_telemetry::{
    CallTrace, Denial, FailureType, Outcome, ToolMetrics, TraceContext, Unknown,
};

use crate::activity::EndedCall;
use crate::authorize::Permitted;
use crate::catalog::{Asking, organisation_of};
use crate::context::{RequestContext, read_reference};
use crate::gateway::Gateway;
use crate::rescue::RequestError;
use crate::usage::Series;

/// Records a request that policy refused. The caller of a hidden item gets the error of an unknown
/// item; the record names the rule that hides the item.
pub fn audit_denial(gateway: &Gateway, context: &RequestContext, problem: &RequestError) {
    let hidden = match &problem.rule {
        None if problem.is_unknown => find_hiding_rule(gateway, context),
        _ => None,
    };
    count_denial(gateway, context, problem, hidden.as_ref().map(|(_, rule)| &**rule));
    let hides = hidden.is_some();
    let (server, rule) = match hidden {
        Some((server, rule)) => (Some(server.into_boxed_str()), Some(rule)),
        None => (problem.server.clone(), problem.rule.clone()),
    };
    if let Some(operation) = &context.operation {
        let denial = if hides { Denial::Hidden } else { problem.denial };
        operation.deny(problem, rule.as_deref(), denial);
        if let Some(server) = server.as_deref() {
            let name = if problem.is_unknown { None } else { find_name(context) };
            operation.set_destination(name.as_deref(), server);
        }
    }
    if let Some(trail) = &gateway.audit {
        let decision = Decision::Deny(rule.as_deref(), problem.recorded_reason());
        // A failure to record changes nothing: the request is refused anyway.
        drop(trail.decide(
            &describe_request(context, server.as_deref(), find_name(context), None),
            find_arguments(context),
            decision,
        ));
    }
    gateway.activity.tell(context.rights.principal.organisation());
    if audit::is_logged(false) {
        let about = describe_request(context, None, find_name(context), None);
        let decision = Decision::Deny(rule.as_deref(), problem.recorded_reason());
        audit::log(&about, decision, (Outcome::Denied, Duration::ZERO), None);
    }
}

/// Counts a refused request by its cause.
fn count_denial(
    gateway: &Gateway,
    context: &RequestContext,
    problem: &RequestError,
    hiding_rule: Option<&str>,
) {
    let metrics = &gateway.metrics;
    if let Some(rule) = hiding_rule {
        gateway.usage.deny(&context.rights.principal, rule, Denial::Hidden);
        return metrics.denied(rule, Denial::Hidden);
    }
    if let Some(rule) = &problem.rule {
        metrics.denied(rule, problem.denial);
        gateway.usage.deny(&context.rights.principal, rule, problem.denial);
        if let Some(tool) = find_counters(context) {
            tool.record(Outcome::Denied, Duration::ZERO);
        }
        return;
    }
    if !problem.is_unknown {
        return metrics.rejected(problem.classify());
    }
    metrics.named_unknown(match context.request.method {
        Method::ToolsCall => Unknown::Tool,
        Method::PromptsGet => Unknown::Prompt,
        Method::Complete if completes_prompt(context) => Unknown::Prompt,
        Method::ResourcesRead
        | Method::DirectoryRead
        | Method::SkillsGet
        | Method::Subscribe
        | Method::Unsubscribe
        | Method::Complete => Unknown::Resource,
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel | Method::TasksResult => {
            Unknown::Task
        }
        _ => Unknown::Method,
    });
}

fn completes_prompt(context: &RequestContext) -> bool {
    read_reference(&context.request).is_some_and(|reference| reference.is_prompt)
}

/// Returns the metrics of the requested tool if the caller may see it.
fn find_counters(context: &RequestContext) -> Option<&ToolMetrics> {
    if context.request.method != Method::ToolsCall {
        return None;
    }
    context.tool(&context.request.param_str(Key::Name)?)?.entry.metrics.as_deref()
}

/// Records the opening of a `subscriptions/listen` stream, as a success at once because streams may
/// last for days. Fails if a record is required and cannot be written.
pub(crate) fn audit_listen(
    gateway: &Gateway,
    context: &RequestContext,
) -> Result<(), RequestError> {
    let Some(trail) = &gateway.audit else { return Ok(()) };
    let wanted = context.request.param(Key::Notifications);
    let about = describe_request(context, None, find_name(context), None);
    let ticket = trail.decide(&about, wanted, Decision::Allow(None, None))?;
    ticket.finish(Outcome::Ok, Duration::ZERO);
    gateway.activity.tell(context.rights.principal.organisation());
    Ok(())
}

/// Records a permitted request. Fails if a record is required and cannot be written.
pub fn audit_allow<'a>(
    gateway: &'a Gateway,
    context: &RequestContext,
    permitted: &Permitted,
    trace: Option<u128>,
) -> Result<Option<Ticket<'a>>, RequestError> {
    if let Some(would) = permitted.would.as_deref() {
        gateway.metrics.denied(&would.rule, Denial::DryRun);
        gateway.usage.deny(&context.rights.principal, &would.rule, Denial::DryRun);
    }
    let Some(trail) = &gateway.audit else { return Ok(None) };
    let name = name_of(context, permitted);
    let server = permitted.server().qualified_name();
    let about = describe_request(context, Some(&server), name, trace);
    let decision = Decision::Allow(permitted.rule.as_deref(), permitted.would.as_deref());
    let ticket = trail.decide(&about, find_arguments(context), decision);
    gateway.activity.tell(context.rights.principal.organisation());
    Ok(Some(ticket?))
}

/// Returns the listed name of the item, or else the requested name.
fn name_of<'a>(context: &'a RequestContext, permitted: &'a Permitted) -> Option<Cow<'a, str>> {
    permitted.listed.as_deref().map(Cow::Borrowed).or_else(|| find_name(context))
}

fn describe_request<'a>(
    context: &'a RequestContext,
    server: Option<&'a str>,
    name: Option<Cow<'a, str>>,
    trace: Option<u128>,
) -> audit::Asked<'a> {
    let principal = &context.rights.principal;
    audit::Asked {
        issuer: &principal.issuer,
        subject: &principal.subject,
        organisation: principal.named_organisation(),
        key: principal.key_name.as_deref(),
        agent: principal.agent.as_deref(),
        method: label(context.request.method),
        endpoint: context.rights.endpoint.recorded_path(),
        server,
        name,
        trace,
        transport: context.transport.name(),
    }
}

/// Returns the listed name of a visible item, by which records are searched, or else the requested
/// name or URI. A long name is truncated, since it may be as long as a body; the audit trail
/// shortens it further and marks the cut.
fn find_name(context: &RequestContext) -> Option<Cow<'_, str>> {
    let request = &context.request;
    if let Some(name) = request.param_str(Key::Name)
        && let Some(seen) = context.view.named(request.method, &name)
        && context.sees(&seen.entry)
    {
        return Some(Cow::Borrowed(context.view.recorded(&seen.entry)));
    }
    let name = match request.method {
        Method::Complete => String::from_utf8_lossy(request.param(Key::Ref)?),
        Method::Unknown => request.method_name(),
        method => request.param_str(method.target()?)?,
    };
    let end = name.floor_char_boundary(2 * audit::MAX_TEXT);
    Some(if end < name.len() { name.get(..end).unwrap_or("").to_owned().into() } else { name })
}

/// Returns the name of a method in records. Unknown methods are recorded by name as targets.
fn label(method: Method) -> &'static str {
    if method == Method::Unknown { "extension" } else { method.as_str() }
}

fn find_arguments(context: &RequestContext) -> Option<&[u8]> {
    context.request.param(Key::Arguments)
}

/// Describes a tool call for subscribers of call events.
fn ended(context: &RequestContext, outcome: Outcome, duration: Duration) -> Option<EndedCall> {
    let seen = context.view.tool(&context.request.param_str(Key::Name)?)?;
    let principal = &context.rights.principal;
    Some(EndedCall {
        caller: principal.key(),
        issuer: Arc::from(&*principal.issuer),
        subject: Arc::from(&*principal.subject),
        server: Arc::from(seen.entry.slug.as_str()),
        tool: Arc::clone(&seen.entry.exposed),
        outcome,
        duration,
    })
}

fn find_series(
    gateway: &Gateway,
    context: &RequestContext,
    permitted: &Permitted,
) -> Option<Arc<Series>> {
    if context.request.method != Method::ToolsCall {
        return None;
    }
    let server = &**permitted.server();
    let of = (organisation_of(server), server.slug());
    Some(gateway.usage.of_call(&context.rights.principal, of, permitted.target()))
}

/// The record of a running call. If dropped before an outcome is set, the call counts as cancelled.
pub(super) struct CallRecord<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) context: &'a RequestContext,
    tool: Option<Arc<ToolMetrics>>,
    /// The counters of the caller's calls to the tool.
    series: Option<Arc<Series>>,
    trace: Option<TraceContext>,
    ticket: Option<Ticket<'a>>,
    rule: Option<Arc<str>>,
    pub(super) began: Instant,
    pub(super) outcome: Outcome,
    /// The cause of the failure, if more precise than `outcome`.
    pub(super) failure: Option<FailureType>,
}

impl<'a> CallRecord<'a> {
    /// # Errors
    /// An audit record is required and cannot be written.
    pub(super) fn begin(
        gateway: &'a Gateway,
        context: &'a RequestContext,
        permitted: &Permitted,
    ) -> Result<Self, RequestError> {
        let trace = context.position();
        let trace_id = trace.as_ref().map(TraceContext::trace_id);
        if let Some(operation) = &context.operation {
            operation.set_tool(permitted.metrics.clone());
            if operation.is_traced() {
                let name = name_of(context, permitted);
                let server = permitted.server().qualified_name();
                operation.set_destination(name.as_deref(), &server);
            }
        }
        Ok(Self {
            gateway,
            context,
            tool: permitted.metrics.clone(),
            series: find_series(gateway, context, permitted),
            trace,
            ticket: audit_allow(gateway, context, permitted, trace_id)?,
            rule: permitted.rule.clone(),
            began: clock::now(),
            outcome: Outcome::Cancelled,
            failure: None,
        })
    }

    /// Returns the trace context for the requests to the server.
    pub(super) fn call_trace(&self) -> Option<CallTrace> {
        Some(CallTrace::new(self.trace.clone()?, self.gateway.tracer.clone()))
    }

    fn failure_type(&self) -> Option<FailureType> {
        let usual = match self.outcome {
            Outcome::Ok | Outcome::Denied | Outcome::Cancelled => return None,
            Outcome::ToolError => return Some(FailureType::Execution),
            Outcome::ProtocolError => FailureType::Execution,
            Outcome::Timeout => FailureType::Timeout,
            Outcome::Unavailable => FailureType::Connection,
        };
        Some(self.failure.unwrap_or(usual))
    }
}

impl Drop for CallRecord<'_> {
    fn drop(&mut self) {
        let duration = self.began.elapsed();
        if let Some(tool) = &self.tool {
            tool.record(self.outcome, duration);
            tool.ended(self.began + duration);
            if let Some(failure) = self.failure_type() {
                tool.server().failed(failure);
            }
        }
        if let Some(series) = &self.series {
            series.count(self.outcome, self.failure_type().is_some(), duration);
        }
        if let Some(ticket) = self.ticket.take() {
            ticket.finish(self.outcome, duration);
        }
        let organisation = self.context.rights.principal.organisation();
        self.gateway.activity.tell(organisation);
        if self.context.request.method == Method::ToolsCall {
            let tools = &self.gateway.directory.tools;
            tools.tell_call(organisation, || ended(self.context, self.outcome, duration));
        }
        if let Some(operation) = &self.context.operation {
            operation.end(self.outcome);
        }
        if audit::is_logged(true) {
            let about = describe_request(self.context, None, find_name(self.context), None);
            let decision = Decision::Allow(self.rule.as_deref(), None);
            audit::log(&about, decision, (self.outcome, duration), self.trace.as_ref());
        }
    }
}

/// Returns the server of the requested item and the rule that hides it, if the item exists.
fn find_hiding_rule(gateway: &Gateway, context: &RequestContext) -> Option<(String, Arc<str>)> {
    let request = &context.request;
    let (kinds, name): (&[TargetKind], _) = match request.method {
        Method::ToolsCall => (&[TargetKind::Tool], request.param_str(Key::Name)?),
        Method::PromptsGet => (&[TargetKind::Prompt], request.param_str(Key::Name)?),
        Method::ResourcesRead | Method::DirectoryRead | Method::SkillsGet | Method::Subscribe => {
            (&[TargetKind::Resource], request.param_str(Key::Uri)?)
        }
        Method::Complete => match read_reference(request)? {
            reference if reference.is_prompt => {
                (&[TargetKind::Prompt, TargetKind::PromptCompletion], reference.name)
            }
            reference => (&[TargetKind::Resource, TargetKind::ResourceCompletion], reference.name),
        },
        _ => return None,
    };
    let snapshot = &context.snapshot;
    let asking =
        Asking { policy: &snapshot.policy, rights: &context.rights, naming: snapshot.naming };
    let shared = gateway.directory.catalog();
    let own = gateway.directory.organisation(context.rights.principal.organisation());
    let own = own.map(|own| own.state());
    kinds.iter().find_map(|kind| {
        let found = shared.hides(&asking, *kind, &name);
        let found_own = own.as_ref().and_then(|own| own.catalog.hides(&asking, *kind, &name));
        found.or(found_own)
    })
}
