//! Requests to a server of embeddings, in the form of OpenAI, which Ollama, vLLM and others share.
//! Nothing is retried, and redirects are not followed. Errors contain neither texts nor the
//! address, headers or answers of the server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Error};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{HeaderMap, Method, Request, StatusCode};
use lockgate_config::Config;
use lockgate_egress::{Connector, Origin, Payload, Policy};
use lockgate_proxy::{Embedder, EmbeddingError, EmbeddingServer, Vector, normalize};
use lockgate_telemetry::Metrics;
use lockgate_text::json;
use lockgate_upstream::{BoxFuture, header_map};
use serde::{Deserialize, Serialize};
use url::Url;

/// Maximum bytes of a response.
const MAX_ANSWER: usize = 8 * 1024 * 1024;
/// Bytes of a response from which it is not parsed on a thread that serves requests.
const QUICKLY_PARSED: usize = 64 * 1024;
/// Maximum numbers of a vector.
const MAX_LENGTH: usize = 4096;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A configured server of embeddings.
struct EmbeddingClient {
    origin: Origin,
    headers: HeaderMap,
    model: String,
    metrics: Arc<Metrics>,
}

#[derive(Serialize)]
struct Question<'a> {
    model: &'a str,
    input: &'a [String],
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    /// Position of the text; some servers omit it.
    index: Option<usize>,
    embedding: Vec<f32>,
}

/// Returns the client of the configured server, if there is one.
///
/// # Errors
/// The address or a header cannot be used.
pub(crate) fn connect(
    config: &Config,
    connector: &Arc<Connector>,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Option<Arc<dyn Embedder>>> {
    let Some(server) = &config.proxy.tool_search.embeddings else { return Ok(None) };
    let client = EmbeddingClient::new(server, connector, metrics);
    Ok(Some(Arc::new(client.context("tool_search.embeddings")?)))
}

impl EmbeddingClient {
    fn new(
        server: &EmbeddingServer,
        connector: &Arc<Connector>,
        metrics: &Arc<Metrics>,
    ) -> anyhow::Result<Self> {
        let url = Url::parse(&server.url)?;
        let origin = Origin::new(Arc::clone(connector), &url, Policy::Operator)?;
        let mut headers = header_map(&server.headers).map_err(Error::msg)?;
        headers.insert(ACCEPT, JSON);
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(USER_AGENT, HeaderValue::from_static("lockgate"));
        let model = server.model.clone();
        Ok(Self { origin, headers, model, metrics: Arc::clone(metrics) })
    }

    async fn ask(&self, texts: Vec<String>) -> Result<Vec<Vector>, String> {
        let question = Question { model: &self.model, input: &texts };
        let body = serde_json::to_vec(&question).map_err(|error| error.to_string())?;
        let mut request = Request::new(Payload::from(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.origin.uri().clone();
        *request.headers_mut() = self.headers.clone();
        let response = self.origin.send(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err(format!("the response status is {status}"));
        }
        let body = response.into_body().collect_limited(MAX_ANSWER).await;
        let body = body.map_err(|error| error.to_string())?;
        if body.len() < QUICKLY_PARSED {
            return read(&body, texts.len());
        }
        let parsing = tokio::task::spawn_blocking(move || read(&body, texts.len()));
        parsing.await.map_err(|error| error.to_string())?
    }
}

impl Embedder for EmbeddingClient {
    fn embed(
        &self,
        texts: Vec<String>,
        timeout: Duration,
    ) -> BoxFuture<'_, Result<Vec<Vector>, EmbeddingError>> {
        Box::pin(async move {
            let vectors = match tokio::time::timeout(timeout, self.ask(texts)).await {
                Ok(vectors) => vectors.map_err(EmbeddingError::Failed),
                Err(_) => Err(EmbeddingError::TimedOut(timeout)),
            };
            self.metrics.embedded(vectors.is_ok());
            vectors
        })
    }
}

/// Returns the vectors in a response, in the order of the texts.
fn read(body: &[u8], texts: usize) -> Result<Vec<Vector>, String> {
    // The message of serde_json would quote the response.
    let Ok(Answer { data }) = json::from_slice(body) else {
        return Err("the response is not a list of embeddings".into());
    };
    if data.len() != texts {
        return Err(format!("the response has {} vectors for {texts} texts", data.len()));
    }
    let length = data.first().map_or(0, |first| first.embedding.len());
    if length > MAX_LENGTH {
        return Err(format!("a vector has {length} numbers, more than {MAX_LENGTH}"));
    }
    let mut vectors = vec![None; texts];
    for (position, Embedding { index, embedding }) in data.into_iter().enumerate() {
        if embedding.len() != length {
            return Err("the vectors have different lengths".into());
        }
        let Some(vector) = normalize(embedding) else {
            return Err("a vector has no direction, or numbers that are not finite".into());
        };
        if let Some(place) = vectors.get_mut(index.unwrap_or(position)) {
            *place = Some(vector);
        }
    }
    let vectors: Option<Vec<_>> = vectors.into_iter().collect();
    vectors.ok_or_else(|| "the response lacks the vector of a text".into())
}

#[cfg(test)]
mod tests;
