//! The `url` rule: the URLs that an argument may contain, by scheme, host, port and path. A URL
//! that two parsers could read differently is refused, because the server parses the argument
//! again. The rule resolves no names: for a server that does, it is only as reliable as the listed
//! names.

mod host;
mod text;

use std::net::IpAddr;

use ::url::Position;
use ipnet::IpNet;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use crate::refusal::check_size;
use crate::{Refusal, no};
use host::{Hosts, Named};
use text::Parts;

/// Networks that a wider network does not include: this machine, the link, cloud metadata.
const APART: &str = "0.0.0.0/8 127.0.0.0/8 169.254.0.0/16 100.100.100.200/32 ::/128 ::1/128 \
    fe80::/10 fd00:ec2::254/128";

const AMBIGUOUS: &str = "parsers disagree on where this URL leads: write it as scheme://host/path";

/// The rule as it is written in a policy file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Schemes: `http`, `https`, `ws`, `wss`. Default `https` alone.
    pub schemes: Vec<String>,
    /// Names of hosts: exactly, as `api.example.com`, or all below a name, as `*.example.com`.
    /// Default none.
    pub hosts: Vec<String>,
    /// Any name and any public address, except names of local machines (`localhost`, `*.local`,
    /// `*.internal`, `*.svc`, `*.docker` and the like, names without a dot, names of services that
    /// resolve to the address in them). Any other name may still resolve to a private address, so
    /// this does not protect a server that resolves names itself.
    pub any_host: bool,
    /// Address literals, as `192.0.2.7` or `10.1.0.0/16`, that may be used in place of a name.
    /// Default none. Addresses of this machine, of the link and of cloud metadata are only allowed
    /// by a network that contains no others.
    pub addresses: Vec<String>,
    /// Ports. Default: the default port of the scheme.
    pub ports: Vec<u16>,
    /// Paths, each with everything below it: `/v1` allows `/v1` and `/v1/a`, not `/v12`. Default:
    /// any path.
    pub paths: Vec<String>,
    /// Longest URL in bytes, 1–8192.
    pub max_bytes: usize,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            schemes: vec!["https".into()],
            hosts: Vec::new(),
            any_host: false,
            addresses: Vec::new(),
            ports: Vec::new(),
            paths: Vec::new(),
            max_bytes: 2048,
        }
    }
}

const SCHEMES: [&str; 4] = ["http", "https", "ws", "wss"];
const MAX_BYTES: usize = 8192;

/// A compiled rule.
#[derive(Clone, Debug)]
pub struct Url {
    spec: Spec,
    hosts: Hosts,
    addresses: Vec<IpNet>,
}

impl Url {
    /// Compiles a rule.
    ///
    /// # Errors
    /// Returns the first invalid entry.
    pub fn compile(spec: &Spec) -> Result<Self, String> {
        let lists = [&spec.schemes, &spec.hosts, &spec.addresses, &spec.paths].map(Vec::len);
        check_size(&[&lists[..], &[spec.ports.len()]].concat(), spec.max_bytes, MAX_BYTES)?;
        for scheme in &spec.schemes {
            if !SCHEMES.contains(&scheme.as_str()) {
                return Err(format!("schemes: {scheme:?} is not one of {}", SCHEMES.join(", ")));
            }
        }
        if spec.schemes.is_empty() {
            return Err("schemes: name at least one".into());
        }
        if spec.ports.contains(&0) {
            return Err("ports: 0 is not a port".into());
        }
        for path in &spec.paths {
            if !text::is_plain_path(path) {
                return Err(format!(
                    "paths: {path:?} must begin with / and have no dot segments, escapes, ? or #"
                ));
            }
        }
        let addresses =
            spec.addresses.iter().map(|text| network(text)).collect::<Result<_, _>>()?;
        let hosts = Hosts::compile(&spec.hosts, spec.any_host)?;
        Ok(Self { spec: spec.clone(), hosts, addresses })
    }

    /// Describes the allowed schemes, hosts, networks and ports.
    pub fn allowed(&self) -> String {
        let schemes = self.spec.schemes.join(", ");
        let hosts = self.hosts.shown();
        let addresses = match host::some_of(&self.addresses).as_str() {
            "" => String::new(),
            shown => format!("; addresses in: {shown}"),
        };
        let ports = host::some_of(&self.spec.ports);
        let ports = if ports.is_empty() { "only the default port of the scheme" } else { &ports };
        format!("schemes: {schemes}; hosts: {hosts}{addresses}; ports: {ports}")
    }

