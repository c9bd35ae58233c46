//! Selects the hosts that are reached through the operator's proxy, by configured host and port.
//! Never resolves names.

use std::net::IpAddr;

use ipnet::IpNet;
use url::Host;

use crate::proxy::Proxy;
use crate::target::Target;

/// A proxy and its exceptions. This machine is always an exception.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    proxy: Proxy,
    direct: Vec<Direct>,
}

/// One entry of `no_proxy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direct {
    text: String,
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    All,
    /// A name and all its subdomains, or the subdomains alone.
    Domain {
        name: String,
        below_alone: bool,
    },
    Network(IpNet),
}

impl Direct {
    /// Parses `name`, `.name`, `*.name`, an address, a network or `*`, each with an optional
    /// `:port`. A name includes its subdomains; `.name` and `*.name` stand for the subdomains
    /// alone.
    pub fn parse(text: &str) -> Option<Self> {
        let (hosts, port) = match parse_network(strip_brackets(text).unwrap_or(text)) {
            Some(network) => (Hosts::Network(network), None),
            None => {
                let (host, port) = split_port(text)?;
                (parse_hosts(host)?, port)
            }
        };
        Some(Self { text: text.to_owned(), hosts, port })
    }

    fn matches(&self, host: &Host<String>, port: u16) -> bool {
        if let Some(wanted) = self.port
            && wanted != port
        {
            return false;
        }
        match (&self.hosts, host) {
            (Hosts::All, _) => true,
            (Hosts::Network(network), Host::Ipv4(address)) => {
                network.contains(&IpAddr::V4(*address))
            }
            (Hosts::Network(network), Host::Ipv6(address)) => {
                network.contains(&IpAddr::V6(*address))
            }
            (Hosts::Domain { name, below_alone }, Host::Domain(host)) => {
                let host = host.strip_suffix('.').unwrap_or(host);
                match host.strip_suffix(name.as_str()) {
                    Some("") => !below_alone,
                    Some(rest) => rest.ends_with('.'),
                    None => false,
                }
            }
            _ => false,
        }
    }
}

impl Route {
    pub fn new(proxy: Proxy, direct: Vec<Direct>) -> Self {
        Self { proxy, direct }
    }

    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Returns the entries of `no_proxy` as they are written.
    pub fn direct(&self) -> impl Iterator<Item = &str> {
        self.direct.iter().map(|direct| direct.text.as_str())
    }

    /// Returns all exceptions, in the format of `NO_PROXY`.
    pub fn no_proxy(&self) -> String {
        let mut all = vec!["localhost", "127.0.0.1", "::1"];
        all.extend(self.direct());
        all.join(",")
    }

    /// Returns the proxy for a target; `None` for a direct connection.
    pub(crate) fn via(&self, target: &Target) -> Option<&Proxy> {
        let (host, port) = target.parts();
        if is_here(host) || self.direct.iter().any(|direct| direct.matches(host, port)) {
            return None;
        }
        Some(&self.proxy)
    }
}

fn is_here(host: &Host<String>) -> bool {
    match host {
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.to_canonical().is_loopback(),
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            name == "localhost" || name.ends_with(".localhost")
        }
    }
}

/// Parses a network, or an address as the network of a single host.
pub fn parse_network(text: &str) -> Option<IpNet> {
    if let Ok(network) = text.parse::<IpNet>() {
        return Some(network.trunc());
    }
    let address: IpAddr = text.parse().ok()?;
    Some(IpNet::from(address))
}

fn strip_brackets(text: &str) -> Option<&str> {
    text.strip_prefix('[')?.strip_suffix(']')
}

fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let Some((host, port)) = text.rsplit_once(':') else { return Some((text, None)) };
    match port.parse() {
        Ok(0) | Err(_) => None,
        Ok(port) => Some((host, Some(port))),
    }
}

fn parse_hosts(host: &str) -> Option<Hosts> {
    if host == "*" {
        return Some(Hosts::All);
    }
    if let Some(network) = parse_network(strip_brackets(host).unwrap_or(host)) {
        return Some(Hosts::Network(network));
    }
    let below = host.strip_prefix("*.").or_else(|| host.strip_prefix('.'));
    let name = below.unwrap_or(host);
    // Normalized like URLs: lowercase ASCII.
    match Host::parse(name).ok()? {
        Host::Domain(name) if !name.contains('*') => {
            Some(Hosts::Domain { name, below_alone: below.is_some() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
