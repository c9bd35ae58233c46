//! `identity`: signing keys, and the public address that identifies the issuer. No message quotes a
//! key.

use std::sync::Arc;

use lockgate_authn::signer::{self, SigningKey};
use url::Url;

use super::Check;
use crate::raw::leaf::Text;
use crate::raw::{Root, Server};

/// Maximum keys of a ring: one signs, and others are being introduced or retired.
const MAX_KEYS: usize = 8;
const AUDIENCE_BYTES: usize = 1024;
const MAKE_ONE: &str = "generate one with `openssl genpkey -algorithm EC -pkeyopt \
    ec_paramgen_curve:P-256 -out identity.pem`, and use a reference: file:identity.pem";

impl Check<'_> {
    /// Returns the settings for signed identities; `None` without a key.
    pub fn identity(&mut self, root: &Root, public_url: Option<&Url>) -> Option<signer::Config> {
        let given = &root.identity.keys;
        let path = ["identity", "keys"];
        if given.is_empty() {
            if !self.layers.damaged(&path) {
                self.refuse_unsigned(root);
            }
            return None;
        }
        if given.len() > MAX_KEYS {
            self.error(&path, format!("has more than {MAX_KEYS} keys"), "remove the oldest");
        }
        let mut keys = Vec::with_capacity(given.len());
        for (number, key) in given.iter().enumerate() {
            let path = ["identity", "keys", &number.to_string()];
            let Some(key) = self.signing_key(&path, key) else { continue };
            if keys.contains(&key) {
                self.error(&path, "is listed twice", "keep one of them");
            }
            keys.push(key);
        }
        Some(signer::Config { public_url: public_url?.clone(), keys })
    }

    fn signing_key(&mut self, path: &[&str], key: &Text) -> Option<SigningKey> {
        match SigningKey::from_pem(&key.0) {
            Ok(key) => {
                if self.is_literal(path) {
                    let hint = "use a reference: ${VAR} or file:PATH";
                    self.warning(path, "is written in plain text", hint);
                }
                Some(key)
            }
            Err(error) => {
                self.error(path, error.to_string(), MAKE_ONE);
                None
            }
        }
    }

    /// Reports servers that require signatures, because there is no default key.
    fn refuse_unsigned(&mut self, root: &Root) {
        for (slug, server) in &root.servers {
            if server.identity.is_some() && server.command.is_none() {
                let path = ["servers", slug, "identity"];
                self.error(&path, "requires a signing key in `identity.keys`", MAKE_ONE);
            }
        }
    }

    /// Returns the audience of a server's identity assertions.
    pub fn audience(&mut self, slug: &str, raw: &Server) -> Option<Arc<str>> {
        let path = ["servers", slug, "identity", "audience"];
        let hint = "it is the `aud` that the server expects, such as its own address";
        let Some(Text(audience)) = &raw.identity.as_ref()?.audience else {
            if !self.layers.damaged(&path) {
                self.error(&path, "is required", hint);
            }
            return None;
        };
        let is_plain = audience.bytes().all(|byte| byte.is_ascii_graphic());
        if !(1..=AUDIENCE_BYTES).contains(&audience.len()) || !is_plain {
            let what = format!("must be 1 to {AUDIENCE_BYTES} ASCII characters without blanks");
            self.error(&path, what, hint);
        }
        Some(audience.as_str().into())
    }

    /// Warns of servers that could replay each other's identity assertions.
    pub fn shared_audiences(&mut self, servers: &[lockgate_upstream::Config]) {
        for (at, server) in servers.iter().enumerate() {
            let Some(audience) = &server.identity else { continue };
            let mut before = servers[..at].iter();
            let other = before.find(|other| other.identity.as_ref() == Some(audience));
            if let Some(other) = other {
                let path = ["servers", &server.slug, "identity", "audience"];
                let what = format!(
                    "equals that of `servers.{}`: each server could impersonate a caller at the \
                        other",
                    other.slug
                );
                self.warning(
                    &path,
                    what,
                    "use a separate one for each, unless they are the same program",
                );
            }
        }
    }
}
