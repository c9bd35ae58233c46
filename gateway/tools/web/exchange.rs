//! A call with its redirects. Every hop is checked like the first, headers and bodies for one
//! origin are not sent to another, and the whole call has one timeout and one size limit.

use bytes::Bytes;
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use lockgate_egress::{Body, Cause, ConnectError, GuardedError, Http1Error};
use lockgate_text::address::{Class, classify};
use lockgate_text::percent;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::Web;
use super::headers::{drop_body, leave_origin};
use super::reading::Intake;
use crate::tool::ToolError;

/// The request to send.
pub(super) struct Wish {
    pub(super) method: Method,
    /// As written by the caller.
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) follow: bool,
    /// Maximum number of bytes of the response body.
    pub(super) max: usize,
    pub(super) deadline: Instant,
}

pub(super) struct Reply {
    /// The final URL, after redirects.
    pub(super) url: Url,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// Whether the body was cut off.
    pub(super) truncated: bool,
    /// The URLs that redirected.
    pub(super) hops: Vec<String>,
}

impl Web {
    pub(super) async fn exchange(&self, wish: Wish) -> Result<Reply, ToolError> {
        let deadline = wish.deadline;
        let began = Instant::now();
        timeout_at(deadline, self.follow(wish)).await.unwrap_or_else(|_| {
            let after = deadline.duration_since(began).as_millis();
            Err(ToolError(format!(
                "there was no complete response within {after} ms; raise `timeout_ms`, or \
                    request less; the request may have been carried out"
            )))
        })
    }

    async fn follow(&self, mut wish: Wish) -> Result<Reply, ToolError> {
        let mut url = self.checked(&wish.url)?;
        wish.headers.insert(header::USER_AGENT, self.user_agent.clone());
        wish.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let mut hops = Vec::new();
        loop {
            let sent = self
                .client
                .send(wish.method.clone(), &url, wish.headers.clone(), wish.body.clone())
                .await;
            let response = sent.map_err(|error| failed(&error, &url))?;
            if wish.follow
                && let Some(next) = self.redirect(&response, &url, &mut wish)?
            {
                hops.push(url.to_string());
                let most = self.config.redirects;
                if hops.len() > most {
                    return Err(ToolError(format!("there were more than {most} redirects")));
                }
                url = next;
                continue;
            }
            let (Parts { status, headers, .. }, mut page) = response.into_parts();
            let read = read_body(&headers, &mut page, wish.max).await;
            let (body, truncated) = read.map_err(|words| {
                let status = status.as_u16();
                ToolError(format!("{} responded with {status}, but {words}", host(&url)))
            })?;
            return Ok(Reply { url, status, headers, body, truncated, hops });
        }
    }

    fn checked(&self, text: &str) -> Result<Url, ToolError> {
        let mut url = self.rule.check(text)?;
        url.set_fragment(None);
        Ok(url)
    }

    /// Returns the target of a redirect that may be followed, and adapts the request to it.
    fn redirect<B>(
        &self,
        response: &http::Response<B>,
        from: &Url,
        wish: &mut Wish,
    ) -> Result<Option<Url>, ToolError> {
        let keeps = match response.status().as_u16() {
            301 | 302 => wish.method != Method::POST,
            303 => matches!(wish.method, Method::GET | Method::HEAD),
            307 | 308 => true,
            _ => return Ok(None),
        };
        let Some(location) = response.headers().get(header::LOCATION) else { return Ok(None) };
        let location = String::from_utf8_lossy(location.as_bytes());
        let next = from.join(&location).map_err(|error| refused(from, &error.to_string()))?;
        let next = self.checked(&escaped(next)).map_err(|error| refused(from, &error.0))?;
        if from.scheme() == "https" && next.scheme() != "https" {
            return Err(refused(from, "it is not https"));
        }
        if !keeps {
            wish.method = Method::GET;
            wish.body = Bytes::new();
            drop_body(&mut wish.headers);
        }
        if from.origin() != next.origin() {
            // Only the caller can decide whether another origin may receive a body or a method with
            // effects.
            if !wish.body.is_empty() || !matches!(wish.method, Method::GET | Method::HEAD) {
                return Ok(None);
            }
            leave_origin(&mut wish.headers);
        }
        Ok(Some(next))
    }
}

fn refused(from: &Url, words: &str) -> ToolError {
    ToolError(format!("{} redirects to a URL that is refused: {words}", host(from)))
}

/// Reads the body up to its limit. Returns it, and whether it was cut off.
async fn read_body(
    headers: &HeaderMap,
    page: &mut Body,
    max: usize,
) -> Result<(Vec<u8>, bool), String> {
    let mut intake = Intake::new(headers, max)?;
    while let Some(chunk) = page.data().await.map_err(|error| error.to_string())? {
        if !intake.take(&chunk)? {
            break;
        }
    }
    intake.end()
}

/// Escapes a server's URL to the strict form that the rule requires.
fn escaped(mut url: Url) -> String {
    url.set_fragment(None);
    percent::encode(url.as_str(), |byte| byte.is_ascii() && !b"\"<>`^{|}".contains(&byte))
}

fn host(url: &Url) -> &str {
    url.host_str().unwrap_or("")
}

/// Describes a failed request. Addresses of internal networks are not disclosed.
fn failed(error: &GuardedError, url: &Url) -> ToolError {
    let host = host(url);
    if let GuardedError::Send(error) = error
        && let Cause::Http(http @ (Http1Error::Invalid(_) | Http1Error::TooLarge)) = &error.cause
    {
        let what = match http {
            Http1Error::TooLarge => {
                "a response with more than 100 headers, or more than 64 KiB of headers"
            }
            _ => "a response that is not HTTP",
        };
        return ToolError(format!("{host} sent {what}; the request may have been carried out"));
    }
    let (sent, connect) = match error {
        GuardedError::Url(error) => {
            return ToolError(format!("the request to {host} is invalid: {error}"));
        }
        GuardedError::Send(error) => match &error.cause {
            Cause::Connect(connect) => (error.sent, Some(connect)),
            Cause::Http(_) => (error.sent, None),
        },
    };
    ToolError(match connect {
        Some(ConnectError::Refused(address)) => {
            let class = match classify(*address) {
                Class::Loopback | Class::Unspecified => "this machine",
                Class::Metadata | Class::LinkLocal => "a metadata service or the local link",
                _ => "a network that is not public",
            };
            format!(
                "{host} resolves to {class}, which is not allowed for this tool; use a public \
                host"
            )
        }
        Some(ConnectError::Resolve(_)) => {
            format!(
                "DNS lookup failed for {host}: check the name, or set egress.proxy if only a \
                 proxy resolves it"
            )
        }
        Some(ConnectError::Connect(error)) => {
            format!("the connection to {host} failed: {}", error.kind())
        }
        Some(ConnectError::Tls(error)) => format!("{host} has no valid TLS: {error}"),
        // Callers may not see the address of the operator's proxy.
        Some(ConnectError::Proxy(error)) => {
            format!("{host} cannot be reached: the gateway's proxy failed: {}", error.cause)
        }
        Some(error @ ConnectError::Timeout) => format!("{host} cannot be reached: {error}"),
        None if sent => {
            format!("{host} sent no HTTP response; the request may have been carried out")
        }
        None => format!("{host} closed the connection before the request was sent; try again"),
    })
}
