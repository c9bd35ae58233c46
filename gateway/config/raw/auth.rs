//! `auth`: who may call. Holds a secret and so has no Debug.

use schemars::JsonSchema;
use serde::Deserialize;

use super::leaf::Text;

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Auth {
    /// The bearer key that every caller must send, 16–4096 characters. A reference: `${LOCKGATE_KEY}` or `file:PATH`.
    pub key: Option<Text>,
}
