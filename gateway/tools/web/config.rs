//! Validated settings of the `web` server. Reads no file and no environment.

use std::time::Duration;

use ipnet::IpNet;
use lockgate_egress::Proxy;
use lockgate_policy::url::Spec;

use super::headers::Headers;

/// Settings of the `web` server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Host names, as in the `url` rule.
    pub hosts: Vec<String>,
    /// Whether any host name is allowed. The addresses it resolves to are checked all the same.
    pub any_host: bool,
    pub schemes: Vec<String>,
    /// Empty: the default port of the scheme.
    pub ports: Vec<u16>,
    /// Networks that are allowed besides public addresses.
    pub networks: Vec<IpNet>,
    /// Methods that `request` accepts.
    pub methods: Vec<String>,
    /// Names of headers that a caller may set, in lower case; a name may end with `*`.
    pub headers: Vec<String>,
    pub user_agent: String,
    /// Timeout of a call with all its redirects.
    pub timeout: Duration,
    pub redirects: usize,
    pub request_bytes: usize,
    /// Maximum size of a body, after decompression.
    pub response_bytes: usize,
    /// The operator's HTTP proxy for these calls; by default the proxy of `egress`, if any.
    pub proxy: Option<Proxy>,
}

impl Config {
    /// Checks whether callers may be allowed to set a header.
    ///
    /// # Errors
    /// The reason if not.
    pub fn check_header(name: &str) -> Result<(), String> {
        Headers::compile(&[name.to_owned()])?;
        Ok(())
    }

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
