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
        let named = |alone: bool| {
            self.networks.iter().any(|net| {
                net.contains(&address) && (!alone || net.prefix_len() == net.max_prefix_len())
            })
        };
        match classify(address) {
            Class::Global => true,
            Class::Loopback | Class::Private | Class::Reserved => named(false),
            Class::LinkLocal | Class::Metadata | Class::Unspecified | Class::Multicast => {
                named(true)
            }
        }
    }
}

#[cfg(test)]
mod tests;
