//! `approvals`: notification of approvers.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::leaf::Text;

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Approvals {
    /// Receives a message when a call starts to wait for approvers other than its caller.
    pub webhook: Option<Webhook>,
}

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Webhook {
    /// Address of the messages, which contain a link to the call; requires `http.public_url`.
    pub url: Option<Text>,
    /// Key that signs the messages (Standard Webhooks): `whsec_` and 24 to 64 random bytes in
    /// base64. A reference: `${WEBHOOK_SECRET}` or `file:PATH`.
    pub secret: Option<Text>,
}
