//! How requests were decided and how they went: metrics, spans and audit records, written once when
//! a call ends, however it ends.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_policy::Kind;
use lockgate_protocol::method::Method;
use lockgate_protocol::scan;
use lockgate_telemetry::audit::{self, Decision, Record, Ticket};
use lockgate_telemetry::{
    CallTrace, Denial, FailureType, Outcome, ToolMetrics, TraceContext, Unknown,
};

use crate::authorize::Permitted;
use crate::catalog::Asking;
use crate::context::RequestContext;
use crate::gateway::Gateway;
use crate::rejections::classify;
use crate::rescue::RequestError;
use crate::tool_news::EndedCall;
use crate::transport::Endpoint;

/// One record of a request that policy refused. The caller of something hidden is told what the
/// caller of something unknown is; the record says which rule hides it.
pub(crate) fn audit_denial(gateway: &Gateway, context: &RequestContext, problem: &RequestError) {
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
            let name = find_name(context).filter(|_| !problem.is_unknown);
            operation.set_destination(context.request.method, name.as_deref(), server);
        }
    }
    if let Some(trail) = &gateway.audit {
        let decision = Decision::Deny(rule.as_deref(), &problem.message);
        // The request is refused in any case.
        drop(trail.decide(
            &describe_request(context, server.as_deref(), find_name(context), None),
            find_arguments(context),
            decision,
        ));
    }
    gateway.activity.tell(context.principal.organisation());
    if Record::wanted(false) {
        let who = format!("{}:{}", context.principal.issuer, context.principal.subject);
        let name = find_name(context);
        Record {
            who: &who,
            key: context.principal.key_name.as_deref(),
            method: context.request.method.as_str(),
            name: name.as_deref(),
            allowed: false,
            rule: rule.as_deref(),
            reason: Some(&problem.message),
            outcome: Outcome::Denied,
            duration: Duration::ZERO,
            trace: None,
        }
        .log();
    }
}

/// Counts a request that came no further, under what stopped it.
fn count_denial(
    gateway: &Gateway,
    context: &RequestContext,
    problem: &RequestError,
    hiding_rule: Option<&str>,
) {
    let metrics = &gateway.metrics;
    if let Some(rule) = hiding_rule {
        return metrics.denied(rule, Denial::Hidden);
    }
    if let Some(rule) = &problem.rule {
        metrics.denied(rule, problem.denial);
        if let Some(tool) = find_counters(context) {
            tool.record(Outcome::Denied, Duration::ZERO);
        }
        return;
    }
    if !problem.is_unknown {
        return metrics.rejected(classify(problem));
    }
    metrics.named_unknown(match context.request.method {
        Method::ToolsCall => Unknown::Tool,
        Method::PromptsGet => Unknown::Prompt,
        Method::Complete if completes_prompt(context) => Unknown::Prompt,
        Method::ResourcesRead | Method::Subscribe | Method::Unsubscribe | Method::Complete => {
            Unknown::Resource
        }
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel | Method::TasksResult => {
            Unknown::Task
        }
        _ => Unknown::Method,
    });
}

fn completes_prompt(context: &RequestContext) -> bool {
    let reference = context.request.param("ref").and_then(read_reference);
    reference.is_some_and(|(is_prompt, _)| is_prompt)
}

/// The counters of the tool that was asked for, when it is there for the caller.
fn find_counters(context: &RequestContext) -> Option<&ToolMetrics> {
    if context.request.method != Method::ToolsCall {
        return None;
    }
    let seen = context.view.tool(&context.request.param_str("name")?)?;
    seen.entry.metrics.as_deref().filter(|_| context.sees(&seen.entry))
}

