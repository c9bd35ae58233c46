//! `builtin`: servers that come with the gateway. It names them and no more.

use schemars::JsonSchema;
use serde::Deserialize;

use super::leaf::Toggle;

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Builtin {
    /// Tells what the gateway is and how its servers are.
    pub system: Toggle<true>,
    /// A few harmless tools to try a client with. By default on in development when no server is configured.
    pub example: Option<Toggle<false>>,
}
