//! `approvals`: notification of approvers.

use schemars::JsonSchema;
use serde::Deserialize;

use super::leaf::Text;

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Approvals {
    /// Who is told when a call begins to wait for others than its caller.
    pub webhook: Option<Webhook>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Webhook {
    /// Where a message is posted, with a link to the call; `http.public_url` is needed for that.
    pub url: Option<Text>,
    /// What the messages are signed with (Standard Webhooks): `whsec_` and 24 to 64 random bytes in
    /// base64. A reference: `${WEBHOOK_SECRET}` or `file:PATH`.
    pub secret: Option<Text>,
}
