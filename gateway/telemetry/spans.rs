//! Spans that have ended, exported over OTLP/HTTP in the background. A call never waits for the
//! collector, and a collector that is slow or gone costs spans, which are counted.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::config::{Config, Export};
use crate::metrics::Metrics;
use crate::trace::TraceContext;

/// Spans that wait for the exporter; a further one is lost.
const QUEUE: usize = 2048;
/// Spans of one request to the collector.
const BATCH: usize = 512;
/// Longest time that a span waits for its batch to fill.
const LINGER: Duration = Duration::from_secs(2);
/// Time for one request to the collector, and for the last ones at the end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tracing cannot be set up as configured.
#[derive(Debug, thiserror::Error)]
#[error("OTLP export: {0}")]
pub struct TraceError(String);

/// Takes spans that have ended. Clones share one exporter.
#[derive(Clone, Debug)]
pub struct Tracer {
    queue: mpsc::Sender<Message>,
    lost: Arc<AtomicU64>,
    scope: InstrumentationScope,
    /// Of a thousand traces that begin here, so many are recorded.
    sampled: u16,
}

/// How the collector is reached.
#[derive(Clone, Default)]
pub struct Way {
    /// An HTTP proxy, with its credentials, and what is reached without it (as in `NO_PROXY`).
    pub proxy: Option<(url::Url, String)>,
    /// PEM file of further certificate authorities, besides the system's.
    pub ca_file: Option<PathBuf>,
}

impl Way {
    #[allow(clippy::disallowed_methods, reason = "the file of authorities that the operator named")]
    fn apply(&self, client: reqwest::ClientBuilder) -> Result<reqwest::ClientBuilder, TraceError> {
        let mut client = client.no_proxy();
        if let Some((url, direct)) = &self.proxy {
            let proxy = reqwest::Proxy::all(url.clone());
            let proxy = proxy.map_err(|error| TraceError(error.without_url().to_string()))?;
            client = client.proxy(proxy.no_proxy(reqwest::NoProxy::from_string(direct)));
        }
        if let Some(file) = &self.ca_file {
            let pem = std::fs::read(file).map_err(|error| unusable(file, &error))?;
            let all = reqwest::Certificate::from_pem_bundle(&pem);
            client = client.tls_certs_merge(all.map_err(|error| unusable(file, &error))?);
        }
        Ok(client)
    }
}

fn unusable(file: &Path, error: &dyn fmt::Display) -> TraceError {
    TraceError(format!("{}: {error}", file.display()))
}

#[derive(Debug)]
enum Message {
    Span(Box<SpanData>),
    /// Export what is there, then answer.
    Flush(oneshot::Sender<()>),
}

impl Tracer {
    /// Starts the exporter on the current runtime; `None` when no collector is configured. It
    /// follows no redirect.
    #[allow(
        clippy::disallowed_methods,
        reason = "a client for the collector alone; it follows nothing"
    )]
    pub fn start(
        config: &Config,
        metrics: &Metrics,
        way: &Way,
    ) -> Result<Option<Self>, TraceError> {
        let Some(endpoint) = &config.otlp else {
            return Ok(None);
        };
        let client = reqwest::Client::builder()
            .default_headers(read_headers(&config.export.headers)?)
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE);
        let client = way.apply(client)?.build();
        let client = client.map_err(|error| TraceError(error.to_string()))?;
        let resource = describe_process(&config.export);
        let collector =
            Collector { client, endpoint: endpoint.clone(), resource: (&resource).into() };
        let lost = metrics.lost_spans();
        let (queue, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(export(collector, waiting, lost.clone()));
        let scope = InstrumentationScope::builder("lockgate").build();
        Ok(Some(Self { queue, lost, scope, sampled: config.export.sampled }))
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
        if self.queue.try_send(Message::Span(Box::new(span))).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Exports what is queued; waits ten seconds at most.
    pub async fn flush(&self) {
        let (done, wait) = oneshot::channel();
        let flushed = async {
            if self.queue.send(Message::Flush(done)).await.is_ok() {
                // An error means that the exporter is gone, and then there is nothing to wait for.
                let _ = wait.await;
            }
        };
        let _ = timeout(PATIENCE, flushed).await;
    }

    /// Spans that were made and not exported.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

/// What spans say of the process that they are of.
fn describe_process(export: &Export) -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let further = export.resource.iter();
    let further = further.map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
    Resource::builder_empty()
        .with_attribute(version)
        .with_attributes(further)
        .with_service_name(export.service_name.clone())
        .build()
}

fn read_headers(configured: &BTreeMap<String, String>) -> Result<HeaderMap, TraceError> {
    let mut headers = HeaderMap::new();
    for (name, value) in configured {
        let Ok(key) = HeaderName::from_bytes(name.as_bytes()) else {
            return Err(TraceError(format!("{name} is no name of a header")));
        };
        let Ok(mut value) = HeaderValue::from_str(value) else {
            return Err(TraceError(format!("the value of the header {name} cannot be used")));
        };
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

/// Where spans go, and on whose behalf.
struct Collector {
    client: reqwest::Client,
    endpoint: url::Url,
    resource: ResourceAttributesWithSchema,
}

impl Collector {
    /// Posts one batch as protobuf (OTLP 1.0); any 2xx means that it was taken.
    async fn take(&self, batch: Vec<SpanData>) -> reqwest::Result<()> {
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        let request =
            self.client.post(self.endpoint.clone()).header(CONTENT_TYPE, "application/x-protobuf");
        request.body(body).send().await?.error_for_status().map(|_| ())
    }
}

/// Fills batches and sends them, until the last tracer is gone.
async fn export(collector: Collector, mut waiting: mpsc::Receiver<Message>, lost: Arc<AtomicU64>) {
    let mut open = true;
    while open {
        let mut batch = Vec::new();
        let mut flushed = None;
        let mut deadline = None;
        while batch.len() < BATCH && flushed.is_none() {
            let next = match deadline {
                None => waiting.recv().await,
                Some(deadline) => match timeout_at(deadline, waiting.recv()).await {
                    Ok(next) => next,
                    Err(_) => break,
                },
            };
            match next {
                Some(Message::Span(span)) => {
                    deadline.get_or_insert_with(|| Instant::now() + LINGER);
                    batch.push(*span);
                }
                Some(Message::Flush(done)) => flushed = Some(done),
                None => {
                    open = false;
                    break;
                }
            }
        }
        send(&collector, batch, &lost).await;
        if let Some(done) = flushed {
            let _ = done.send(());
        }
    }
}

async fn send(collector: &Collector, batch: Vec<SpanData>, lost: &AtomicU64) {
    let count = batch.len();
    if count == 0 {
        return;
    }
    let failure = match timeout(PATIENCE, collector.take(batch)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => in_words(error),
        Err(_) => "no answer in time".to_owned(),
    };
    lost.fetch_add(count as u64, Relaxed);
    let host = collector.endpoint.host_str().unwrap_or_default();
    let port = collector.endpoint.port_or_known_default().unwrap_or_default();
    tracing::warn!(
        spans = count,
        collector = format!("{host}:{port}"),
        error = failure,
        "spans were not exported (telemetry.otlp)"
    );
}

/// What went wrong, down to its cause. Not the URL, which may have more in it than an address.
fn in_words(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(deeper) = cause {
        words.push_str(&format!(": {deeper}"));
        cause = deeper.source();
    }
    words
}

#[cfg(test)]
mod tests;
