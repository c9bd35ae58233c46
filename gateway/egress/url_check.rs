//! Checks a URL when it is entered, to report at once if every connection would refuse it. The
//! addresses of a name are only checked when connecting.

use std::net::{IpAddr, Ipv4Addr};

use url::{Host, Url};

use crate::address::{Class, Policy, classify};
use crate::target::Target;

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

/// Reports whether a name always means this machine (RFC 6761, 6.3).
fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
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
