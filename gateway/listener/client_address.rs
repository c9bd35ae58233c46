//! The client's address behind trusted proxies. A single header is read from the right, because
//! everything left of the entry that a trusted proxy appended comes from the client. Headers from
//! untrusted peers are ignored.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use lockgate_authn::Peer;

/// Number of header entries that are read, from the right.
const MAX_ENTRIES: usize = 32;

/// The trusted proxies, and the header in which they name their clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    pub networks: Vec<IpNet>,
    pub header: ForwardedHeader,
}

lockgate_text::settings! {
    /// The header that proxies write. Proxies pass the other header on as their client sent it.
    #[derive(Default)]
    pub enum ForwardedHeader {
        #[default]
        #[serde(rename = "x-forwarded-for")]
        For,
        // RFC 7239.
        #[serde(rename = "forwarded")]
        Standard,
    }
}

/// The address of a request's client, and the port where it is present.
pub(crate) type ClientAddress = (IpAddr, Option<u16>);

/// Headers that proxies and other gateways add, besides those named after a client's address.
const ADDED_BY_PROXIES: [&str; 7] = [
    "via",
    "cdn-loop",
    "cf-ray",
    "lockgate-peer",
    "x-envoy-external-address",
    "x-remote-addr",
    "x-amzn-trace-id",
];

/// Returns the peer of a request. Any proxy header on a loopback connection marks the peer as
/// forwarded, because a proxy on this machine makes every caller look like the proxy's user.
pub(crate) fn peer_of(remote: IpAddr, headers: &HeaderMap) -> Peer {
    let is_forwarded = remote.to_canonical().is_loopback()
        && headers.keys().any(|name| is_added_by_proxy(name.as_str()));
    if is_forwarded { Peer::Forwarded(remote) } else { Peer::Address(remote) }
}

fn is_added_by_proxy(name: &str) -> bool {
    let may_name_forwarding = memchr::memchr(b'w', name.as_bytes()).is_some();
    may_name_forwarding && name.contains("forwarded")
        || ["-ip", "-ipv6", "clientip"].iter().any(|end| name.ends_with(end))
        || ADDED_BY_PROXIES.contains(&name)
}

impl TrustedProxies {
    /// Returns the client of a request that arrived over a connection from `remote`.
    pub(crate) fn find_client(&self, remote: SocketAddr, headers: &HeaderMap) -> ClientAddress {
        let mut client = (remote.ip().to_canonical(), Some(remote.port()));
        if self.networks.is_empty() {
            return client;
        }
        let lines = headers.get_all(self.header.name());
        let mut entries = Vec::new();
        for line in lines.iter().rev() {
            entries.extend(line.as_bytes().rsplit(|byte| *byte == b','));
            if entries.len() > MAX_ENTRIES {
                break;
            }
        }
        for entry in entries.into_iter().take(MAX_ENTRIES) {
            if !self.trusts(client.0) {
                return client;
            }
            // An unreadable entry ends the search: entries further left are not trusted either.
            let Some(named) = self.header.read(entry) else { return client };
            client = named;
        }
        client
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }
}

impl ForwardedHeader {
    fn name(self) -> HeaderName {
        match self {
            Self::For => HeaderName::from_static("x-forwarded-for"),
            Self::Standard => http::header::FORWARDED,
        }
    }

    /// Parses one entry of the header.
    fn read(self, entry: &[u8]) -> Option<ClientAddress> {
        let entry = std::str::from_utf8(entry).ok()?.trim();
        match self {
            Self::For => read_address(entry),
            Self::Standard => {
                let node = find_forwarded_for(entry)?;
                read_address(unquote(node).unwrap_or(node))
            }
        }
    }
}

/// Returns the value of the first `for` parameter of a `Forwarded` entry.
fn find_forwarded_for(entry: &str) -> Option<&str> {
    for pair in entry.split(';') {
        if let Some((name, value)) = pair.split_once('=')
            && name.trim().eq_ignore_ascii_case("for")
        {
            return Some(value.trim());
        }
    }
    None
}

fn unquote(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"')
}

/// Parses an address with an optional port. IPv6 addresses with a port are in brackets.
fn read_address(text: &str) -> Option<ClientAddress> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address.to_canonical(), None));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some((address.ip().to_canonical(), Some(address.port())));
    }
    let inside = text.strip_prefix('[')?.strip_suffix(']')?;
    let address = inside.parse::<std::net::Ipv6Addr>().ok()?;
    Some((IpAddr::V6(address).to_canonical(), None))
}

#[cfg(test)]
mod tests;
