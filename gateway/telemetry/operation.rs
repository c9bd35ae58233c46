//! Spans of MCP operations by the OpenTelemetry conventions for MCP: a SERVER span for a client's
//! request to the gateway, a CLIENT span for the gateway's request to a server. Further attributes
//! are under `lockgate.`. Arguments and results are never recorded.
//! <https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/>

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::trace::SpanData;
use prost::Message as _;

use crate::Config;
use crate::batches::{self, Collector, ExportError, Item, Queue, Way};
use crate::labels::{Ending, Network, OTHER_METHOD};
use crate::metrics::Metrics;
use crate::trace::TraceContext;

/// Maximum bytes of an attribute's text; longer texts are truncated.
const MAX_TEXT: usize = 512;
/// The error type of a tool call answered with `isError`.
pub const TOOL_ERROR: &str = "tool_error";

/// An operation in progress, exported on drop.
#[derive(Debug)]
pub struct OperationSpan {
    tracer: Tracer,
    context: TraceContext,
    method: &'static str,
    began: Instant,
    /// `None` if the trace is not sampled, so that the span costs no more than its context.
    data: Option<Box<SpanData>>,
}

impl OperationSpan {
    /// Starts the span of a client's request. `parent` is the client's trace context; `method` is
    /// empty for methods that the protocol does not define.
    pub fn server(tracer: &Tracer, parent: Option<&TraceContext>, method: &'static str) -> Self {
        let context = match parent {
            Some(parent) => parent.child(),
            None => TraceContext::root(fastrand::u16(..1000) < tracer.sampled),
        };
        Self::begin(tracer, context, parent, SpanKind::Server, method)
    }

    /// Starts the span of the gateway's request to a server on behalf of `parent`.
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
        let began = Instant::now();
        let mut span = Self { tracer: tracer.clone(), context, method, began, data: None };
        if span.context.is_sampled() {
            span.data = Some(Box::new(span.describe(parent, kind)));
            span.set("mcp.method.name", method);
        }
        span
    }

    fn describe(&self, parent: Option<&TraceContext>, span_kind: SpanKind) -> SpanData {
        let context = &self.context;
        let state = context.tracestate().and_then(|text| text.parse().ok());
        let start_time = SystemTime::now();
        SpanData {
            span_context: SpanContext::new(
                TraceId::from(context.trace_id()),
                SpanId::from(context.span_id()),
                TraceFlags::SAMPLED,
                false,
                state.unwrap_or_default(),
            ),
            parent_span_id: parent.map_or(SpanId::INVALID, |parent| parent.span_id().into()),
            parent_span_is_remote: parent.is_some() && span_kind == SpanKind::Server,
            span_kind,
            name: Cow::Borrowed(self.method),
            start_time,
            end_time: start_time,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: Default::default(),
            links: Default::default(),
            status: Status::Unset,
            instrumentation_scope: self.tracer.scope.clone(),
        }
    }

    /// Returns the context of the span, which is the parent of dependent operations.
    pub fn context(&self) -> &TraceContext {
        &self.context
    }

    /// Sets the requested item. The span name contains its name only if `is_known`, because
    /// client-chosen names would create an unlimited number of span names.
    pub fn set_target(&mut self, target: &str, is_known: bool) {
        match self.method {
            "tools/call" => {
                self.set_text("gen_ai.tool.name", target);
                self.set("gen_ai.operation.name", "execute_tool");
            }
            "prompts/get" => self.set_text("gen_ai.prompt.name", target),
            "resources/read"
            | "resources/directory/read"
            | "resources/subscribe"
            | "resources/unsubscribe"
            | "skills/get" => return self.set_text("mcp.resource.uri", target),
            _ => return,
        }
        if is_known && let Some(data) = &mut self.data {
            data.name = Cow::Owned([self.method, " ", cut(target)].concat());
        }
    }

    /// Sets the id of the request, given as JSON text.
    pub fn set_request_id(&mut self, id: &[u8]) {
        let id = String::from_utf8_lossy(id);
        let text = match id.strip_prefix('"') {
            Some(text) => text.strip_suffix('"').unwrap_or(&id),
            None => &id,
        };
        self.set_text("jsonrpc.request.id", text);
    }

    /// Sets the protocol revision.
    pub fn set_protocol(&mut self, revision: &'static str) {
        self.set("mcp.protocol.version", revision);
    }

    /// Sets the legacy session.
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

    /// Sets the peer: the client of a SERVER span, the server of a CLIENT span.
    pub fn set_peer(&mut self, address: &str, port: Option<u16>) {
        let Some(data) = &self.data else { return };
        let is_server = data.span_kind == SpanKind::Server;
        let address_key = if is_server { "client.address" } else { "server.address" };
        let port_key = if is_server { "client.port" } else { "server.port" };
        self.set_text(address_key, address);
        if let Some(port) = port {
            self.set(port_key, i64::from(port));
        }
    }

    /// Records how the operation ended, with the message of an error.
    pub fn ended(&mut self, ending: Ending, message: &str) {
        let Some(data) = &mut self.data else { return };
        if let Some(error) = ending.error_type() {
            data.status = Status::error(cut(message).to_owned());
            self.set("error.type", error);
        }
        if let Some(code) = ending.status_code() {
            self.set("rpc.response.status_code", code);
        }
    }

    /// Sets an attribute beyond the conventions.
    pub fn note(&mut self, what: Note, text: &str) {
        self.set_text(what.as_str(), text);
    }

    /// Returns whether the attribute is set.
    pub fn has_note(&self, what: Note) -> bool {
        let Some(data) = &self.data else { return false };
        data.attributes.iter().any(|known| known.key.as_str() == what.as_str())
    }

    fn set_text(&mut self, key: &'static str, text: &str) {
        if self.data.is_some() {
            self.set(key, cut(text).to_owned());
        }
    }

    fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        let Some(data) = &mut self.data else { return };
        let value = value.into();
        match data.attributes.iter_mut().find(|known| known.key.as_str() == key) {
            Some(known) => known.value = value,
            None => data.attributes.push(KeyValue::new(key, value)),
        }
    }
}

