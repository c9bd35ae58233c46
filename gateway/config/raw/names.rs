//! `names`: the form of exposed names.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::Whole;

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Names {
    /// Separator between a server's name and a tool's: `__`, `_`, `-`, `.` or `/`.
    pub separator: Separator,
    /// Longest exposed name, 32–128 characters; longer ones end in a hash.
    pub max_length: Whole<32, 128, 64>,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(inline))]
pub enum Separator {
    #[default]
    #[serde(rename = "__")]
    Underscores,
    #[serde(rename = "_")]
    Underscore,
    #[serde(rename = "-")]
    Dash,
    #[serde(rename = ".")]
    Dot,
    #[serde(rename = "/")]
    Slash,
}
