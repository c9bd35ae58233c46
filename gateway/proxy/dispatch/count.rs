//! How calls went: metrics, spans and audit records, written once when a call ends, however it ends.

use std::sync::Arc;
use std::time::Instant;

use lockgate_protocol::meta;
use lockgate_telemetry::audit::Record;
use lockgate_telemetry::{Outcome, ToolMetrics, TraceContext, Tracer};

use crate::authorize::Permitted;
use crate::gateway::Gateway;
use crate::rescue::Problem;
use crate::stage::Asked;

/// One record of a request that policy refused.
pub(super) fn audit_denial(asked: &Asked, problem: &Problem) {
    if Record::wanted(false) {
        let who = format!("{}:{}", asked.principal.issuer, asked.principal.subject);
        let name = asked.request.param_str("name").or_else(|| asked.request.param_str("uri"));
        Record {
            who: &who,
            method: asked.request.method.as_str(),
            name: name.as_deref(),
            allowed: false,
            rule: &problem.message,
            outcome: Outcome::Denied,
            duration: std::time::Duration::ZERO,
            trace: None,
        }
        .log();
    }
}

/// One call on its way. Dropped before its end, it counts as cancelled.
pub(super) struct Counted<'a> {
    asked: &'a Asked,
    tool: Option<Arc<ToolMetrics>>,
    slug: String,
    tracer: Option<&'a Tracer>,
    parent: Option<TraceContext>,
    context: Option<TraceContext>,
    pub(super) began: Instant,
    pub(super) outcome: Outcome,
}

impl<'a> Counted<'a> {
    pub(super) fn begin(gateway: &'a Gateway, asked: &'a Asked, permitted: &Permitted) -> Self {
        let request = &asked.request;
        let parent = request
            .meta_str(meta::TRACEPARENT)
            .and_then(|parent| TraceContext::parse(&parent, request.meta_str(meta::TRACESTATE).as_deref()));
        let tracer = gateway.tracer.as_ref();
        let context = (parent.is_some() || tracer.is_some()).then(|| TraceContext::continued(parent.as_ref()));
        Self {
            asked,
            tool: permitted.metrics(),
            slug: if tracer.is_some() { permitted.server().slug().to_owned() } else { String::new() },
            tracer,
            parent,
            context,
            began: Instant::now(),
            outcome: Outcome::Cancelled,
        }
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
        if let (Some(tracer), Some(context)) = (self.tracer, &self.context) {
            let name = self.asked.request.param_str("name");
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
                name: self.asked.request.param_str("name").as_deref(),
                allowed: true,
                rule: "allow lists",
                outcome: self.outcome,
                duration,
                trace: self.context.as_ref(),
            }
            .log();
        }
    }
}
