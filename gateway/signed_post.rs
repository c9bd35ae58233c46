//! Signed requests to a configured address, as in Standard Webhooks 1.0. Of a response only the
//! status and `Retry-After` are used. Errors contain neither the address nor the secret nor any
//! header.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Request, StatusCode};
use lockgate_config::decode_webhook_secret;
use lockgate_egress::{Connector, Origin, Payload, Policy};
use lockgate_text::date;

/// Timeout of a single attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response in bytes.
const MAX_ANSWER: usize = 64 * 1024;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// The destination of requests and their signing key.
pub(crate) struct SignedPost {
    origin: Origin,
    secret: Vec<u8>,
    /// Headers from the configuration; the request's own headers take precedence.
    headers: HeaderMap,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<Duration>,
}

impl Answer {
    /// Reports whether a retry may succeed.
    pub(crate) fn may_pass(&self) -> bool {
        let busy = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
        self.status.is_server_error() || busy.contains(&self.status)
    }
}

impl SignedPost {
    /// Fails if the address or the secret (`whsec_` and base64) is not usable.
    pub(crate) fn new(
        url: &str,
        secret: &str,
        headers: HeaderMap,
        connector: &Arc<Connector>,
    ) -> anyhow::Result<Self> {
        let origin = Origin::new(Arc::clone(connector), &url.parse()?, Policy::Operator)?;
        let secret = decode_webhook_secret(secret).context("the secret is not usable")?;
        Ok(Self { origin, secret, headers })
    }

    /// Sends a body of this media type once. Retries of the same message use the same `id`.
    ///
    /// # Errors
    /// A description of why there was no response.
    pub(crate) async fn send(
        &self,
        id: &str,
        media_type: &'static str,
        body: &Bytes,
    ) -> Result<Answer, String> {
        let request = self.write_request(id, date::now(), media_type, body)?;
        let answer = tokio::time::timeout(ATTEMPT_TIMEOUT, async {
            let response = self.origin.send(request).await.map_err(|error| error.to_string())?;
            let status = response.status();
            let retry_after = retry_after(response.headers());
            // Read to the end so that the connection can be reused.
            let _ = response.into_body().collect_limited(MAX_ANSWER).await;
            Ok(Answer { status, retry_after })
        });
        answer.await.map_err(|_| String::from("no response in time"))?
    }

    fn write_request(
        &self,
        id: &str,
        seconds: u64,
        media_type: &'static str,
        body: &Bytes,
    ) -> Result<Request<Payload>, String> {
        let signature = sign(&self.secret, id, seconds, body);
        let mut request = Request::new(Payload::from(body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.origin.uri().clone();
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        headers.insert(USER_AGENT, HeaderValue::from_static("lockgate"));
        headers.insert(ID, header_value(id)?);
        headers.insert(TIMESTAMP, seconds.into());
        headers.insert(SIGNATURE, header_value(&signature)?);
        Ok(request)
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn header_value(text: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_str(text).map_err(|error| error.to_string())
}

/// Returns the HMAC-SHA256 signature over id, time and body.
fn sign(secret: &[u8], id: &str, seconds: u64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let signed = [format!("{id}.{seconds}.").as_bytes(), body].concat();
    format!("v1,{}", STANDARD.encode(hmac::sign(&key, &signed)))
}

#[cfg(test)]
mod tests;
