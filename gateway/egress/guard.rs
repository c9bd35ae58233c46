//! The addresses that a caller's URL may lead to: public ones, and those permitted by the operator.
//! Checks apply to the address, not to the name in the URL.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::address::{Class, classify};

/// Public addresses and the permitted networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    networks: Vec<IpNet>,
}

impl Guard {
    /// Permits these networks besides the public addresses.
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self { networks }
    }

    /// Reports whether a connection to the address is permitted. Metadata services, link-local and
    /// multicast addresses must be listed individually, not as part of a network.
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
