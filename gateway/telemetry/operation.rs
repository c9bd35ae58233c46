//! Spans of MCP operations, as the OpenTelemetry conventions for MCP describe them: a SERVER span
//! for what a client asks of the gateway, a CLIENT span for what the gateway asks of a server. What
//! they leave out is under `lockgate.`. Neither arguments nor results are recorded.
//! <https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/>

use std::borrow::Cow;
use std::time::{Duration, Instant, SystemTime};

use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{KeyValue, Value};
use opentelemetry_sdk::trace::SpanData;

use crate::durations::{CALLERS_FAULTS, Network, OTHER_METHOD};
use crate::spans::Tracer;
use crate::trace::TraceContext;

/// Longest text of an attribute, in bytes; what is beyond it is cut.
const MAX_TEXT: usize = 512;
/// How a call of a tool failed that was answered with `isError`.
pub const TOOL_ERROR: &str = "tool_error";

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    Tool(&'a str),
    Prompt(&'a str),
    Resource(&'a str),
    Nothing,
}

/// One operation that goes on. It is exported when it is dropped, unless its trace is not sampled:
/// then it costs no more than its context.
#[derive(Debug)]
pub struct OperationSpan {
    tracer: Tracer,
    context: TraceContext,
    parent: Option<TraceContext>,
    kind: SpanKind,
    method: &'static str,
    name: Option<String>,
    start: SystemTime,
    began: Instant,
    attributes: Vec<KeyValue>,
    status: Status,
}

impl OperationSpan {
    /// What a client asks. `parent` is where the client stands in its trace; `method` is empty for
    /// one that the protocol does not have.
    #[must_use]
    pub fn server(tracer: &Tracer, parent: Option<&TraceContext>, method: &'static str) -> Self {
        let context = match parent {
            Some(parent) => parent.child(),
            None => tracer.new_trace(),
        };
        Self::begin(tracer, context, parent, SpanKind::Server, method)
    }

    /// What the gateway asks of a server on behalf of `parent`.
    #[must_use]
    pub fn client(tracer: &Tracer, parent: &TraceContext, method: &'static str) -> Self {
        Self::begin(tracer, parent.child(), Some(parent), SpanKind::Client, method)
    }

    fn begin(
        tracer: &Tracer,
        context: TraceContext,
        parent: Option<&TraceContext>,
        kind: SpanKind,
        method: &'static str,
    ) -> Self {
        let method = if method.is_empty() { OTHER_METHOD } else { method };
        let mut span = Self {
            tracer: tracer.clone(),
            context,
            parent: parent.cloned(),
            kind,
            method,
            name: None,
            start: SystemTime::now(),
            began: Instant::now(),
            attributes: Vec::new(),
            status: Status::Unset,
        };
        span.set("mcp.method.name", method);
        span
    }

    /// Where the span stands: what it causes is a child of this.
    #[must_use]
    pub fn context(&self) -> &TraceContext {
        &self.context
    }

    /// What is asked for. The name of the span has it if `is_known`: what clients make up would
    /// give as many names of spans as they like.
    pub fn set_target(&mut self, target: Target<'_>, is_known: bool) {
        let named = match target {
            Target::Tool(name) => {
                self.set_text("gen_ai.tool.name", name);
                self.set("gen_ai.operation.name", "execute_tool");
                name
            }
            Target::Prompt(name) => {
                self.set_text("gen_ai.prompt.name", name);
                name
            }
            Target::Resource(uri) => return self.set_text("mcp.resource.uri", uri),
            Target::Nothing => return,
        };
        if is_known && self.context.is_sampled() {
            self.name = Some([self.method, " ", cut(named)].concat());
        }
    }

    /// The id of the request, as JSON text.
    pub fn set_request_id(&mut self, id: &[u8]) {
        let id = String::from_utf8_lossy(id);
        let text = match id.strip_prefix('"') {
            Some(text) => text.strip_suffix('"').unwrap_or(&id),
            None => &id,
        };
        self.set_text("jsonrpc.request.id", text);
    }

    /// The revision of the protocol that is spoken.
    pub fn set_protocol(&mut self, revision: &'static str) {
        self.set("mcp.protocol.version", revision);
    }

    /// The legacy session that it is part of.
    pub fn set_session(&mut self, id: &str) {
        self.set_text("mcp.session.id", id);
    }

    pub fn set_network(&mut self, network: Network) {
        match network {
            Network::Pipe => self.set("network.transport", "pipe"),
            Network::Http(version) => {
                self.set("network.transport", "tcp");
                self.set("network.protocol.name", "http");
                if let Some(version) = version {
                    self.set("network.protocol.version", version);
                }
            }
        }
    }

    /// Who is at the other end: the client of a SERVER span, the server of a CLIENT span.
    pub fn set_peer(&mut self, address: &str, port: Option<u16>) {
        let is_server = self.kind == SpanKind::Server;
        let address_key = if is_server { "client.address" } else { "server.address" };
        let port_key = if is_server { "client.port" } else { "server.port" };
        self.set_text(address_key, address);
        if let Some(port) = port {
            self.set(port_key, i64::from(port));
        }
    }

    /// It was answered with a JSON-RPC error. Which of them are failures of the operation depends
    /// on the side.
    pub fn answered_with_error(&mut self, code: i64, message: &str) {
        if !self.context.is_sampled() {
            return;
        }
        let text = code.to_string();
        if self.kind == SpanKind::Client || !CALLERS_FAULTS.contains(&code) {
            self.set("error.type", text.clone());
            self.status = Status::error(cut(message).to_owned());
        }
        self.set("rpc.response.status_code", text);
    }

    /// A tool was called and answered with `isError`.
    pub fn answered_with_tool_error(&mut self) {
        self.failed(TOOL_ERROR, "");
    }

    /// It failed without an answer. `kind` is one of few.
    pub fn failed(&mut self, kind: &'static str, message: &str) {
        if self.context.is_sampled() {
            self.set("error.type", kind);
            self.status = Status::error(cut(message).to_owned());
        }
    }

    /// Something that the conventions have no word for.
    pub fn note(&mut self, what: Note, text: &str) {
        self.set_text(what.key(), text);
    }

    /// Whether that has been said.
    #[must_use]
    pub fn has_note(&self, what: Note) -> bool {
        self.attributes.iter().any(|known| known.key.as_str() == what.key())
    }

    fn set_text(&mut self, key: &'static str, text: &str) {
        if self.context.is_sampled() {
            self.set(key, cut(text).to_owned());
        }
    }

    fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        if !self.context.is_sampled() {
            return;
        }
        let value = value.into();
        for known in &mut self.attributes {
            if known.key.as_str() == key {
                known.value = value;
                return;
            }
        }
        self.attributes.push(KeyValue::new(key, value));
    }

    fn data(&mut self, duration: Duration) -> SpanData {
        let context = &self.context;
        let mut state = TraceState::NONE;
        if let Some(text) = context.tracestate()
            && let Ok(said) = text.parse()
        {
            state = said;
        }
        let parent = match &self.parent {
            Some(parent) => SpanId::from(parent.span_id()),
            None => SpanId::INVALID,
        };
        let name = match self.name.take() {
            Some(name) => Cow::Owned(name),
            None => Cow::Borrowed(self.method),
        };
        SpanData {
            span_context: SpanContext::new(
                TraceId::from(context.trace_id()),
                SpanId::from(context.span_id()),
                TraceFlags::SAMPLED,
                false,
                state,
            ),
            parent_span_id: parent,
            parent_span_is_remote: self.parent.is_some() && self.kind == SpanKind::Server,
            span_kind: self.kind.clone(),
            name,
            start_time: self.start,
            end_time: self.start + duration,
            attributes: std::mem::take(&mut self.attributes),
            dropped_attributes_count: 0,
            events: Default::default(),
            links: Default::default(),
            status: std::mem::take(&mut self.status),
            instrumentation_scope: self.tracer.scope(),
        }
    }
}

impl Drop for OperationSpan {
    fn drop(&mut self) {
        if self.context.is_sampled() {
            let data = self.data(self.began.elapsed());
            self.tracer.record(data);
        }
    }
}

/// What spans say beyond the conventions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// The server that it went to, as it is named here.
    Server,
    /// How it ended, as the metrics have it.
    Outcome,
    /// The policy that denied it.
    Rule,
    /// Why it was denied.
    Denial,
    /// `rest` or `trpc`, for what came in another way than as MCP.
    Transport,
}

impl Note {
    /// The name of the attribute.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Server => "lockgate.server",
            Self::Outcome => "lockgate.outcome",
            Self::Rule => "lockgate.rule",
            Self::Denial => "lockgate.denial",
            Self::Transport => "lockgate.transport",
        }
    }
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or("")
}
