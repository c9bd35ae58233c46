//! One JSON document from an issuer, through egress: no redirect is followed, and size and time are
//! bounded.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use lockgate_egress::{Config, Connector, Origin, Policy};
use serde_json::Value;
use url::Url;

/// Most bytes of a document.
const MAX_BYTES: usize = 256 * 1024;
/// Time for one document, connecting included.
const PATIENCE: Duration = Duration::from_secs(10);

/// The way to the issuers.
#[derive(Clone)]
pub struct Outside {
    pub connector: Arc<Connector>,
    pub config: Config,
}

impl Outside {
    /// The document behind a URL that the operator's configuration named (`Policy::Operator`), or
    /// that an issuer did.
    pub(crate) async fn get(&self, url: &Url, policy: Policy) -> Result<Value, String> {
        let answer = tokio::time::timeout(PATIENCE, self.bytes(url, policy)).await;
        let bytes = answer.map_err(|_| format!("no answer within {} s", PATIENCE.as_secs()))??;
        serde_json::from_slice(&bytes).map_err(|error| format!("the answer is not JSON: {error}"))
    }

    async fn bytes(&self, url: &Url, policy: Policy) -> Result<Bytes, String> {
        let origin = Origin::new(Arc::clone(&self.connector), url, policy, &self.config)
            .map_err(|e| e.to_string())?;
        let mut request = Request::new(Bytes::new().into());
        *request.uri_mut() = origin.uri().clone();
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let response = origin.send(request).await.map_err(|error| error.to_string())?;
        if response.status() != StatusCode::OK {
            return Err(format!("the answer is {}", response.status()));
        }
        response.into_body().collect_limited(MAX_BYTES).await.map_err(|error| error.to_string())
    }
}
