//! The policy for IP addresses of outbound connections, applied to resolved addresses and never to
//! names. Also checks a URL when it is entered, to report at once if every connection would refuse
//! it.

use std::net::{IpAddr, Ipv4Addr};

use lockgate_text::address::{Class, classify};
use url::{Host, Url};

use crate::target::{Target, is_localhost};

/// The addresses that a host may resolve to, depending on the source of its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The operator's own configuration: private networks and loopback are permitted; link-local,
    /// metadata, unspecified and multicast addresses only if the configuration contains that
    /// literal address instead of a name.
    Operator,
    /// The administrator of an organisation: globally routable addresses and those that the
    /// operator permits, regardless of whether the URL contains an address or a name.
    Organisation {
        /// Whether private networks are permitted.
        private: bool,
        /// Whether this machine is permitted.
        loopback: bool,
    },
    /// Any other source, such as an upstream server: globally routable addresses alone.
    #[default]
    Public,
}

impl Policy {
    /// Reports whether a connection to `address` is permitted; `literal` is set if the URL contains
    /// this address instead of a name.
    pub fn permits(self, address: IpAddr, literal: bool) -> bool {
        match (self, classify(address)) {
            (_, Class::Global) => true,
            (Self::Organisation { private, .. }, Class::Private) => private,
            (Self::Organisation { loopback, .. }, Class::Loopback) => loopback,
            (Self::Public | Self::Organisation { .. }, _) => false,
            (Self::Operator, Class::Loopback | Class::Private | Class::Reserved) => true,
            (
                Self::Operator,
                Class::LinkLocal | Class::Metadata | Class::Unspecified | Class::Multicast,
            ) => literal,
        }
    }
}

/// A URL that no connection is made to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}: {way_out}")]
pub struct RefusedUrl {
    /// The mistake; the URL is the subject.
    pub message: String,
    pub way_out: String,
}

impl Policy {
    /// Checks whether connections to this URL are permitted, as far as possible without resolving
    /// names.
    ///
    /// # Errors
    /// [`RefusedUrl`], with a message for the author of the URL.
    pub fn check_url(self, url: &Url) -> Result<(), RefusedUrl> {
        if let Err(error) = Target::new(url) {
            let way_out = "write it like https://mcp.example.com/mcp".to_owned();
            return Err(RefusedUrl { message: error.to_string(), way_out });
        }
        let address = match url.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            Some(Host::Domain(name)) if is_localhost(name) => Ipv4Addr::LOCALHOST.into(),
            _ => return Ok(()),
        };
        if self.permits(address, true) {
            return Ok(());
        }
        let (place, way_out) = describe(classify(address));
        let message = format!("leads to {place}, which is not allowed here");
        Err(RefusedUrl { message, way_out: way_out.to_owned() })
    }
}

fn describe(class: Class) -> (&'static str, &'static str) {
    let other = "use the server's public address";
    match class {
        Class::Global => ("a public address", other),
        Class::Loopback => (
            "the gateway's own machine",
            "use the server's public address, or have the operator set `egress.organisations: \
             local`",
        ),
        Class::Private => (
            "a private network",
            "use the server's public address, or have the operator set `egress.organisations: \
             private`",
        ),
        Class::LinkLocal => ("a link-local address", other),
        Class::Metadata => ("a metadata service", other),
        Class::Unspecified => ("an unspecified address", other),
        Class::Multicast => ("a multicast address", other),
        Class::Reserved => ("a reserved address", other),
    }
}

#[cfg(test)]
mod tests;
