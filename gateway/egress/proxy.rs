//! Tunnels through an operator's HTTP proxy (`CONNECT`), and the hosts that are reached through it.
//! The proxy comes from configuration alone, never from the environment, and tunnelled connections
//! are checked like direct connections.

#[cfg(test)]
mod tests;

use std::io;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use ipnet::IpNet;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::{Host, Url};

use crate::error::{ConnectError, ProxyError, SetupError};
use crate::target::{Target, is_localhost};

/// Longest response to `CONNECT`, in bytes.
const MAX_HEAD: usize = 8 << 10;

const UNFIT: &str = "the proxy's credentials cannot be sent";

/// An HTTP proxy that opens tunnels.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// With user and password: never shown.
    url: Url,
    pub(crate) target: Target,
    authorization: Option<HeaderValue>,
    /// Whether the proxy resolves names, and thereby chooses the addresses.
    pub(crate) resolves: bool,
}

impl Proxy {
    /// Creates a proxy at an `http` URL. User and password are sent to it as `Proxy-Authorization:
    /// Basic`. With `resolves` the proxy receives names instead of addresses, so that addresses
    /// cannot be checked here.
    ///
    /// # Errors
    /// A URL other than a plain `http://host:port`, or credentials that are invalid in a header.
    pub fn new(
        url: &Url,
        credentials: Option<(&str, &str)>,
        resolves: bool,
    ) -> Result<Self, SetupError> {
        if url.scheme() != "http" {
            return Err(SetupError::Url("a proxy URL must use http"));
        }
        let target = Target::new(url)?;
        let mut url = url.clone();
        let mut authorization = None;
        if let Some((user, password)) = credentials {
            authorization = Some(basic(user, password).ok_or(SetupError::Url(UNFIT))?);
            if url.set_username(user).is_err() || url.set_password(Some(password)).is_err() {
                return Err(SetupError::Url(UNFIT));
            }
        }
        Ok(Self { url, target, authorization, resolves })
    }

    /// Returns the URL with user and password, in the format of `HTTPS_PROXY`: a secret.
    pub fn secret_url(&self) -> &Url {
        &self.url
    }

    pub(crate) fn failure(&self, authority: &str, cause: &ConnectError) -> ConnectError {
        let (host, port) = self.target.parts();
        let cause = match cause {
            ConnectError::Connect(error) => describe_io(error),
            other => other.to_string(),
        };
        let proxy = format!("{host}:{port}");
        ConnectError::Proxy(ProxyError { proxy, target: authority.to_owned(), cause })
    }

    /// Opens a tunnel to `authority` (`host:port`) on a fresh connection to the proxy.
    pub(crate) async fn tunnel(&self, tcp: &mut TcpStream, authority: &str) -> io::Result<()> {
        let mut request =
            format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
        if let Some(authorization) = &self.authorization {
            request.extend_from_slice(b"Proxy-Authorization: ");
            request.extend_from_slice(authorization.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        tcp.write_all(&request).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            // Byte by byte: any bytes after the head belong to the tunnel.
            let byte = tcp.read_u8().await?;
            head.push(byte);
            if head.len() > MAX_HEAD {
                return Err(io::Error::other("its response is too long"));
            }
        }
        let status = head.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5)).unwrap_or(b"");
        if status.starts_with(b"2") {
            return Ok(());
        }
        Err(io::Error::other(format!("it returned {}", status.escape_ascii())))
    }
}

fn describe_io(error: &io::Error) -> String {
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::UnexpectedEof, _) => "it closed the connection without a response".into(),
        (kind, Some(_)) => kind.to_string(),
        (_, None) => error.to_string(),
    }
}

/// Returns the value of an `Authorization` header with a user and a password; `None` if it is too
/// long.
pub(crate) fn basic(user: &str, password: &str) -> Option<HeaderValue> {
    let encoded = STANDARD.encode(format!("{user}:{password}"));
    let mut value = HeaderValue::try_from(format!("Basic {encoded}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

lockgate_text::debug_fields!(Proxy: target, resolves);

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

    /// Returns all exceptions, in the format of `NO_PROXY`.
    pub fn no_proxy(&self) -> String {
        let mut all = vec!["localhost", "127.0.0.1", "::1"];
        all.extend(self.direct.iter().map(|direct| direct.text.as_str()));
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
        Host::Domain(name) => is_localhost(name),
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
