//! `discovery`: needs the public address.

use lockgate_proxy::{Discovery, Registry};
use url::Url;

use super::Check;

impl Check<'_> {
    /// Returns the settings with the public address; `None` if nothing is published.
    pub fn discovery(&mut self, given: &Discovery, public_url: Option<&Url>) -> Option<Discovery> {
        if !given.cards && given.registry == Registry::Off {
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
            cards: given.cards,
            registry: given.registry,
            host: url.host_str().unwrap_or("localhost").to_owned(),
            origin: url.origin().ascii_serialization(),
            prefix: url.path().trim_end_matches('/').to_owned(),
        })
    }
}
