//! `redis`: a valid address, and the secret shared by all gateways. Opens nothing.

use super::Check;
use crate::raw::leaf::Text;
use crate::raw::text_or;
use crate::raw::{Redis, Root};

const PREFIX: &str = "lockgate";
const PREFIX_BYTES: usize = 64;

impl Check<'_> {
    /// Returns the shared store of rates; `None` if each gateway counts for itself.
    pub fn redis(&mut self, root: &Root) -> Option<lockgate_limits::Config> {
        let Redis { url, prefix } = &root.redis;
        let Some(url) = url else {
            if prefix.is_some() {
                let hint = "add it, or remove `redis.prefix`";
                self.error(&["redis", "prefix"], "has no effect without `redis.url`", hint);
            }
            return None;
        };
        let prefix = text_or(prefix, PREFIX);
        if !(1..=PREFIX_BYTES).contains(&prefix.len()) || !prefix.bytes().all(is_plain) {
            let what = format!("must be 1 to {PREFIX_BYTES} letters, digits and -_.:");
            self.error(&["redis", "prefix"], what, "for example lockgate-production");
        }
        // The oldest of the ring: a new secret reaches all gateways before it is first anywhere.
        let secret = match root.old_secrets.last() {
            Some(Text(oldest)) => oldest,
            None => text_or(&root.secret, ""),
        };
        if root.secret.is_none() {
            let hint = "add `secret`, with the same value on every gateway";
            let what = "requires `secret`, which is used to hash callers in the store";
            self.error(&["redis", "url"], what, hint);
        }
        match lockgate_limits::Config::new(&url.0, prefix, secret) {
            Ok(config) => Some(config),
            Err(error) => {
                let hint = "for example redis://:PASSWORD@HOST:6379/0, with TLS rediss://";
                self.error(&["redis", "url"], error.to_string(), hint);
                None
            }
        }
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte)
}
