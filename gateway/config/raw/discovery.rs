//! `discovery`: documents with which hosts find endpoints.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::Toggle;

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Discovery {
    /// Publish a server card of each of the operator's endpoints, at its address followed by
    /// `/server-card`, and their list at `/.well-known/ai-catalog.json`.
    pub cards: Toggle<false>,
    /// List endpoints as a registry (`/v0.1/servers`): `off`; `members`, for authenticated callers;
    /// `public`, also the operator's endpoints for callers without credentials.
    pub registry: Registry,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, schemars(inline))]
pub enum Registry {
    #[default]
    Off,
    Members,
    Public,
}
