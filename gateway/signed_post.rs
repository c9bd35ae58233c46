//! Signed requests to an address of the configuration, as Standard Webhooks 1.0 has them. Of an
//! answer nothing but the status is looked at, and when to come again. Neither the address nor the
//! secret nor a header is in any error.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Request, StatusCode};
use lockgate_authn::Outside;
use lockgate_egress::{Origin, Payload, Policy, SetupError};
use url::Url;

/// Time for one attempt.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of an answer.
const MAX_ANSWER: usize = 64 * 1024;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Where requests go, and what they are signed with.
pub(crate) struct SignedPost {
    origin: Origin,
    secret: Vec<u8>,
    /// What the configuration adds; the requests' own go before.
    headers: HeaderMap,
}

/// What was answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// When it wants to be asked again.
    pub(crate) retry_after: Option<Duration>,
}

impl Answer {
    /// Whether the same again may be taken.
    pub(crate) fn may_pass(&self) -> bool {
        let busy = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
        self.status.is_server_error() || busy.contains(&self.status)
    }
}

impl SignedPost {
    /// # Errors
    /// The address cannot be used.
    pub(crate) fn new(url: &Url, secret: &[u8], outside: &Outside) -> Result<Self, SetupError> {
        let connector = Arc::clone(&outside.connector);
        let origin = Origin::new(connector, url, Policy::Operator, &outside.config)?;
        Ok(Self { origin, secret: secret.to_vec(), headers: HeaderMap::new() })
    }

    /// The same with further headers; none of them takes the place of one of its own.
    ///
    /// # Errors
    /// One cannot be used.
    pub(crate) fn with_headers(
        mut self,
        further: &BTreeMap<String, String>,
    ) -> anyhow::Result<Self> {
        for (name, value) in further {
            let name = HeaderName::from_bytes(name.as_bytes())?;
            let mut value = HeaderValue::from_str(value)?;
            value.set_sensitive(true);
            self.headers.insert(name, value);
        }
        Ok(self)
    }

    /// Sends a body of this media type once; `id` is the same whenever the same is sent again.
    ///
    /// # Errors
    /// There was no answer, in words.
    pub(crate) async fn send(
        &self,
        id: &str,
        media_type: &'static str,
        body: &Bytes,
    ) -> Result<Answer, String> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let request = self.write_request(id, since.as_secs(), media_type, body)?;
        let answer = tokio::time::timeout(PATIENCE, async {
            let response = match self.origin.send(request).await {
                Ok(response) => response,
                Err(error) => return Err(error.to_string()),
            };
            let status = response.status();
            let retry_after = retry_after(response.headers());
            // Read, so that the connection can be used again.
            let _ = response.into_body().collect_limited(MAX_ANSWER).await;
            Ok(Answer { status, retry_after })
        });
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err("no answer in time".into()),
        }
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

/// HMAC-SHA256 of id, time and body.
fn sign(secret: &[u8], id: &str, seconds: u64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let signed = [format!("{id}.{seconds}.").as_bytes(), body].concat();
    format!("v1,{}", STANDARD.encode(hmac::sign(&key, &signed)))
}

#[cfg(test)]
mod tests;
