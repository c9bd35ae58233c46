//! A client's request from its arrival to the end of its response: its duration for the metrics,
//! and its span, if tracing is enabled.

use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, HeaderName};
use lockgate_admission::clock;
use lockgate_authn::Peer;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::key::Key;
use lockgate_protocol::meta;
use lockgate_protocol::revision::Revision;
use lockgate_telemetry::{
    Denial, Ending, Metrics, Network, Note, OperationLabels, OperationSpan, Outcome, TOOL_ERROR,
    ToolMetrics, TraceContext, Tracer,
};
use parking_lot::Mutex;

use crate::rescue::RequestError;
use crate::transport::{Exchange, Transport};

/// The metrics and span of a request; recorded on drop.
pub struct ServerOperation {
    metrics: Arc<Metrics>,
    began: Instant,
    state: Mutex<OperationState>,
}

struct OperationState {
    labels: OperationLabels,
    /// The called tool, if it exists.
    tool: Option<Arc<ToolMetrics>>,
    /// Set if tracing is enabled. Boxed, so that other requests do not carry its size.
    span: Option<Box<OperationSpan>>,
}

impl OperationState {
    fn end(&mut self, ending: Ending, message: &str) {
        self.labels.ending = ending;
        if let Some(span) = &mut self.span {
            span.ended(ending, message);
        }
    }
}

impl ServerOperation {
    pub(crate) fn begin(
        tracer: Option<&Tracer>,
        metrics: &Arc<Metrics>,
        exchange: &Exchange,
        request: &Request,
    ) -> Self {
        let labels = OperationLabels {
            method: request.method.as_str(),
            revision: None,
            network: find_network(exchange),
            ending: Ending::Success,
        };
        let span = tracer.map(|tracer| Box::new(begin_span(tracer, exchange, request)));
        Self {
            metrics: Arc::clone(metrics),
            began: clock::now(),
            state: Mutex::new(OperationState { labels, tool: None, span }),
        }
    }

    /// Sets the trace of the log's request scope: that of the span, or else the client's.
    pub(crate) fn tell_log(&self, exchange: &Exchange, request: &Request) {
        lockgate_telemetry::request::has_trace(|| {
            let own = self.context();
            own.or_else(|| trace_of_request(exchange, request))
        });
    }

    /// Returns the trace context of the span, if tracing is enabled.
    pub(crate) fn context(&self) -> Option<TraceContext> {
        self.state.lock().span.as_ref().map(|span| span.context().clone())
    }

    /// Records the client's revision, and its session.
    pub fn set_protocol(&self, revision: Revision, session: Option<&str>) {
        let mut state = self.state.lock();
        state.labels.revision = Some(revision.as_str());
        if let Some(span) = &mut state.span {
            span.set_protocol(revision.as_str());
            if let Some(session) = session {
                span.set_session(session);
            }
        }
    }

    pub(crate) fn set_tool(&self, tool: Option<Arc<ToolMetrics>>) {
        self.state.lock().tool = tool;
    }

    /// Returns whether tracing is enabled.
    pub(crate) fn is_traced(&self) -> bool {
        self.state.lock().span.is_some()
    }

    /// Records the requested item, once it is resolved to a server.
    pub(crate) fn set_destination(&self, name: Option<&str>, server: &str) {
        if let Some(span) = &mut self.state.lock().span {
            if let Some(name) = name {
                span.set_target(name, true);
            }
            span.note(Note::Server, server);
        }
    }

    pub(crate) fn deny(&self, problem: &RequestError, rule: Option<&str>, denial: Denial) {
        if let (Some(rule), Some(span)) = (rule, &mut self.state.lock().span) {
            span.note(Note::Rule, rule);
            span.note(Note::Denial, denial.as_str());
            span.note(Note::Outcome, Outcome::Denied.as_str());
        }
        self.refuse(problem);
    }

    /// Records the error sent as the response.
    pub fn refuse(&self, problem: &RequestError) {
        let mut state = self.state.lock();
        if problem.outcome != Outcome::Ok {
            if problem.is_result() {
                state.end(Ending::Failed(TOOL_ERROR), "");
            } else {
                state.end(Ending::answered(problem.code), &problem.message);
            }
        }
        if let Some(span) = &mut state.span
            && !span.has_note(Note::Outcome)
        {
            span.note(Note::Outcome, problem.outcome.as_str());
        }
    }

