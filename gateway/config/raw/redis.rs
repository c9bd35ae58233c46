//! `redis`: the store of shared rates. Contains a secret and so has no `Debug`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::leaf::Text;

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Redis {
    /// Redis or Valkey, for gateways that share the rates of their policies:
    /// `redis://USER:PASSWORD@HOST:PORT/DATABASE`, with TLS `rediss://`. Needs `secret`, the same
    /// everywhere. A reference: `${REDIS_URL}` or `file:PATH`. Without it each gateway counts for
    /// itself.
    pub url: Option<Text>,
    /// What keys begin with, for several groups of gateways in one database: 1 to 64 letters,
    /// digits and `-_.:`. Default `lockgate`.
    pub prefix: Option<Text>,
}
