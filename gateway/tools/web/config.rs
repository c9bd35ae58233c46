//! Settings of the `web` server. Reads no file and no environment.

use std::time::Duration;

use lockgate_egress::{Proxy, parse_network};
use lockgate_policy::url::Spec;
use lockgate_text::setting::{List, Seconds, Size, Text, Toggle, Whole};
use lockgate_text::settings;
use url::Url;

use super::headers::Headers;

const HEADERS: [&str; 15] = [
    "accept",
    "accept-language",
    "authorization",
    "cache-control",
    "content-language",
    "content-type",
    "idempotency-key",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-unmodified-since",
    "prefer",
    "range",
    "x-api-key",
    "x-request-id",
];
const USER_AGENT: &str = concat!("lockgate/", env!("CARGO_PKG_VERSION"));

settings! {
    /// Requests to web servers and pages as text. Only the hosts listed here are reachable.
    #[derive(Debug)]
    pub struct Config as "Web" {
        /// Names of hosts that may be reached: `api.example.com`, or `*.example.com` for all below
        /// it.
        pub hosts: Vec<String> = List,
        /// `true`: any public host. Addresses of private networks stay blocked, whichever names
        /// resolve to them.
        pub any_host: bool = Toggle<false>,
        /// `http`, `https` or both. Default: both.
        pub schemes: Vec<String> = List | ["http", "https"],
        /// Ports, each 1–65535. Default: 80 for http, 443 for https.
        pub ports: Vec<u16> = Vec<Whole<1, 65_535, 443>>,
        /// Addresses and networks that are allowed in addition to the public ones, such as
        /// `10.1.0.0/16`. Metadata services must be listed as single addresses. Default: none.
        pub addresses: Vec<String> = List,
        /// Methods that `request` accepts, of GET, POST, PUT, PATCH, DELETE and HEAD. Default: all.
        pub methods: Vec<String> = List | Config::METHODS,
        /// Request headers that a caller may set; `x-*` for all with this prefix. Default: accept,
        /// accept-language, authorization, cache-control, content-language, content-type,
        /// idempotency-key, if-match, if-modified-since, if-none-match, if-unmodified-since,
        /// prefer, range, x-api-key, x-request-id.
        pub headers: Vec<String> = Option<List> => or_usual,
        /// The `User-Agent` header. Default `lockgate/VERSION`.
        pub user_agent: String = Text | USER_AGENT,
        /// Time for one call with all its redirects, 1–295 s.
        pub timeout: Duration = Seconds<1, 295, 30>,
        /// Redirects that are followed, 0–20.
        pub redirects: usize = Whole<0, 20, 5>,
        /// Largest body that may be sent, 0–32MiB.
        pub request_size: usize = Size<0, 0x200_0000, 0x10_0000>,
        /// Bytes read of a body, after decompression, 1KiB–32MiB; the rest is not read, and the
        /// result states so.
        pub response_size: usize = Size<0x400, 0x200_0000, 0x10_0000>,
        /// An HTTP proxy, instead of the one of `egress`.
        pub proxy: Option<WebProxy>,
    }

    pub struct WebProxy as "WebProxy" {
        /// `http://host:port`. Required.
        pub url: String = Text,
        /// User name, if the proxy requires one.
        pub user: Option<String> = Option<Text>,
        /// Password. A reference: `${PROXY_PASSWORD}` or `file:PATH`.
        pub password: Option<String> = Option<Text>,
        /// Where names are resolved: by the `gateway`, which checks the addresses and requests one
        /// of them from the proxy, or by the `proxy`, which receives names and must reject private
        /// addresses itself.
        pub resolve: Resolver,
    }

    /// Where names are resolved.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum Resolver { #[default] Gateway, Proxy }
}

/// Headers are compared in lower case.
fn or_usual(given: Option<List>) -> Vec<String> {
    let List(names) = given.unwrap_or_else(|| HEADERS.into());
    names.into_iter().map(|name| name.to_ascii_lowercase()).collect()
}

impl Config {
    /// The supported methods, the default of a request first.
    pub const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"];

    /// Checks whether callers may be allowed to set a header.
    ///
    /// # Errors
    /// The reason if not.
    pub fn check_header(name: &str) -> Result<(), String> {
        Headers::compile(&[name.to_owned()])?;
        Ok(())
    }

    /// Returns the operator's HTTP proxy for these calls; `None` for the proxy of `egress`, if any.
    pub(super) fn open_proxy(&self) -> Result<Option<Proxy>, String> {
        let Some(given) = &self.proxy else { return Ok(None) };
        let url = Url::parse(&given.url).map_err(|error| format!("proxy.url: {error}"))?;
        let password = given.password.as_deref().unwrap_or("");
        let credentials = given.user.as_deref().map(|user| (user, password));
        let resolves = given.resolve == Resolver::Proxy;
        let proxy = Proxy::new(&url, credentials, resolves);
        proxy.map(Some).map_err(|error| format!("proxy: {error}"))
    }

    pub(super) fn urls(&self) -> Spec {
        let networks = self.addresses.iter().filter_map(|text| parse_network(text));
        Spec {
            schemes: self.schemes.clone(),
            hosts: self.hosts.clone(),
            any_host: self.any_host,
            addresses: networks.map(|network| network.to_string()).collect(),
            ports: self.ports.clone(),
            paths: Vec::new(),
            max_bytes: 8192,
        }
    }
}

// Hides the credentials.
lockgate_text::debug_fields!(WebProxy: resolve);