/// What hides the thing that was asked for, if it exists: its server and the rule.
fn find_hiding_rule(gateway: &Gateway, context: &RequestContext) -> Option<(String, Arc<str>)> {
    let request = &context.request;
    let snapshot = &context.snapshot;
    let endpoint = &context.endpoint;
    let policy = &*snapshot.policy;
    let rights = &context.rights;
    let asking = Asking { endpoint, policy, rights, naming: snapshot.naming };
    let directory = &gateway.directory;
    let shared = directory.catalog();
    let own = directory.organisation(context.principal.organisation());
    let own = own.map(|own| own.state());
    let hides = |kind, name: &str| {
        let found = shared.hides(&asking, kind, name);
        let own = own.as_ref().and_then(|own| own.catalog.hides(&asking, kind, name));
        found.or(own)
    };
    match request.method {
        Method::ToolsCall => hides(Kind::Tool, &request.param_str("name")?),
        Method::PromptsGet => hides(Kind::Prompt, &request.param_str("name")?),
        Method::ResourcesRead | Method::Subscribe => {
            hides(Kind::Resource, &request.param_str("uri")?)
        }
        Method::Complete => match read_reference(request.param("ref")?)? {
            (true, name) => {
                hides(Kind::Prompt, &name).or_else(|| hides(Kind::PromptCompletion, &name))
            }
            (false, uri) => {
                hides(Kind::Resource, &uri).or_else(|| hides(Kind::ResourceCompletion, &uri))
            }
        },
        _ => None,
    }
}

/// What a completion is for: whether a prompt, and its name or URI.
fn read_reference(raw: &[u8]) -> Option<(bool, String)> {
    let mut scanner = scan::Scanner::new(raw, scan::MAX_DEPTH).ok()?;
    let (_, members) = scanner.members(scan::Keys::Strict).ok()?;
    let is_prompt = scan::find_str(&members, raw, "type")? == "ref/prompt";
    let name = scan::find_str(&members, raw, if is_prompt { "name" } else { "uri" })?;
    Some((is_prompt, name.into_owned()))
}

/// One record of a listen that is opened; without one it is not, if the operator says so. It has
/// ended well as soon as it is open, because streams may be open for days.
pub(crate) fn audit_listen(
    gateway: &Gateway,
    context: &RequestContext,
) -> Result<(), RequestError> {
    let Some(trail) = &gateway.audit else { return Ok(()) };
    let wanted = context.request.param("notifications");
    let ticket = trail.decide(
        &describe_request(context, None, find_name(context), None),
        wanted,
        Decision::Allow(None, None),
    );
    ticket
        .map_err(|unwritable| RequestError::unrecorded(&unwritable))?
        .finish(Outcome::Ok, Duration::ZERO);
    gateway.activity.tell(context.principal.organisation());
    Ok(())
}

/// One record of a request that may go on; without one it may not, if the operator says so.
pub(crate) fn audit_allow<'a>(
    gateway: &'a Gateway,
    context: &RequestContext,
    permitted: &Permitted,
    trace: Option<u128>,
) -> Result<Option<Ticket<'a>>, RequestError> {
    if let Some(would) = permitted.would() {
        gateway.metrics.denied(&would.rule, Denial::DryRun);
    }
    let Some(trail) = &gateway.audit else { return Ok(None) };
    let name = permitted.listed().map(Cow::Borrowed).or_else(|| find_name(context));
    let server = permitted.server().qualified_name();
    let about = describe_request(context, Some(&server), name, trace);
    let decision = Decision::Allow(permitted.rule().map(|rule| &**rule), permitted.would());
    let ticket = trail.decide(&about, find_arguments(context), decision);
    gateway.activity.tell(context.principal.organisation());
    ticket.map(Some).map_err(|unwritable| RequestError::unrecorded(&unwritable))
}

/// Who asked for what.
fn describe_request<'a>(
    context: &'a RequestContext,
    server: Option<&'a str>,
    name: Option<Cow<'a, str>>,
    trace: Option<u128>,
) -> audit::Asked<'a> {
    let principal = &context.principal;
    audit::Asked {
        issuer: &principal.issuer,
        subject: &principal.subject,
        organisation: principal.named_organisation(),
        key: principal.key_name.as_deref(),
        agent: principal.agent.as_deref(),
        method: context.request.method.as_str(),
        endpoint: match &context.endpoint {
            Endpoint::All => Cow::Borrowed(""),
            endpoint => endpoint.path(),
        },
        server,
        name,
        trace,
        transport: context.transport.name(),
    }
}

