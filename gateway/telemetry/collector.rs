//! A collector of OpenTelemetry data, reached over OTLP/HTTP by a dedicated client that follows no
//! redirects.
//! <https://opentelemetry.io/docs/specs/otlp/#otlphttp>

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_sdk::Resource;
use prost::bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};

use crate::config::Export;

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

#[derive(Debug)]
pub(crate) struct ExportFailure {
    pub(crate) words: String,
    /// A retry may succeed.
    pub(crate) is_passing: bool,
    /// The pause that the collector requested.
    pub(crate) wait: Option<Duration>,
}

impl Collector {
    #[allow(
        clippy::disallowed_methods,
        reason = "a client for the collector alone; it follows nothing"
    )]
    pub(crate) fn new(
        endpoint: &url::Url,
        export: &Export,
        way: &Way,
    ) -> Result<Self, ExportError> {
        // reqwest uses the provider of the process, which may be installed already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let client = reqwest::Client::builder()
            .default_headers(read_headers(&export.headers)?)
            .redirect(reqwest::redirect::Policy::none())
            .timeout(REQUEST_TIMEOUT);
        let resource = (&describe_process(export)).into();
        match way.apply(client)?.build() {
            Ok(client) => Ok(Self { client, endpoint: endpoint.clone(), resource }),
            Err(error) => Err(ExportError(error.to_string())),
        }
    }

    pub(crate) fn resource(&self) -> &ResourceAttributesWithSchema {
        &self.resource
    }

    /// Returns host and port only, because the rest of the URL may contain a secret.
    pub(crate) fn address(&self) -> String {
        let host = self.endpoint.host_str().unwrap_or("");
        let port = self.endpoint.port_or_known_default().unwrap_or(0);
        format!("{host}:{port}")
    }

    /// Posts one batch as protobuf. Any 2xx status means acceptance.
    pub(crate) async fn post(&self, batch: Bytes) -> Result<(), ExportFailure> {
        let request = self.client.post(self.endpoint.clone());
        let request = request.header(CONTENT_TYPE, "application/x-protobuf").body(batch);
        let answer = request.send().await.map_err(|error| ExportFailure {
            words: in_words(error),
            is_passing: true,
            wait: None,
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let is_passing = matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        );
        let wait = read_wait(answer.headers());
        Err(ExportFailure { words: format!("the collector returned {status}"), is_passing, wait })
    }
}

/// Returns the attributes of this process for spans and log records.
fn describe_process(export: &Export) -> Resource {
    let mut attributes = vec![KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))];
    for (name, value) in &export.resource {
        attributes.push(KeyValue::new(name.clone(), value.clone()));
    }
    Resource::builder_empty()
        .with_attributes(attributes)
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
