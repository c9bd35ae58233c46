//! `builtin.web`: the hosts open to requests, and limits.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::leaf::{List, Seconds, Size, Text, Toggle, Whole};

/// Requests to web servers and pages as text. Only the hosts listed here are reachable.
#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Web {
    /// Names of hosts that may be reached: `api.example.com`, or `*.example.com` for all below it.
    pub hosts: List,
    /// `true`: any public host. Addresses of private networks stay blocked, whichever names resolve
    /// to them.
    pub any_host: Toggle<false>,
    /// `http`, `https` or both. Default: both.
    pub schemes: Option<List>,
    /// Ports, each 1–65535. Default: 80 for http, 443 for https.
    pub ports: Vec<Whole<1, 65_535, 443>>,
    /// Addresses and networks that are allowed in addition to the public ones, such as
    /// `10.1.0.0/16`. Metadata services must be listed as single addresses. Default: none.
    pub addresses: List,
    /// Methods that `request` accepts, of GET, POST, PUT, PATCH, DELETE and HEAD. Default: all.
    pub methods: Option<List>,
    /// Request headers that a caller may set; `x-*` for all with this prefix. Default: accept,
    /// accept-language, authorization, cache-control, content-language, content-type,
    /// idempotency-key, if-match, if-modified-since, if-none-match, if-unmodified-since, prefer,
    /// range, x-api-key, x-request-id.
    pub headers: Option<List>,
    /// The `User-Agent` header. Default `lockgate/VERSION`.
    pub user_agent: Option<Text>,
    /// Time for one call with all its redirects, 1–295 s.
    pub timeout: Seconds<1, 295, 30>,
    /// Redirects that are followed, 0–20.
    pub redirects: Whole<0, 20, 5>,
    /// Largest body that may be sent, 0–32MiB.
    pub request_size: Size<0, 0x200_0000, 0x10_0000>,
    /// Bytes read of a body, after decompression, 1KiB–32MiB; the rest is not read, and the result
    /// states so.
    pub response_size: Size<0x400, 0x200_0000, 0x10_0000>,
    /// An HTTP proxy, instead of the one of `egress`.
    pub proxy: Option<WebProxy>,
}

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct WebProxy {
    /// `http://host:port`. Required.
    pub url: Text,
    /// User name, if the proxy requires one.
    pub user: Option<Text>,
    /// Password. A reference: `${PROXY_PASSWORD}` or `file:PATH`.
    pub password: Option<Text>,
    /// Where names are resolved: by the `gateway`, which checks the addresses and requests one of
    /// them from the proxy, or by the `proxy`, which receives names and must reject private
    /// addresses itself.
    pub resolve: Resolver,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, schemars(inline))]
pub enum Resolver {
    #[default]
    Gateway,
    Proxy,
}
