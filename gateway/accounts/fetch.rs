//! JSON documents and forms of authorization servers, through egress: 64 KiB, 10 s, no redirects.
//! Hosts that the operator configured may be internal; those that metadata name must be public.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use lockgate_egress::{Connector, Origin, Payload, Policy};
use lockgate_text::json;
use serde_json::Value;
use url::{Host, Url};

use crate::error::{AccountError, Result};

/// Maximum size of a response, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// The content type of forms.
pub(crate) const FORM: &str = "application/x-www-form-urlencoded";
/// Lifetime of a document without `Cache-Control: max-age`.
pub(crate) const LIFETIME: Duration = Duration::from_secs(3600);
/// Limits of `max-age`. The lower one also applies to documents that may not be cached, so that
/// refreshes of many accounts share them.
const LIFETIMES: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(24 * 3600));

/// A fetched document, and the time for which it may be cached.
pub(crate) struct Fetched {
    pub(crate) document: Value,
    pub(crate) lifetime: Duration,
}

/// Sends the requests of OAuth on behalf of one server's accounts.
#[derive(Clone)]
pub(crate) struct Fetcher {
    connector: Arc<Connector>,
    /// Hosts in the settings of the server, and the addresses that they may have.
    named: Arc<[Host<String>]>,
    addresses: Policy,
}

impl Fetcher {
    pub(crate) fn new(connector: Arc<Connector>, named: &[&Url], addresses: Policy) -> Self {
        let hosts = named.iter().filter_map(|url| url.host());
        let named = hosts.map(|host| host.to_owned()).collect();
        Self { connector, named, addresses }
    }

    /// Fetches a document; `None` if the server has none at this URL (4xx).
    pub(crate) async fn get(&self, url: &Url) -> Result<Option<Fetched>> {
        let response = self.send(url, Request::new(Payload::default())).await?;
        match response.status().as_u16() {
            200 => {
                let lifetime = lifetime_of(response.headers());
                Ok(Some(Fetched { document: read(url, response.body())?, lifetime }))
            }
            status @ (429 | 500..) => Err(unreachable(url, &format!("HTTP status {status}"))),
            _ => Ok(None),
        }
    }

    /// Posts a form or a document, and returns the status and the JSON response; `Null` for other
    /// responses.
    pub(crate) async fn post(
        &self,
        url: &Url,
        kind: &'static str,
        headers: HeaderMap,
        body: String,
    ) -> Result<(StatusCode, Value)> {
        let mut request = Request::new(Payload::from(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.headers_mut() = headers;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        let response = self.send(url, request).await?;
        let answer = json::from_slice(response.body()).unwrap_or(Value::Null);
        Ok((response.status(), answer))
    }

    async fn send(&self, url: &Url, request: Request<Payload>) -> Result<Response<Bytes>> {
        check_scheme(url)?;
        let connector = Arc::clone(&self.connector);
        let fetched = match Origin::new(connector, url, self.policy_for(url)) {
            Ok(origin) => origin.fetch(request, MAX_BYTES).await,
            Err(error) => Err(error.to_string()),
        };
        fetched.map_err(|error| unreachable(url, &error))
    }

    fn policy_for(&self, url: &Url) -> Policy {
        let host = url.host().map(|host| host.to_owned());
        let is_named = host.is_some_and(|host| self.named.contains(&host));
        if is_named { self.addresses } else { Policy::Public }
    }
}

/// Returns the time for which a response may be cached (RFC 9111).
fn lifetime_of(headers: &HeaderMap) -> Duration {
    let mut lifetime = LIFETIME;
    for value in headers.get_all(CACHE_CONTROL) {
        for directive in value.to_str().unwrap_or("").split(',') {
            let directive = directive.trim().to_ascii_lowercase();
            if matches!(&*directive, "no-store" | "no-cache") {
                return LIFETIMES.0;
            }
            let seconds = directive.strip_prefix("max-age=").map(|age| age.trim_matches('"'));
            if let Some(seconds) = seconds.and_then(|seconds| seconds.parse().ok()) {
                lifetime = Duration::from_secs(seconds).clamp(LIFETIMES.0, LIFETIMES.1);
            }
        }
    }
    lifetime
}

/// Rejects addresses that are neither https nor on this machine.
pub(crate) fn check_scheme(url: &Url) -> Result<()> {
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    if url.scheme() == "https" || url.scheme() == "http" && is_loopback {
        return Ok(());
    }
    Err(AccountError::Invalid(format!("the address {} is not https", shown(url))))
}

/// Returns a URL for messages, without its query.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    format!("{:.200}", url.as_str())
}

fn unreachable(url: &Url, why: &str) -> AccountError {
    AccountError::Unreachable(format!("{}: {why}", shown(url)))
}

fn read(url: &Url, body: &[u8]) -> Result<Value> {
    let object = json::from_slice(body).ok().filter(Value::is_object);
    object.ok_or_else(|| AccountError::Invalid(format!("{} is not a JSON object", shown(url))))
}

#[cfg(test)]
mod tests;
