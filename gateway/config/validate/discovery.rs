//! `discovery`: needs the public address.

use lockgate_proxy::Discovery;
use url::Url;

use super::Check;
use crate::raw::{self, Root};

impl Check<'_> {
    pub fn discovery(&mut self, root: &Root, public_url: Option<&Url>) -> Option<Discovery> {
        let raw::Discovery { cards, registry } = &root.discovery;
        let registry = match registry {
            raw::Registry::Off => lockgate_proxy::Registry::Off,
            raw::Registry::Members => lockgate_proxy::Registry::Members,
            raw::Registry::Public => lockgate_proxy::Registry::Public,
        };
        if !cards.0 && registry == lockgate_proxy::Registry::Off {
            return None;
        }
        let Some(url) = public_url else {
            if !self.layers.damaged(&["http", "public_url"]) {
                let hint = "set it to the address at which clients reach the gateway";
                self.error(&["http", "public_url"], "is required for `discovery`", hint);
            }
            return None;
        };
        Some(Discovery {
            cards: cards.0,
            registry,
            host: url.host_str().unwrap_or("localhost").to_owned(),
            origin: url.origin().ascii_serialization(),
            prefix: url.path().trim_end_matches('/').to_owned(),
        })
    }
}
