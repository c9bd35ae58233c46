//! Fetches JSON documents from an issuer, through egress. Redirects are not followed, and size and
//! time are bounded.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use lockgate_egress::{Config, Connector, Origin, Payload, Policy};
use serde_json::Value;
use url::Url;

/// Maximum size of a document, in bytes.
const MAX_BYTES: usize = 256 * 1024;
/// Timeout of a request, including connection setup.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct Outside {
    pub connector: Arc<Connector>,
    pub config: Config,
}

impl Outside {
    /// Fetches a document. `policy` is `Policy::Operator` for a URL that the operator configured.
    ///
    /// # Errors
    /// A description of why there is no document.
    pub async fn get(&self, url: &Url, policy: Policy) -> Result<Value, String> {
        match self.ask(url, policy, Request::new(Bytes::new().into())).await? {
            (StatusCode::OK, bytes) => read(&bytes),
            (status, _) => Err(format!("the response status is {status}")),
        }
    }

    /// Posts a form and returns the response, which must be JSON.
    pub(crate) async fn post(
        &self,
        url: &Url,
        policy: Policy,
        headers: HeaderMap,
        form: String,
    ) -> Result<(StatusCode, Value), String> {
        let mut request = Request::new(Bytes::from(form).into());
        *request.method_mut() = Method::POST;
        *request.headers_mut() = headers;
        let (status, bytes) = self.ask(url, policy, request).await?;
        match read(&bytes) {
            Err(_) if status != StatusCode::OK => Err(format!("the response status is {status}")),
            answer => Ok((status, answer?)),
        }
    }

    async fn ask(
        &self,
        url: &Url,
        policy: Policy,
        request: Request<Payload>,
    ) -> Result<(StatusCode, Bytes), String> {
        match tokio::time::timeout(FETCH_TIMEOUT, self.send(url, policy, request)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no response within {} s", FETCH_TIMEOUT.as_secs())),
        }
    }

    async fn send(
        &self,
        url: &Url,
        policy: Policy,
        mut request: Request<Payload>,
    ) -> Result<(StatusCode, Bytes), String> {
        let origin = Origin::new(Arc::clone(&self.connector), url, policy, &self.config)
            .map_err(|error| error.to_string())?;
        *request.uri_mut() = origin.uri().clone();
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let response = origin.send(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        let body = response.into_body().collect_limited(MAX_BYTES).await;
        Ok((status, body.map_err(|error| error.to_string())?))
    }
}

fn read(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("the response is not JSON: {error}"))
}
