//! Classes of IP addresses, which decide on the hosts that URLs and connections may lead to. An
//! IPv6 address that embeds an IPv4 address (mapped, NAT64, 6to4) is classified as the latter.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The purpose of an address, as far as policies distinguish it (IANA special-purpose registries).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Globally routable unicast.
    Global,
    /// This machine: `127.0.0.0/8`, `::1`.
    Loopback,
    /// Private networks, carrier-grade NAT, unique local addresses.
    Private,
    /// `169.254.0.0/16` and `fe80::/10`.
    LinkLocal,
    /// Well-known metadata services of cloud platforms outside the link-local range.
    Metadata,
    /// `0.0.0.0/8` and `::`, which many systems treat as this machine.
    Unspecified,
    /// Multicast and limited broadcast.
    Multicast,
    /// Documentation, benchmarking, future use, tunnels with a hidden end: no public hosts.
    Reserved,
}

/// Returns the class of an address; for an embedded IPv4 address its class.
pub fn classify(address: IpAddr) -> Class {
    match address {
        IpAddr::V4(v4) => classify_v4(v4),
        IpAddr::V6(v6) => carried(v6).map_or_else(|| classify_v6(v6), classify_v4),
    }
}

/// Metadata services at otherwise ordinary addresses: Azure, Alibaba Cloud, Oracle Cloud.
const METADATA_V4: [Ipv4Addr; 3] = [
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// The same over IPv6: Google Cloud.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254);

fn classify_v4(address: Ipv4Addr) -> Class {
    if METADATA_V4.contains(&address) {
        return Class::Metadata;
    }
    match address.octets() {
        [0, ..] => Class::Unspecified,
        [127, ..] => Class::Loopback,
        [10, ..] | [192, 168, ..] => Class::Private,
        [172, b, ..] if b & 0xf0 == 16 => Class::Private,
        [100, b, ..] if b & 0xc0 == 64 => Class::Private,
        [169, 254, ..] => Class::LinkLocal,
        // Protocol assignments, documentation (three ranges), 6to4 relays, benchmarking.
        [192, 0, 0 | 2, _]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..] => Class::Reserved,
        [255, 255, 255, 255] | [224..=239, ..] => Class::Multicast,
        [240..=255, ..] => Class::Reserved,
        _ => Class::Global,
    }
}

fn classify_v6(address: Ipv6Addr) -> Class {
    if address == METADATA_V6 {
        return Class::Metadata;
    }
    match address.segments() {
        // AWS: instance metadata, and the credentials service for containers.
        [0xfd00, 0xec2, ..] => Class::Metadata,
        [0, 0, 0, 0, 0, 0, 0, 0] => Class::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Loopback,
        [first, ..] if first & 0xff00 == 0xff00 => Class::Multicast,
        [first, ..] if first & 0xffc0 == 0xfe80 => Class::LinkLocal,
        // Unique local, and the former site-local range.
        [first, ..] if first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0 => Class::Private,
        // Protocol assignments with Teredo and ORCHID, and both documentation ranges.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => Class::Reserved,
        [0x3fff, second, ..] if second < 0x1000 => Class::Reserved,
        [first, ..] if first & 0xe000 == 0x2000 => Class::Global,
        _ => Class::Reserved,
    }
}

/// Returns the IPv4 address that the network would deliver this IPv6 address to.
pub fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let (high, low) = match address.segments() {
        // `::` and `::1` are separate addresses; the rest of the range is "IPv4-compatible".
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => return None,
        // Mapped, compatible, translated (SIIT), NAT64.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => (high, low),
        // 6to4.
        [0x2002, high, low, ..] => (high, low),
        _ => return None,
    };
    Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
}

#[cfg(test)]
mod tests;