/// The name or URI that was used, and of what is there under several names the one that is listed,
/// by which records are searched. Only its beginning when it is long, because it may be as long as
/// a whole body. The trail cuts it and says so.
fn find_name(context: &RequestContext) -> Option<Cow<'_, str>> {
    let request = &context.request;
    let seen = match (request.method, request.param_str("name")) {
        (Method::ToolsCall, Some(name)) => context.view.tool(&name),
        (Method::PromptsGet, Some(name)) => context.view.prompt(&name),
        _ => None,
    };
    if let Some(seen) = seen.filter(|seen| context.sees(&seen.entry)) {
        return Some(Cow::Borrowed(context.view.shown(&seen.entry)));
    }
    let name = match request.method {
        Method::Complete => request.param("ref").map(|raw| String::from_utf8_lossy(raw)),
        method => method.target().and_then(|key| request.param_str(key)),
    }?;
    let end = name.floor_char_boundary(2 * audit::MAX_TEXT);
    Some(match name {
        Cow::Borrowed(name) => Cow::Borrowed(name.get(..end).unwrap_or_default()),
        Cow::Owned(mut name) => {
            name.truncate(end);
            Cow::Owned(name)
        }
    })
}

fn find_arguments(context: &RequestContext) -> Option<&[u8]> {
    context.request.param("arguments")
}

/// A call of a tool, for those who follow what happens.
fn ended(context: &RequestContext, outcome: Outcome, duration: Duration) -> Option<EndedCall> {
    let seen = context.view.tool(&context.request.param_str("name")?)?;
    let principal = &context.principal;
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

/// One call on its way. Dropped before its end, it counts as cancelled.
pub(super) struct CallRecord<'a> {
    gateway: &'a Gateway,
    context: &'a RequestContext,
    tool: Option<Arc<ToolMetrics>>,
    trace: Option<TraceContext>,
    ticket: Option<Ticket<'a>>,
    rule: Option<Arc<str>>,
    pub(super) began: Instant,
    pub(super) outcome: Outcome,
    /// Where it failed, if that is known better than from the outcome.
    pub(super) failure: Option<FailureType>,
}

impl<'a> CallRecord<'a> {
    /// # Errors
    /// The call cannot be recorded, and is not to be made then.
    pub(super) fn begin(
        gateway: &'a Gateway,
        context: &'a RequestContext,
        permitted: &Permitted,
    ) -> Result<Self, RequestError> {
        let trace = context.position();
        let trace_id = trace.as_ref().map(TraceContext::trace_id);
        if let Some(operation) = &context.operation {
            operation.set_tool(permitted.metrics());
            if operation.is_traced() {
                let name = permitted.listed().map(Cow::Borrowed).or_else(|| find_name(context));
                let server = permitted.server().qualified_name();
                operation.set_destination(context.request.method, name.as_deref(), &server);
            }
        }
        Ok(Self {
            gateway,
            context,
            tool: permitted.metrics(),
            trace,
            ticket: audit_allow(gateway, context, permitted, trace_id)?,
            rule: permitted.rule().cloned(),
            began: Instant::now(),
            outcome: Outcome::Cancelled,
            failure: None,
        })
    }

    /// Where the requests to the server stand.
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

    /// The line in the log.
    fn write_log(&self, duration: Duration) {
        let principal = &self.context.principal;
        let who = format!("{}:{}", principal.issuer, principal.subject);
        let name = find_name(self.context);
        Record {
            who: &who,
            key: principal.key_name.as_deref(),
            method: self.context.request.method.as_str(),
            name: name.as_deref(),
            allowed: true,
            rule: self.rule.as_deref(),
            reason: None,
            outcome: self.outcome,
            duration,
            trace: self.trace.as_ref(),
        }
        .log();
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
        if let Some(ticket) = self.ticket.take() {
            ticket.finish(self.outcome, duration);
        }
        let organisation = self.context.principal.organisation();
        self.gateway.activity.tell(organisation);
        if self.context.request.method == Method::ToolsCall {
            let tools = &self.gateway.directory.tools;
            tools.tell_call(organisation, || ended(self.context, self.outcome, duration));
        }
        if let Some(operation) = &self.context.operation {
            operation.end(self.outcome);
        }
        if Record::wanted(true) {
            self.write_log(duration);
        }
    }
}
