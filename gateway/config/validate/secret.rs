//! `auth.key` and `secret`: long enough, not guessable, not written into a file. No message quotes
//! them.

use std::collections::BTreeSet;

use lockgate_admin::ScrapeToken;

use super::Check;
use crate::problem::ValuePlace;
use crate::raw::Root;

const KEY_CHARS: usize = 16;
const SECRET_CHARS: usize = 32;
const MAX_SECRET: usize = 4096;
/// Maximum length of a client's id and secret in bytes.
pub const MAX_CREDENTIAL: usize = 4096;
/// The maximum of a ring of keys, minus the sealing key.
const OLD_SECRETS: usize = 7;
/// Minimum number of distinct characters of a random value.
const MIN_DISTINCT_CHARS: usize = 6;
const PLACEHOLDERS: [&str; 7] =
    ["changeme", "change-me", "change_me", "your-", "your_", "replace", "example"];
const MAKE_ONE: &str = "generate one with `openssl rand -hex 32`";

impl Check<'_> {
    pub fn key(&mut self, key: &str) {
        let path = "auth.key";
        self.shown_key(path, key);
        // This key would stay valid here after its revocation in the keys file.
        if lockgate_authn::key::has_issued_form(key) {
            let what = "is a key of `lockgate keys create`, which would never expire here";
            let hint = "set `auth.keys_file` to its file, and pass the key to commands in \
                LOCKGATE_CLIENT_KEY";
            self.error(path, what, hint);
        }
    }

    /// Checks the token that grants access to metrics.
    pub fn scrape_token(&mut self, token: Option<&str>) -> Option<ScrapeToken> {
        let token = token?;
        self.shown_key("admin.scrape_token", token);
        Some(ScrapeToken::new(token))
    }

    /// Checks a key that callers send in a header.
    fn shown_key(&mut self, path: &str, key: &str) {
        if !key.bytes().all(|b| b.is_ascii_graphic()) {
            self.error(path, "must be ASCII letters, digits and signs without blanks", MAKE_ONE);
        } else {
            self.random(path, key, KEY_CHARS);
        }
    }

    /// Checks the secret that seals tokens, and those that only open them.
    pub fn secrets(&mut self) {
        let Root { secret, old_secrets: old, .. } = self.root;
        if let Some(secret) = secret {
            self.long_secret("secret", secret);
        }
        let path = "old_secrets";
        if secret.is_none() && !old.is_empty() {
            self.error(path, "requires `secret`, which protects new tokens", "add secret");
        }
        self.at_most(path, old.len(), OLD_SECRETS, "remove the oldest");
        self.long_secrets(path, old);
    }

    /// Checks a list of secrets.
    pub fn long_secrets(&mut self, path: &str, secrets: &[String]) {
        for (at, secret) in secrets.iter().enumerate() {
            self.long_secret(&self.item_key(path, at), secret);
        }
    }

    /// Checks a secret from which keys are derived.
    pub fn long_secret(&mut self, path: &str, secret: &str) {
        self.random(path, secret, SECRET_CHARS);
    }

    /// Checks the secret of a client at an authorization server.
    pub fn client_secret(&mut self, path: &str, secret: &str) {
        if (1..=MAX_CREDENTIAL).contains(&secret.len()) {
            self.warn_of_literal(path);
        } else {
            let hint = "remove it for a public client";
            self.error(path, format!("must have 1 to {MAX_CREDENTIAL} bytes"), hint);
        }
    }

    fn random(&mut self, path: &str, value: &str, least: usize) {
        let chars = value.chars().count();
        let distinct = value.chars().collect::<BTreeSet<_>>().len();
        let lower = value.to_ascii_lowercase();
        let placeholder = PLACEHOLDERS.iter().any(|word| lower.starts_with(word));
        if chars < least || value.len() > MAX_SECRET {
            self.error(path, format!("must have {least} to {MAX_SECRET} characters"), MAKE_ONE);
        } else if distinct < MIN_DISTINCT_CHARS || placeholder {
            self.error(path, "can be guessed", MAKE_ONE);
        } else {
            self.warn_of_literal(path);
        }
    }

    pub fn warn_of_literal(&mut self, path: &str) {
        let node = self.given(path).filter(|node| node.reference.is_none());
        if node.is_some_and(|node| matches!(node.place, ValuePlace::File { .. })) {
            self.warning(path, "is written in plain text", "use a reference: ${VAR} or file:PATH");
        }
    }
}
