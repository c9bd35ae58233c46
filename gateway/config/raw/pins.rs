//! `pins`: approved definitions of tools.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::Text;

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Pins {
    /// The lock file with approved tools, such as `lockgate.pins.json`; relative to this file.
    /// Without it nothing is pinned. `lockgate pins approve` writes it.
    pub file: Option<Text>,
    /// Reaction to a tool whose definition differs from the approved one: `quarantine` (neither
    /// listed nor callable), `report` or `allow`.
    pub changed: Reaction,
    /// Reaction to a tool that was never approved: `quarantine`, `report` or `allow`.
    pub new: Reaction,
    /// Handling of invisible characters in the servers' descriptions of tools, prompts and
    /// resources: `strip` removes them, `quarantine` also hides such a tool, `report` keeps them.
    pub hidden_text: HiddenText,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, schemars(inline))]
pub enum Reaction {
    #[default]
    Quarantine,
    Report,
    Allow,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, schemars(inline))]
pub enum HiddenText {
    #[default]
    Strip,
    Quarantine,
    Report,
}
