//! Spans that have ended, exported over OTLP/HTTP in the background. A call never waits for the
//! collector, and a collector that is slow or gone for long costs spans, which are counted.

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

/// Takes spans that have ended. Clones share one exporter.
#[derive(Clone, Debug)]
pub struct Tracer {
    queue: Queue<SpanData>,
    scope: InstrumentationScope,
    /// Of a thousand traces that begin here, so many are recorded.
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
    /// Starts the exporter on the current runtime; `None` when no collector is configured.
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

    /// The first context of a trace that no client has begun.
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

    /// Exports what is queued; waits three seconds at most.
    pub async fn flush(&self) {
        self.queue.flush().await;
    }

    /// Spans that were made and not exported.
    pub fn lost(&self) -> u64 {
        self.queue.lost()
    }
}

#[cfg(test)]
mod tests;
