//! The queue of data for a collector. Adding to it never waits: a full queue drops new items. A
//! single task sends batches, and retries each until it is accepted or permanently rejected. Lost
//! items are counted.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_sdk::Resource;
use prost::bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::Export;
use crate::counters::Number;

/// Capacity of the queue; further items are lost.
pub(crate) const QUEUE_CAPACITY: usize = 2048;
/// Maximum items in one request to the collector.
const MAX_BATCH: usize = 512;
/// Maximum time that an item waits for its batch to fill.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
/// First and maximum pause before a retry.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// Time to export the remaining items at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// A kind of exported data.
pub(crate) trait Item: Sized {
    /// Log messages for a failed batch, and for the next successful one.
    const FAILED: &'static str;
    const RESUMED: &'static str;

    /// Encodes the request body of a batch (protobuf).
    fn encode(batch: Vec<Self>, resource: &ResourceAttributesWithSchema) -> Vec<u8>;
}

/// The sending half of the queue. Clones share the queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue<T> {
    places: mpsc::Sender<T>,
    pub(crate) lost: Arc<Number>,
    is_ending: watch::Sender<bool>,
}

/// The receiving half of the queue, drained by [`Waiting::export`].
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    queued: mpsc::Receiver<T>,
    lost: Arc<Number>,
    /// Set at the end of the process: failed batches are not retried.
    is_ending: watch::Receiver<bool>,
    /// The last attempt failed and was logged.
    is_failing: bool,
}

/// Creates a queue that counts lost items in `lost`.
pub(crate) fn queue<T>(lost: Arc<Number>) -> (Queue<T>, Waiting<T>) {
    let (places, queued) = mpsc::channel(QUEUE_CAPACITY);
    let (ends, is_ending) = watch::channel(false);
    let waiting = Waiting { queued, lost: Arc::clone(&lost), is_ending, is_failing: false };
    (Queue { places, lost, is_ending: ends }, waiting)
}

impl<T> Queue<T> {
    /// Queues the result of `make`, which is not called if the queue is full. Never waits.
    pub(crate) fn put(&self, make: impl FnOnce() -> T) {
        match self.places.try_reserve() {
            Ok(place) => place.send(make()),
            Err(_) => self.lost.add(1),
        }
    }

    /// Exports the queued items, with one attempt per batch, and ends the export. Waits at most
    /// three seconds.
    pub(crate) async fn end(&self) {
        self.is_ending.send_replace(true);
        let _ = timeout(SHUTDOWN_TIMEOUT, self.is_ending.closed()).await;
    }
}

impl<T: Item> Waiting<T> {
    /// Sends queued items to the collector until the queue ends.
    pub(crate) async fn export(mut self, collector: Collector) {
        while let Some(first) = self.next().await {
            let mut batch = vec![first];
            let deadline = Instant::now() + LINGER_TIMEOUT;
            while batch.len() < MAX_BATCH
                && let Ok(Some(item)) = timeout_at(deadline, self.next()).await
            {
                batch.push(item);
            }
            self.deliver(batch, &collector).await;
        }
    }

    /// Waits for the next item. Returns `None` after the last item of a queue that ends.
    async fn next(&mut self) -> Option<T> {
        tokio::select! {
            biased;
            item = self.queued.recv() => return item,
            () = until_end(&mut self.is_ending) => self.queued.close(),
        }
        self.queued.recv().await
    }

    async fn deliver(&mut self, batch: Vec<T>, collector: &Collector) {
        let count = batch.len() as u64;
        let body = Bytes::from(T::encode(batch, &collector.resource));
        let mut pause = FIRST_PAUSE;
        while let Err((error, wait)) = collector.post(body.clone()).await {
            // Only the first failure after a success is logged.
            if !std::mem::replace(&mut self.is_failing, true) {
                tracing::warn!(collector = collector.address(), error, "{}", T::FAILED);
            }
            let wait = match wait {
                Some(wait) if !is_ending(&self.is_ending) => wait.clamp(pause, MAX_PAUSE),
                _ => {
                    self.lost.add(count);
                    return;
                }
            };
            tokio::select! {
                () = sleep(wait.mul_f64(0.75 + fastrand::f64() / 4.0)) => {}
                () = until_end(&mut self.is_ending) => {}
            }
            pause = MAX_PAUSE.min(pause * 2);
        }
        if std::mem::take(&mut self.is_failing) {
            tracing::info!(lost = self.lost.get(), "{}", T::RESUMED);
        }
    }
}

/// Reports whether a queue ends, also by the loss of its senders.
fn is_ending(is_ending: &watch::Receiver<bool>) -> bool {
    *is_ending.borrow() || is_ending.has_changed().is_err()
}

/// Waits for the end of a queue, also by the loss of its senders.
async fn until_end(is_ending: &mut watch::Receiver<bool>) {
    let _ = is_ending.wait_for(|is_ending| *is_ending).await;
}

