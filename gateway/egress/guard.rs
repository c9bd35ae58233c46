//! Which addresses a caller's URL may lead to: public ones, and those that the operator has named.
//! The address is what counts, whatever name stood in the URL.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::address::{Class, classify};

/// Public addresses and the networks named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    networks: Vec<IpNet>,
}

impl Guard {
    /// Opens these networks besides the public addresses.
    #[must_use]
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self { networks }
    }

    /// Whether an address may be connected to. Metadata services, link-local and multicast
    /// addresses have to be named alone, not by a network around them.
    #[must_use]
    pub fn permits(&self, address: IpAddr) -> bool {
        let mut named = self.networks.iter().filter(|net| net.contains(&address));
        match classify(address) {
            Class::Global => true,
            Class::Loopback | Class::Private | Class::Reserved => named.next().is_some(),
            Class::LinkLocal | Class::Metadata | Class::Unspecified | Class::Multicast => {
                named.any(|net| net.prefix_len() == net.max_prefix_len())
            }
        }
    }
}

#[cfg(test)]
mod tests;
