//! The Host and Origin checks against DNS rebinding, and the CORS headers for accepted web pages.
//! Independent of paths, credentials and MCP.

use std::net::IpAddr;
use std::sync::OnceLock;

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, HOST,
    HeaderValue, ORIGIN, VARY,
};
use http::uri::Authority;
use http::{HeaderMap, Uri};

use crate::config::Config;
use crate::error::ListenerError;
use crate::request_headers::single;

/// Request headers that a page may send, besides all that start with `mcp-`.
const HEADERS: [&str; 4] = ["authorization", "content-type", "accept", "last-event-id"];
/// Maximum length of `Access-Control-Request-Headers`; longer values are ignored.
const MAX_REQUESTED: usize = 4096;

pub(crate) struct OriginCheck {
    any_host: bool,
    hosts: Vec<(String, Option<u16>)>,
    /// The bound address, unless it is a wildcard address.
    bound: Option<IpAddr>,
    /// Normalised: lower case, without the default port.
    origins: Vec<String>,
}

impl OriginCheck {
    pub(crate) fn new(config: &Config) -> Self {
        let bound = config.listen.ip();
        let bound = if bound.is_unspecified() { None } else { Some(bound.to_canonical()) };
        let any_host = config.http.hosts.iter().any(|host| host == "*");
        let hosts = config.http.hosts.iter().filter_map(|host| split(host));
        let hosts = hosts.map(|(name, port)| (name.to_ascii_lowercase(), port));
        let origins =
            config.http.origins.iter().map(|origin| normalised(origin.trim_end_matches('/')));
        Self { any_host, hosts: hosts.collect(), bound, origins: origins.collect() }
    }

    /// Checks Host, then Origin. Returns the origin that receives CORS headers, if any.
    ///
    /// `local` is the local address of the connection: a probe may use any address of the machine,
    /// and an address cannot be rebound. `passed` caches the first accepted header of the
    /// connection.
    pub(crate) fn check_request(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        local: IpAddr,
        passed: &OnceLock<HeaderValue>,
    ) -> Result<Option<HeaderValue>, ListenerError> {
        self.host(uri.authority(), headers, local, passed)?;
        match single(headers, ORIGIN, ListenerError::Origin)? {
            Some(origin) if !self.origin(origin) => Err(ListenerError::Origin),
            origin => Ok(origin.cloned()),
        }
    }

    /// Checks both the target's authority (HTTP/2, or an absolute target) and the header.
    fn host(
        &self,
        authority: Option<&Authority>,
        headers: &HeaderMap,
        local: IpAddr,
        passed: &OnceLock<HeaderValue>,
    ) -> Result<(), ListenerError> {
        let header = single(headers, HOST, ListenerError::NoHost)?;
        if header.is_none() && authority.is_none() {
            return Err(ListenerError::NoHost);
        }
        if self.any_host {
            return Ok(());
        }
        if let Some(authority) = authority
            && !self.serves(authority.as_str(), local)
        {
            return Err(ListenerError::Host);
        }
        match header {
            Some(header) if passed.get() != Some(header) => {
                let Ok(host) = header.to_str() else { return Err(ListenerError::Host) };
                if !self.serves(host, local) {
                    return Err(ListenerError::Host);
                }
                // Copied, because the header itself is a slice of the connection's read buffer and
                // would keep it alive.
                if let Ok(copy) = HeaderValue::from_bytes(header.as_bytes()) {
                    passed.get_or_init(|| copy);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn serves(&self, host: &str, local: IpAddr) -> bool {
        let Some((name, port)) = split(host) else { return false };
        if is_loopback(name) {
            return true;
        }
        if let Some(ip) = address(name)
            && (ip == local.to_canonical() || self.bound == Some(ip))
        {
            return true;
        }
        self.hosts.iter().any(|(accepted, on)| {
            accepted.eq_ignore_ascii_case(name) && (on.is_none() || *on == port)
        })
    }

    fn origin(&self, origin: &HeaderValue) -> bool {
        let Ok(origin) = origin.to_str() else { return false };
        let Some((scheme, host)) = origin.split_once("://") else { return false };
        let web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
        if web
            && let Some((name, _)) = split(host)
            && is_loopback(name)
        {
            return true;
        }
        !self.origins.is_empty() && self.origins.contains(&normalised(origin))
    }
}

/// Adds the headers that let a page of `origin` read the response.
pub(crate) fn add_cors_headers(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(
        ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate"),
    );
    headers.append(VARY, HeaderValue::from_static("Origin"));
}

/// Adds the response to a preflight: the methods, and the requested headers that are allowed.
pub(crate) fn add_preflight_headers(
    headers: &mut HeaderMap,
    request: &HeaderMap,
    methods: &'static str,
) {
    let mut granted = Vec::new();
    if let Some(requested) = request.get(ACCESS_CONTROL_REQUEST_HEADERS)
        && let Ok(requested) = requested.to_str()
        && requested.len() <= MAX_REQUESTED
    {
        granted.extend(
            requested.split(',').filter(|name| is_mcp_header(name.trim())).map(|name| name.trim()),
        );
    }
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200"));
    headers.append(VARY, HeaderValue::from_static("Access-Control-Request-Headers"));
    if let Ok(granted) = HeaderValue::from_str(&granted.join(", "))
        && !granted.is_empty()
    {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, granted);
    }
}

fn is_mcp_header(name: &str) -> bool {
    if let Some(start) = name.get(..4)
        && start.eq_ignore_ascii_case("mcp-")
    {
        return true;
    }
    HEADERS.iter().any(|header| header.eq_ignore_ascii_case(name))
}

/// Splits `name`, `name:port`, `[v6]` or `[v6]:port` into name (without brackets) and port.
fn split(host: &str) -> Option<(&str, Option<u16>)> {
    let (name, rest) = if let Some(literal) = host.strip_prefix('[') {
        literal.split_once(']')?
    } else {
        host.split_at(host.find(':').unwrap_or(host.len()))
    };
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => None,
        Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
            Some(digits.parse().ok()?)
        }
        _ => return None,
    };
    if name.is_empty() { None } else { Some((name, port)) }
}

fn is_loopback(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    address(name).map_or_else(|| name.eq_ignore_ascii_case("localhost"), |ip| ip.is_loopback())
}

/// Parses an IP literal. The check of the first byte is a cheap filter for names.
fn address(name: &str) -> Option<IpAddr> {
    let first = name.bytes().next()?;
    if !first.is_ascii_digit() && !name.contains(':') {
        return None;
    }
    let ip: IpAddr = name.parse().ok()?;
    Some(ip.to_canonical())
}

fn normalised(origin: &str) -> String {
    let origin = origin.to_ascii_lowercase();
    let default = match origin.split_once("://") {
        Some(("http", _)) => ":80",
        Some(("https", _)) => ":443",
        _ => return origin,
    };
    match origin.strip_suffix(default) {
        Some(without) => without.to_owned(),
        None => origin,
    }
}

#[cfg(test)]
mod tests;