// A collector of OpenTelemetry data, reached over OTLP/HTTP by a dedicated client that follows no
// redirects: <https://opentelemetry.io/docs/specs/otlp/#otlphttp>

/// Timeout of one request to the collector.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The error of an invalid export configuration.
#[derive(Debug, thiserror::Error)]
#[error("OTLP export: {0}")]
pub struct ExportError(String);

/// The network path to a collector.
#[derive(Clone, Default)]
pub struct Way {
    /// An HTTP proxy with its credentials, and the hosts reached directly (as in `NO_PROXY`).
    pub proxy: Option<(url::Url, String)>,
    /// PEM file of further CA certificates, besides the system's.
    pub ca_file: Option<PathBuf>,
}

impl Way {
    #[allow(clippy::disallowed_methods, reason = "the file of authorities that the operator named")]
    fn apply(&self, client: reqwest::ClientBuilder) -> Result<reqwest::ClientBuilder, ExportError> {
        let mut client = client.no_proxy();
        if let Some((url, direct)) = &self.proxy {
            let proxy = reqwest::Proxy::all(url.clone())
                .map_err(|error| ExportError(error.without_url().to_string()))?;
            client = client.proxy(proxy.no_proxy(reqwest::NoProxy::from_string(direct)));
        }
        if let Some(file) = &self.ca_file {
            let pem = std::fs::read(file).map_err(|error| unusable(file, &error))?;
            let authorities = reqwest::Certificate::from_pem_bundle(&pem)
                .map_err(|error| unusable(file, &error))?;
            for authority in authorities {
                client = client.add_root_certificate(authority);
            }
        }
        Ok(client)
    }
}

fn unusable(file: &Path, error: &dyn fmt::Display) -> ExportError {
    ExportError(format!("{}: {error}", file.display()))
}

/// An OTLP endpoint, with its client and the resource that the data describes.
pub(crate) struct Collector {
    client: reqwest::Client,
    endpoint: url::Url,
    resource: ResourceAttributesWithSchema,
}

/// The cause of a failed export, and the least pause before a retry, if that may succeed.
type ExportFailure = (String, Option<Duration>);

impl Collector {
    #[allow(
        clippy::disallowed_methods,
        reason = "a client for the collector alone; it follows nothing"
    )]
    pub(crate) fn new(endpoint: &str, export: &Export, way: &Way) -> Result<Self, ExportError> {
        let endpoint = endpoint.parse();
        let endpoint = endpoint.map_err(|_| ExportError("the endpoint is not a URL".into()))?;
        // reqwest uses the provider of the process, which may be installed already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let client = reqwest::Client::builder()
            .default_headers(read_headers(&export.headers)?)
            .redirect(reqwest::redirect::Policy::none())
            .timeout(REQUEST_TIMEOUT);
        let resource = (&describe_process(export)).into();
        let client = way.apply(client)?.build();
        let client = client.map_err(|error| ExportError(error.to_string()))?;
        Ok(Self { client, endpoint, resource })
    }

    /// Returns host and port only, because the rest of the URL may contain a secret.
    pub(crate) fn address(&self) -> String {
        let host = self.endpoint.host_str().unwrap_or("");
        let port = self.endpoint.port_or_known_default().unwrap_or(0);
        format!("{host}:{port}")
    }

    /// Posts one batch as protobuf. Any 2xx status means acceptance.
    async fn post(&self, batch: Bytes) -> Result<(), ExportFailure> {
        let request = self.client.post(self.endpoint.clone());
        let request = request.header(CONTENT_TYPE, "application/x-protobuf").body(batch);
        let sent = request.send().await;
        let answer = sent.map_err(|error| (in_words(error), Some(Duration::ZERO)))?;
        let wait = match answer.status() {
            status if status.is_success() => return Ok(()),
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Some(read_wait(answer.headers()).unwrap_or_default()),
            _ => None,
        };
        Err((format!("the collector returned {}", answer.status()), wait))
    }
}

/// Returns the attributes of this process for spans and log records.
fn describe_process(export: &Export) -> Resource {
    let further = export.resource.iter();
    Resource::builder_empty()
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attributes(further.map(|(name, value)| KeyValue::new(name.clone(), value.clone())))
        .with_service_name(export.service_name.clone())
        .build()
}

fn read_headers(configured: &BTreeMap<String, String>) -> Result<HeaderMap, ExportError> {
    let mut headers = HeaderMap::new();
    for (name, value) in configured {
        let Ok(key) = HeaderName::from_bytes(name.as_bytes()) else {
            return Err(ExportError(format!("{name} is not a valid header name")));
        };
        let Ok(mut value) = HeaderValue::from_str(value) else {
            return Err(ExportError(format!("the value of the header {name} cannot be used")));
        };
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

/// Parses `Retry-After` in seconds. Dates are ignored in favour of the usual pause.
fn read_wait(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?;
    Some(Duration::from_secs(seconds.parse().ok()?))
}

/// Formats an error with its causes, without the URL, which may contain a secret.
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