    /// Checks a URL.
    ///
    /// # Errors
    /// Returns the mistake in a message for the author of the URL.
    pub fn check(&self, text: &str) -> Result<::url::Url, Refusal> {
        let bytes = text.len();
        let most = self.spec.max_bytes;
        if bytes > most {
            return no(format!("the URL has {bytes} bytes: use one of at most {most}"));
        }
        let parts = Parts::of(text)?;
        if !self.spec.schemes.contains(&parts.scheme) {
            let scheme = text::shown(&parts.scheme);
            let allowed = self.spec.schemes.join(" or ");
            return no(format!("the scheme {scheme} is not allowed: use {allowed}"));
        }
        let url = ::url::Url::parse(text)
            .map_err(|error| Refusal(format!("this is not a URL: {error}")))?;
        self.host(&parts, &url)?;
        self.port(&parts, &url)?;
        self.path(&parts, &url)?;
        Ok(url)
    }

    /// Checks the port, and that the parser has read it as written.
    fn port(&self, parts: &Parts<'_>, url: &::url::Url) -> Result<(), Refusal> {
        let Some(port @ 1..) = url.port_or_known_default() else {
            return no("the URL has no usable port");
        };
        if matches!(parts.port, Some(written) if written != port) {
            return no(AMBIGUOUS);
        }
        let usual = self.spec.ports.is_empty() && url.port().is_none();
        if usual || self.spec.ports.contains(&port) {
            return Ok(());
        }
        let ports = host::some_of(&self.spec.ports);
        no(match (ports.is_empty(), url.port()) {
            (true, _) => format!("the port {port} is not allowed: leave it out"),
            (false, Some(_)) => format!("the port {port} is not allowed: use one of {ports}"),
            (false, None) => {
                format!("the URL has no port, and {port} is not allowed: write one of {ports}")
            }
        })
    }

    /// Checks the host, and that the parser has read it as written.
    fn host(&self, parts: &Parts<'_>, url: &::url::Url) -> Result<(), Refusal> {
        let Some(parsed) = url.host() else { return no("the URL has no host") };
        if !url.username().is_empty() || url.password().is_some() || url.scheme() != parts.scheme {
            return no(AMBIGUOUS);
        }
        match host::read(parts.host, &parsed)? {
            Named::Address(address) if self.has(address) => Ok(()),
            Named::Address(address) if self.hosts.is_any() && host::is_public(address) => Ok(()),
            Named::Address(address) => no(format!(
                "the host is the address {address}, which is not allowed: use the name of an \
                    allowed host"
            )),
            Named::Name(name) => Ok(self.hosts.decide(&name)?),
        }
    }

    /// Returns whether a listed network contains the address. For an address in one of [`APART`],
    /// that network must not be wider than the one in [`APART`].
    fn has(&self, address: IpAddr) -> bool {
        let apart = Vec::from_iter(host::networks_of(APART, address));
        self.addresses
            .iter()
            .any(|net| net.contains(&address) && apart.iter().all(|one| one.contains(net)))
    }

    fn path(&self, parts: &Parts<'_>, url: &::url::Url) -> Result<(), Refusal> {
        let paths = &self.spec.paths;
        if paths.is_empty() {
            return Ok(());
        }
        text::same_everywhere(parts.path)?;
        let parsed = &url[Position::BeforePath..Position::AfterPath];
        if paths.iter().any(|prefix| is_below(parsed, prefix)) {
            return Ok(());
        }
        let path = text::shown(parsed);
        let paths = host::some_of(paths);
        no(format!("the path {path} is not allowed on this host: use one below {paths}"))
    }
}

fn is_below(path: &str, prefix: &str) -> bool {
    let Some(rest) = path.strip_prefix(prefix) else { return false };
    rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/')
}

fn network(text: &str) -> Result<IpNet, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    match text.parse::<IpNet>() {
        Ok(net) => Ok(net.trunc()),
        Err(_) => Err(format!(
            "addresses: {text:?} is neither an address nor a network such as \
                10.1.0.0/16"
        )),
    }
}

#[cfg(test)]
mod tests;