    /// Records the outcome of the server's call. Errors are described by [`Self::refuse`].
    pub(crate) fn end(&self, outcome: Outcome) {
        let mut state = self.state.lock();
        match outcome {
            Outcome::ToolError => state.end(Ending::Failed(TOOL_ERROR), ""),
            Outcome::Cancelled => state.labels.ending = Ending::Failed(outcome.as_str()),
            _ => {}
        }
        if let Some(span) = &mut state.span {
            span.note(Note::Outcome, outcome.as_str());
        }
    }
}

impl Drop for ServerOperation {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        self.metrics.served(state.tool.as_deref(), state.labels, self.began.elapsed());
    }
}

fn begin_span(tracer: &Tracer, exchange: &Exchange, request: &Request) -> OperationSpan {
    let parent = trace_of_request(exchange, request);
    let mut span = OperationSpan::server(tracer, parent.as_ref(), request.method.as_str());
    if !span.context().is_sampled() {
        return span;
    }
    if !matches!(request.id(), b"" | b"null") {
        span.set_request_id(request.id());
    }
    describe_arrival(&mut span, exchange);
    if let Some(key) = request.method.target()
        && let Some(name) = request.param_str(key)
    {
        span.set_target(&name, false);
    }
    span
}

/// Records the error of a request, if there is an operation for it.
pub fn refuse(operation: Option<&ServerOperation>, problem: &RequestError) {
    if let Some(operation) = operation {
        operation.refuse(problem);
    }
}

fn find_network(exchange: &Exchange) -> Network {
    match exchange.peer {
        Peer::Stdio => Network::Pipe,
        Peer::Address(_) | Peer::Forwarded(_) => {
            let arrival = lockgate_telemetry::request::arrival();
            Network::Http(arrival.and_then(|arrival| arrival.version))
        }
    }
}

fn describe_arrival(span: &mut OperationSpan, exchange: &Exchange) {
    span.set_network(find_network(exchange));
    if let Peer::Address(address) | Peer::Forwarded(address) = exchange.peer {
        let arrival = lockgate_telemetry::request::arrival();
        let (client, port) = match arrival {
            Some(arrival) => (arrival.address, arrival.port),
            None => (address, None),
        };
        span.set_peer(&client.to_string(), port);
    }
    match exchange.transport {
        Transport::Mcp => {}
        Transport::Rest => span.note(Note::Transport, "rest"),
        Transport::Trpc => span.note(Note::Transport, "trpc"),
    }
}

// The trace context of a request (W3C Trace Context). `_meta` applies to the message and takes
// precedence; the headers of the exchange are the fallback if `_meta` has no valid context. Invalid
// values are ignored.

static TRACEPARENT: HeaderName = HeaderName::from_static(meta::TRACEPARENT);
static TRACESTATE: HeaderName = HeaderName::from_static(meta::TRACESTATE);

/// Returns the context in a message, or else in the headers of its exchange.
fn trace_of_request(exchange: &Exchange, request: &Request) -> Option<TraceContext> {
    trace_of_message(request).or_else(|| trace_of_exchange(&exchange.headers))
}

/// Returns the trace context in the headers of an exchange.
pub fn trace_of_exchange(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all(&TRACEPARENT).iter();
    let parent = parents.next()?.to_str().ok()?;
    if parents.next().is_some() {
        return None;
    }
    TraceContext::parse(parent.trim(), read_state(headers).as_deref())
}

/// Repeated `tracestate` headers form a single list.
fn read_state(headers: &HeaderMap) -> Option<String> {
    let states = headers.get_all(&TRACESTATE).iter().map(|state| state.to_str().ok());
    let states: Vec<_> = states.collect::<Option<_>>()?;
    if states.is_empty() { None } else { Some(states.join(",")) }
}

pub(crate) fn trace_of_message(request: &Request) -> Option<TraceContext> {
    let parent = request.meta_str(Key::Traceparent)?;
    TraceContext::parse(&parent, request.meta_str(Key::Tracestate).as_deref())
}

#[cfg(test)]
mod tests;
