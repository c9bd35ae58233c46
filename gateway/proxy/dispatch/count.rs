//! How requests were decided and how they went: metrics, spans and audit records, written once when a call ends, however
//! it ends.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_policy::Kind;
use lockgate_protocol::method::Method;
use lockgate_protocol::scan;
use lockgate_telemetry::audit::{self, Decision, Record, Ticket};
use lockgate_telemetry::{Outcome, ToolMetrics, TraceContext, Tracer};

use crate::authorize::Permitted;
use crate::catalog::Asking;
use crate::context::Asked;
use crate::face::Endpoint;
use crate::gateway::Gateway;
use crate::rescue::Problem;
use crate::trace;

/// One record of a request that policy refused. The caller of something hidden is told what the caller of something
/// unknown is; the record says which rule hides it.
pub(crate) fn audit_denial(gateway: &Gateway, asked: &Asked, problem: &Problem) {
    let hidden = match &problem.rule {
        None if gateway.audit.is_some() || Record::wanted(false) => hidden(gateway, asked),
        _ => None,
    };
    let (server, rule) = match hidden {
        Some((server, rule)) => (Some(server.into_boxed_str()), Some(rule)),
        None => (problem.server.clone(), problem.rule.clone()),
    };
    if let Some(trail) = &gateway.audit {
        let decision = Decision::Deny(rule.as_deref(), &problem.message);
        // The request is refused in any case.
        drop(trail.decide(&about(asked, server.as_deref(), named(asked), None), arguments(asked), decision));
    }
    if Record::wanted(false) {
        let who = format!("{}:{}", asked.principal.issuer, asked.principal.subject);
        let name = named(asked);
        Record {
            who: &who,
            method: asked.request.method.as_str(),
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

/// What hides the thing that was asked for, if it exists: its server and the rule.
fn hidden(gateway: &Gateway, asked: &Asked) -> Option<(String, Arc<str>)> {
    let (request, setup) = (&asked.request, &asked.setup);
    let (endpoint, policy, standing) = (&asked.endpoint, &*setup.policy, &asked.standing);
    let asking = Asking { endpoint, policy, standing, naming: setup.naming };
    let catalog = gateway.hub.catalog();
    let hides = |kind, name: &str| catalog.hides(&asking, kind, name);
    match request.method {
        Method::ToolsCall => hides(Kind::Tool, &request.param_str("name")?),
        Method::PromptsGet => hides(Kind::Prompt, &request.param_str("name")?),
        Method::ResourcesRead | Method::Subscribe => hides(Kind::Resource, &request.param_str("uri")?),
        Method::Complete => match reference(request.param("ref")?)? {
            (true, name) => hides(Kind::Prompt, &name).or_else(|| hides(Kind::PromptCompletion, &name)),
            (false, uri) => hides(Kind::Resource, &uri).or_else(|| hides(Kind::ResourceCompletion, &uri)),
        },
        _ => None,
    }
}

/// What a completion is for: whether a prompt, and its name or URI.
fn reference(raw: &[u8]) -> Option<(bool, String)> {
    let mut scanner = scan::Scanner::new(raw, scan::MAX_DEPTH).ok()?;
    let (_, members) = scanner.members(scan::Keys::Strict).ok()?;
    let member = |name: &str| scan::find(&members, raw, name).and_then(|s| scan::as_str(s.of(raw)));
    let prompt = member("type")? == "ref/prompt";
    Some((prompt, member(if prompt { "name" } else { "uri" })?.into_owned()))
}

/// One record of a listen that is opened; without one it is not, if the operator says so. It has ended well as soon as
/// it is open, because streams may be open for days.
pub(crate) fn audit_listen(gateway: &Gateway, asked: &Asked) -> Result<(), Problem> {
    let Some(trail) = &gateway.audit else { return Ok(()) };
    let wanted = asked.request.param("notifications");
    let ticket = trail.decide(&about(asked, None, named(asked), None), wanted, Decision::Allow(None, None));
    ticket.map_err(|unwritable| Problem::unrecorded(&unwritable))?.finish(Outcome::Ok, Duration::ZERO);
    Ok(())
}

/// One record of a request that may go on; without one it may not, if the operator says so.
pub(crate) fn audit_leave<'a>(
    gateway: &'a Gateway,
    asked: &Asked,
    permitted: &Permitted,
    trace: Option<u128>,
) -> Result<Option<Ticket<'a>>, Problem> {
    let Some(trail) = &gateway.audit else { return Ok(None) };
    let name = permitted.listed().map(Cow::Borrowed).or_else(|| named(asked));
    let about = about(asked, Some(permitted.server().slug()), name, trace);
    let decision = Decision::Allow(permitted.rule().map(|rule| &**rule), permitted.would());
    let ticket = trail.decide(&about, arguments(asked), decision);
    ticket.map(Some).map_err(|unwritable| Problem::unrecorded(&unwritable))
}

/// Who asked for what.
fn about<'a>(
    asked: &'a Asked,
    server: Option<&'a str>,
    name: Option<Cow<'a, str>>,
    trace: Option<u128>,
) -> audit::Asked<'a> {
    let principal = &asked.principal;
    audit::Asked {
        issuer: &principal.issuer,
        subject: &principal.subject,
        organisation: principal.organisation.as_deref(),
        agent: principal.agent.as_deref(),
        method: asked.request.method.as_str(),
        endpoint: match &asked.endpoint {
            Endpoint::All => Cow::Borrowed(""),
            endpoint => endpoint.path(),
        },
        server,
        name,
        trace,
    }
}

