//! Ended spans, exported over OTLP/HTTP in the background. Calls never wait for the collector;
//! while it is slow or unreachable, spans are dropped and counted.

use opentelemetry::InstrumentationScope;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::trace::SpanData;
use prost::Message as _;

use crate::batches::{self, Queue, Signal};
use crate::collector::{Collector, ExportError, Way};
use crate::config::Config;
use crate::metrics::Metrics;
use crate::trace::TraceContext;

/// A recorder of ended spans. Clones share one exporter.
#[derive(Clone, Debug)]
pub struct Tracer {
    queue: Queue<SpanData>,
    scope: InstrumentationScope,
    /// Recorded traces per thousand that begin here.
    sampled: u16,
}

struct Spans;

impl Signal for Spans {
    type Item = SpanData;
    const FAILED: &'static str = "spans were not exported (telemetry.otlp)";
    const RESUMED: &'static str = "spans are exported again (telemetry.otlp)";

    fn encode(batch: Vec<SpanData>, resource: &ResourceAttributesWithSchema) -> Vec<u8> {
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
        let Some(endpoint) = &config.otlp else {
            return Ok(None);
        };
        let collector = Collector::new(endpoint, &config.export, way)?;
        let (queue, waiting) = batches::queue(metrics.lost_spans());
        tokio::spawn(waiting.export::<Spans>(collector));
        let scope = InstrumentationScope::builder("lockgate").build();
        Ok(Some(Self { queue, scope, sampled: config.export.sampled }))
    }

    /// Returns the first context of a trace without a client context.
    pub(crate) fn new_trace(&self) -> TraceContext {
        TraceContext::root(fastrand::u16(..1000) < self.sampled)
    }

    pub(crate) fn scope(&self) -> InstrumentationScope {
        self.scope.clone()
    }

    /// Queues one span. Never waits.
    pub(crate) fn record(&self, span: SpanData) {
        self.queue.put(|| span);
    }

    /// Exports the queued spans. Waits at most three seconds.
    pub async fn flush(&self) {
        self.queue.flush().await;
    }

    /// Returns the number of spans that were not exported.
    pub fn lost(&self) -> u64 {
        self.queue.lost()
    }
}

#[cfg(test)]
mod tests;
