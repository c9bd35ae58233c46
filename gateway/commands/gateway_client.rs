//! Requests to the API of a running gateway, each a single exchange with the caller's key. Errors
//! from the gateway are printed unchanged.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode};
use lockgate_config::Sources;
use lockgate_egress::{Config, Connector, Origin, Payload, Policy};
use serde_json::Value;
use url::Url;

use crate::commands::remote;

/// Timeout of an exchange: a validation takes up to 30 s.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(40);
/// Maximum size of a response in bytes.
const MAX_ANSWER: usize = 64 << 20;

pub(crate) struct GatewayClient {
    connector: Arc<Connector>,
    egress: Config,
    base: Url,
    key: Option<HeaderValue>,
}

impl GatewayClient {
    /// Creates a client for the gateway at `url`, with or without a trailing `/mcp`.
    pub(crate) fn new(url: &str, key: Option<&str>, sources: Sources) -> anyhow::Result<Self> {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let loaded = lockgate_config::load(&remote::sources(url, key, sources)?)?;
        let egress = loaded.config.egress;
        let mut base: Url = url.parse().context("--url")?;
        let path = base.path().trim_end_matches('/');
        let path = path.strip_suffix("/mcp").unwrap_or(path).to_owned();
        base.set_path(&path);
        let mut value = None;
        if let Some(key) = key.filter(|key| !key.is_empty()) {
            let mut header = HeaderValue::from_str(&format!("Bearer {key}")).context("--key")?;
            header.set_sensitive(true);
            value = Some(header);
        }
        Ok(Self { connector: Arc::new(Connector::new(&egress)?), egress, base, key: value })
    }

    /// Sends one request, escaping path segments. Returns null for a response without a body.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let mut target = self.base.clone();
        if let Ok(mut segments) = target.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        self.send_to(method, &target, body).await
    }

    /// Returns the items of a list with `text` in their names.
    pub(crate) async fn search(&self, list: &str, text: &str) -> anyhow::Result<Value> {
        let mut target = self.base.clone();
        if let Ok(mut segments) = target.path_segments_mut() {
            segments.pop_if_empty().extend(["api", list]);
        }
        target.query_pairs_mut().append_pair("search", text).append_pair("limit", "200");
        self.send_to(Method::GET, &target, None).await
    }

    async fn send_to(
        &self,
        method: Method,
        target: &Url,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let connector = Arc::clone(&self.connector);
        let origin = Origin::new(connector, target, Policy::Operator, &self.egress)?;
        let text = body.map(Value::to_string).unwrap_or_default();
        let mut request = Request::new(Payload::from(Bytes::from(text)));
        *request.method_mut() = method;
        *request.uri_mut() = origin.uri().clone();
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &self.key {
            headers.insert(AUTHORIZATION, key.clone());
        }
        let url = self.base.as_str();
        let answer = tokio::time::timeout(EXCHANGE_TIMEOUT, exchange(url, &origin, request)).await;
        answer.context(remote::describe_failure(url, "did not respond in time"))?
    }
}

async fn exchange(url: &str, origin: &Origin, request: Request<Payload>) -> anyhow::Result<Value> {
    let sent = origin.send(request).await;
    let response = sent.context(remote::describe_failure(url, "is unreachable"))?;
    let status = response.status();
    let body = response.into_body().collect_limited(MAX_ANSWER).await?;
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status.is_success() {
        return Ok(answer);
    }
    let words = answer.get("detail").or_else(|| answer.get("error")).and_then(Value::as_str);
    match (status, words) {
        (StatusCode::UNAUTHORIZED, _) => bail!(remote::KEY_REFUSED),
        (_, Some(words)) => bail!("{words}"),
        (status, None) => bail!("the gateway responded with {status}"),
    }
}