impl Drop for OperationSpan {
    fn drop(&mut self) {
        if let Some(mut data) = self.data.take() {
            data.end_time += self.began.elapsed();
            self.tracer.queue.put(|| *data);
        }
    }
}

lockgate_text::words! {
    /// The attributes beyond the conventions, by name.
    pub enum Note {
        /// The configured name of the called server.
        Server = "lockgate.server",
        /// The outcome, as in the metrics.
        Outcome = "lockgate.outcome",
        /// The policy that denied the request.
        Rule = "lockgate.rule",
        /// The reason for the denial.
        Denial = "lockgate.denial",
        /// `rest` or `trpc`, for requests that did not arrive as MCP.
        Transport = "lockgate.transport",
    }
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or("")
}

/// The trace of a call.
#[derive(Clone, Debug)]
pub struct CallTrace {
    parent: TraceContext,
    /// The recorder of requests to the server; `None` without an export.
    tracer: Option<Tracer>,
}

impl CallTrace {
    pub fn new(parent: TraceContext, tracer: Option<Tracer>) -> Self {
        Self { parent, tracer }
    }

    /// Starts the span of a request to the server, if it is recorded.
    pub fn begin(&self, method: &'static str) -> Option<Box<OperationSpan>> {
        let tracer = self.tracer.as_ref().filter(|_| self.parent.is_sampled())?;
        Some(Box::new(OperationSpan::client(tracer, &self.parent, method)))
    }

    /// Returns the context to send with a request: that of its span, if it is recorded.
    pub fn context(&self, span: Option<&OperationSpan>) -> TraceContext {
        span.map_or_else(|| self.parent.child(), |span| span.context().clone())
    }
}

// Ended spans, exported over OTLP/HTTP in the background. Calls never wait for the collector; while
// it is slow or unreachable, spans are dropped and counted.

/// A recorder of ended spans. Clones share one exporter.
#[derive(Clone, Debug)]
pub struct Tracer {
    queue: Queue<SpanData>,
    scope: InstrumentationScope,
    /// Recorded traces per thousand that begin here.
    sampled: u16,
}

impl Item for SpanData {
    const FAILED: &'static str = "spans were not exported (telemetry.otlp)";
    const RESUMED: &'static str = "spans are exported again (telemetry.otlp)";

    fn encode(batch: Vec<Self>, resource: &ResourceAttributesWithSchema) -> Vec<u8> {
        let resource_spans = group_spans_by_resource_and_scope(batch, resource);
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }
}

impl Tracer {
    /// Starts the exporter on the current runtime. Returns `None` if no collector is configured.
    pub fn start(
        config: &Config,
        metrics: &Metrics,
        way: &Way,
    ) -> Result<Option<Self>, ExportError> {
        let Some(endpoint) = &config.export.otlp else {
            return Ok(None);
        };
        let collector = Collector::new(endpoint, &config.export, way)?;
        let (queue, waiting) = batches::queue(Arc::clone(&metrics.0.lost_spans));
        tokio::spawn(waiting.export(collector));
        let scope = InstrumentationScope::builder("lockgate").build();
        Ok(Some(Self { queue, scope, sampled: config.export.sampled }))
    }

    /// Exports the queued spans, and ends the export. Waits at most three seconds.
    pub async fn flush(&self) {
        self.queue.end().await;
    }
}

#[cfg(test)]
mod tests;