/// The name or URI that was used, and of what is there under several names the one that is listed, by which records are searched.
/// Only its beginning when it is long, because it may be as long as a whole body. The trail cuts it and says so.
fn named(asked: &Asked) -> Option<Cow<'_, str>> {
    let request = &asked.request;
    let seen = match (request.method, request.param_str("name")) {
        (Method::ToolsCall, Some(name)) => asked.view.tool(&name),
        (Method::PromptsGet, Some(name)) => asked.view.prompt(&name),
        _ => None,
    };
    if let Some(seen) = seen.filter(|seen| asked.sees(&seen.entry)) {
        return Some(Cow::Borrowed(asked.view.shown(&seen.entry)));
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

fn arguments(asked: &Asked) -> Option<&[u8]> {
    asked.request.param("arguments")
}

/// One call on its way. Dropped before its end, it counts as cancelled.
pub(super) struct Counted<'a> {
    asked: &'a Asked,
    tool: Option<Arc<ToolMetrics>>,
    slug: String,
    tracer: Option<&'a Tracer>,
    parent: Option<TraceContext>,
    context: Option<TraceContext>,
    ticket: Option<Ticket<'a>>,
    rule: Option<Arc<str>>,
    pub(super) began: Instant,
    pub(super) outcome: Outcome,
}

impl<'a> Counted<'a> {
    /// # Errors
    /// The call cannot be recorded, and is not to be made then.
    pub(super) fn begin(gateway: &'a Gateway, asked: &'a Asked, permitted: &Permitted) -> Result<Self, Problem> {
        let request = &asked.request;
        let parent = trace::of_message(request).or_else(|| asked.trace.clone());
        let tracer = gateway.tracer.as_ref();
        let context = (parent.is_some() || tracer.is_some()).then(|| TraceContext::continued(parent.as_ref()));
        let number = context.as_ref().map(TraceContext::trace_id);
        Ok(Self {
            asked,
            tool: permitted.metrics(),
            slug: if tracer.is_some() { permitted.server().slug().to_owned() } else { String::new() },
            tracer,
            parent,
            context,
            ticket: audit_leave(gateway, asked, permitted, number)?,
            rule: permitted.rule().cloned(),
            began: Instant::now(),
            outcome: Outcome::Cancelled,
        })
    }

    /// `traceparent` and `tracestate` for the server.
    pub(super) fn trace(&self) -> Option<(String, Option<String>)> {
        let context = self.context.as_ref()?;
        Some((context.traceparent().as_str().to_owned(), context.tracestate().map(str::to_owned)))
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let duration = self.began.elapsed();
        if let Some(tool) = &self.tool {
            tool.record(self.outcome, duration);
        }
        if let Some(ticket) = self.ticket.take() {
            ticket.finish(self.outcome, duration);
        }
        if let (Some(tracer), Some(context)) = (self.tracer, &self.context) {
            let name = self.asked.request.param_str("name").and_then(|_| named(self.asked));
            tracer.record_call(&lockgate_telemetry::Call {
                context,
                parent: self.parent.as_ref(),
                method: self.asked.request.method.as_str(),
                server: Some(&self.slug),
                tool: name.as_deref(),
                era: self.asked.era().as_str(),
                outcome: self.outcome,
                duration,
            });
        }
        if Record::wanted(true) {
            let who = format!("{}:{}", self.asked.principal.issuer, self.asked.principal.subject);
            Record {
                who: &who,
                method: self.asked.request.method.as_str(),
                name: named(self.asked).as_deref(),
                allowed: true,
                rule: self.rule.as_deref(),
                reason: None,
                outcome: self.outcome,
                duration,
                trace: self.context.as_ref(),
            }
            .log();
        }
    }
}
