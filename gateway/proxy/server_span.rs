//! The span of a request, as its client sees it: from its arrival to the end of its answer. Nothing
//! of it is there while spans go nowhere.

use lockgate_authn::Peer;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Revision;
use lockgate_telemetry::{Denial, Network, Note, OperationSpan, Outcome, Target, TraceContext};
use parking_lot::Mutex;

use crate::gateway::Gateway;
use crate::rescue::RequestError;
use crate::trace_context;
use crate::transport::{Exchange, Transport};

/// See the module.
pub(crate) struct ServerSpan(Mutex<OperationSpan>);

impl ServerSpan {
    /// The span of a message that has just been read.
    pub(crate) fn begin(
        gateway: &Gateway,
        exchange: &Exchange,
        request: &Request,
    ) -> Option<Box<Self>> {
        let tracer = gateway.tracer.as_ref()?;
        let parent = trace_context::of_message(request)
            .or_else(|| trace_context::of_exchange(&exchange.headers));
        let mut span = OperationSpan::server(tracer, parent.as_ref(), request.method.as_str());
        if !span.context().is_sampled() {
            return Some(Box::new(Self(Mutex::new(span))));
        }
        if !matches!(request.id(), b"" | b"null") {
            span.set_request_id(request.id());
        }
        describe_arrival(&mut span, exchange);
        let method = request.method;
        if let Some(name) = method.target().and_then(|key| request.param_str(key)) {
            span.set_target(target(method, &name), false);
        }
        Some(Box::new(Self(Mutex::new(span))))
    }

    pub(crate) fn context(&self) -> TraceContext {
        self.0.lock().context().clone()
    }

    /// The revision that is spoken, and the legacy session that it is part of.
    pub(crate) fn set_protocol(&self, revision: Revision, session: Option<&str>) {
        let mut span = self.0.lock();
        span.set_protocol(revision.as_str());
        if let Some(session) = session {
            span.set_session(session);
        }
    }

    /// What is asked for is there, at this server.
    pub(crate) fn set_destination(&self, method: Method, name: Option<&str>, server: &str) {
        let mut span = self.0.lock();
        if let Some(name) = name {
            span.set_target(target(method, name), true);
        }
        span.note(Note::Server, server);
    }

    /// Policy stopped it.
    pub(crate) fn deny(&self, problem: &RequestError, rule: Option<&str>, denial: Denial) {
        if let Some(rule) = rule {
            let mut span = self.0.lock();
            span.note(Note::Rule, rule);
            span.note(Note::Denial, denial.as_str());
            span.note(Note::Outcome, Outcome::Denied.as_str());
        }
        self.refuse(problem);
    }

    /// It is answered with an error, or not at all.
    pub(crate) fn refuse(&self, problem: &RequestError) {
        let mut span = self.0.lock();
        if !span.has_note(Note::Outcome) {
            span.note(Note::Outcome, problem.outcome.as_str());
        }
        if problem.is_withdrawn() {
            return;
        }
        if problem.is_result() {
            span.answered_with_tool_error();
        } else {
            span.answered_with_error(problem.code, &problem.message);
        }
    }

    /// How the call of a server ended. What is to be said of an error is said by
    /// [`Self::refuse`].
    pub(crate) fn end(&self, outcome: Outcome) {
        let mut span = self.0.lock();
        span.note(Note::Outcome, outcome.as_str());
        if outcome == Outcome::ToolError {
            span.answered_with_tool_error();
        }
    }
}

/// Tells the span of a request, where there is one, of the error that it is answered with.
pub(crate) fn refuse(span: Option<&ServerSpan>, problem: &RequestError) {
    if let Some(span) = span {
        span.refuse(problem);
    }
}

fn describe_arrival(span: &mut OperationSpan, exchange: &Exchange) {
    match exchange.peer {
        Peer::Stdio => span.set_network(Network::Pipe),
        Peer::Address(address) => {
            let arrival = lockgate_telemetry::request::arrival();
            span.set_network(Network::Http(arrival.and_then(|arrival| arrival.version)));
            let client = arrival.map_or(address, |arrival| arrival.address);
            let port = arrival.and_then(|arrival| arrival.port);
            span.set_peer(&client.to_string(), port);
        }
    }
    match exchange.transport {
        Transport::Mcp => {}
        Transport::Rest => span.note(Note::Transport, "rest"),
        Transport::Trpc => span.note(Note::Transport, "trpc"),
    }
}

fn target(method: Method, name: &str) -> Target<'_> {
    match method {
        Method::ToolsCall => Target::Tool(name),
        Method::PromptsGet => Target::Prompt(name),
        Method::ResourcesRead | Method::Subscribe | Method::Unsubscribe => Target::Resource(name),
        _ => Target::Nothing,
    }
}
