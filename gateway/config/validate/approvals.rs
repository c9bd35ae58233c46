//! `approvals`: the webhook must be complete. The checks of address and secret apply to every
//! webhook.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockgate_admin::Webhook;
use url::Url;

use super::Check;
use crate::raw::Approvals;
use crate::raw::leaf::Text;

const PATH: [&str; 2] = ["approvals", "webhook"];
/// The prefix of Standard Webhooks secrets.
const PREFIX: &str = "whsec_";
/// The permitted length of such a secret in bytes.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

impl Check<'_> {
    pub fn webhook(&mut self, raw: &Approvals, public_url: Option<&Text>) -> Option<Webhook> {
        let raw = raw.webhook.as_ref()?;
        let url = self.webhook_url(&PATH, raw.url.as_ref(), "https://hooks.example.com/approvals");
        let secret = self.webhook_secret(&PATH, raw.secret.as_ref());
        if public_url.is_none() && !self.layers.damaged(&["http", "public_url"]) {
            let hint = "messages link to the gateway: set the address that approvers use";
            self.error(&["http", "public_url"], "is required for `approvals.webhook`", hint);
        }
        // An invalid URL is reported elsewhere.
        let link_base = Url::parse(&public_url?.0).ok()?;
        Some(Webhook { url: url?, secret: secret?, link_base })
    }

    /// Checks the address of a webhook with keys below `path`.
    pub fn webhook_url(
        &mut self,
        [section, webhook]: &[&str; 2],
        text: Option<&Text>,
        example: &str,
    ) -> Option<Url> {
        let path = [*section, *webhook, "url"];
        let url = text.and_then(|Text(text)| super::parse_open_url(text));
        if url.is_none() && !self.layers.damaged(&path) {
            let what = "must be an http:// or https:// address without user and password";
            self.error(&path, what, format!("such as {example}"));
        }
        url
    }

    pub fn webhook_secret(
        &mut self,
        [section, webhook]: &[&str; 2],
        text: Option<&Text>,
    ) -> Option<Vec<u8>> {
        let path = [*section, *webhook, "secret"];
        let hint = "generate one with `echo whsec_$(openssl rand -base64 32)`";
        let Some(Text(text)) = text else {
            if !self.layers.damaged(&path) {
                self.error(&path, "is required: messages are signed with it", hint);
            }
            return None;
        };
        let Some(bytes) = parse_secret(text) else {
            self.error(&path, "must be `whsec_` and 24 to 64 bytes in base64", hint);
            return None;
        };
        self.long_secret(&path, Some(&Text(text.clone())));
        Some(bytes)
    }
}

fn parse_secret(text: &str) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
    if BYTES.contains(&bytes.len()) { Some(bytes) } else { None }
}
