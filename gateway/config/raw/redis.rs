//! `redis`: the store of shared rates. Contains a secret and so has no `Debug`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::leaf::Text;

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Redis {
    /// Redis or Valkey, for gateways that share the rates of their policies:
    /// `redis://USER:PASSWORD@HOST:PORT/DATABASE`, with TLS `rediss://`. Requires `secret`, the
    /// same on every gateway. A reference: `${REDIS_URL}` or `file:PATH`. Without it each gateway
    /// counts separately.
    pub url: Option<Text>,
    /// Prefix of keys, for several groups of gateways in one database: 1 to 64 letters, digits and
    /// `-_.:`. Default `lockgate`.
    pub prefix: Option<Text>,
}
