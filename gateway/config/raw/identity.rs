//! `identity`: the keys that sign callers' identities. Contains secrets and so has no `Debug`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::leaf::Text;

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Identity {
    /// Private keys (P-256, PEM, PKCS #8), 8 at most, for `servers.NAME.identity`: the first signs,
    /// all are published at `/.well-known/jwks.json`. References: `file:PATH` or `${IDENTITY_KEY}`.
    /// The same on every replica.
    pub keys: Vec<Text>,
}
