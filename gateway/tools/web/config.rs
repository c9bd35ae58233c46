//! What the `web` server may do, already validated. It reads no file and no environment.

use std::time::Duration;

use ipnet::IpNet;
use lockgate_egress::Proxy;
use lockgate_policy::url::Spec;

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
    /// The operator's HTTP proxy for these calls; without it the one of `egress`, if there is one.
    pub proxy: Option<Proxy>,
}

impl Config {
    /// Whether a caller may be let to set a header of this name.
    ///
    /// # Errors
    /// Why not.
    pub fn check_header(name: &str) -> Result<(), String> {
        Headers::compile(&[name.to_owned()])?;
        Ok(())
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
