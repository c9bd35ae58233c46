//! What the `web` server may do, already validated. It reads no file and no environment.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use ipnet::IpNet;
use lockgate_policy::url::Spec;
use url::Url;

use super::headers::Headers;

/// Settings of the `web` server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Names of hosts, as in the `url` rule.
    pub hosts: Vec<String>,
    /// Any name; what it resolves to is checked all the same.
    pub any_host: bool,
    pub schemes: Vec<String>,
    /// Empty: the port that the scheme stands for.
    pub ports: Vec<u16>,
    /// Networks that are open besides the public addresses.
    pub networks: Vec<IpNet>,
    /// Methods that `request` takes.
    pub methods: Vec<String>,
    /// Names of headers that a caller may set, in lower case; one may end with `*`.
    pub headers: Vec<String>,
    pub user_agent: String,
    /// Time for one call with all its redirects.
    pub timeout: Duration,
    pub redirects: usize,
    pub request_bytes: usize,
    /// Of a body, after decompression.
    pub response_bytes: usize,
    pub proxy: Option<Proxy>,
}

/// The operator's HTTP proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// `http`, without user information.
    pub url: Url,
    /// User and password.
    pub credentials: Option<(String, String)>,
    /// Names are resolved by the proxy, unchecked.
    pub resolves: bool,
}

impl Config {
    /// Whether a caller may be let to set a header of this name.
    ///
    /// # Errors
    /// Why not.
    pub fn check_header(name: &str) -> Result<(), String> {
        Headers::compile(&[name.to_owned()]).map(|_| ())
    }

    /// The rule for URLs.
    pub(super) fn urls(&self) -> Spec {
        Spec {
            schemes: self.schemes.clone(),
            hosts: self.hosts.clone(),
            any_host: self.any_host,
            addresses: self.networks.iter().map(ToString::to_string).collect(),
            ports: self.ports.clone(),
            paths: Vec::new(),
            max_bytes: 8192,
        }
    }
}

impl Proxy {
    pub(super) fn build(&self) -> Result<lockgate_egress::Proxy, String> {
        let authorization = self.credentials.as_ref().map(|(user, password)| {
            let mut value = HeaderValue::try_from(format!(
                "Basic {}",
                STANDARD.encode(format!("{user}:{password}"))
            ));
            if let Ok(value) = &mut value {
                value.set_sensitive(true);
            }
            value.map_err(|_| "proxy: the credentials cannot be sent".to_owned())
        });
        lockgate_egress::Proxy::new(&self.url, authorization.transpose()?, self.resolves)
            .map_err(|error| format!("proxy: {error}"))
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("url", &self.url.as_str())
            .field("resolves", &self.resolves)
            .finish_non_exhaustive()
    }
}
