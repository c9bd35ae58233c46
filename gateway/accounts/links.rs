//! Links with which callers connect accounts. A link has no state: it is a code for the caller and
//! the server, which any gateway with the same `secret` checks, and is of no use to other callers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lockgate_store::Secret;
use lockgate_text::date;
use url::Url;

use crate::error::Result;
use crate::holder::Holder;
use crate::random::random_text;
use crate::registration::below;

/// Time for which callers receive the same link, in seconds. It is valid for up to twice as long.
const STEP: u64 = 300;
const CONTEXT: &str = "lockgate 2026 links to connect accounts";

/// The link that a caller opens in a browser.
#[derive(Clone, Debug)]
pub struct Link {
    pub url: Url,
    pub expires_at: SystemTime,
}

/// Keys of links: the first signs, all verify.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct LinkKeys(Vec<[u8; 32]>);

impl LinkKeys {
    /// Derives the keys of secrets.
    pub(crate) fn derive(secrets: &[Secret]) -> Self {
        let secrets = secrets.iter().map(|secret| secret.expose().as_bytes());
        Self(secrets.map(|secret| blake3::derive_key(CONTEXT, secret)).collect())
    }

    /// Creates a key that lives as long as the process.
    pub(crate) fn random() -> Result<Self> {
        Ok(Self::derive(&[Secret::new(random_text()?)]))
    }

    pub(crate) fn link(&self, slug: &str, holder: &Holder, public_url: &Url) -> Option<Link> {
        let step = current_step();
        let code = code(self.0.first()?, slug, holder, step);
        let mut url = below(public_url, &format!("connect/{slug}"));
        url.query_pairs_mut().append_pair("link", &format!("{step:x}.{code}"));
        let expires_at = UNIX_EPOCH + Duration::from_secs((step + 2) * STEP);
        Some(Link { url, expires_at })
    }

    /// Returns whether a link was made for this holder; `None` if it is no link or has expired.
    pub(crate) fn is_of(&self, id: &str, slug: &str, holder: &Holder) -> Option<bool> {
        let (step, given) = id.split_once('.')?;
        let step = u64::from_str_radix(step, 16).ok()?;
        if !(current_step().saturating_sub(1)..=current_step()).contains(&step) {
            return None;
        }
        let given = Secret::new(given.to_owned());
        Some(self.0.iter().any(|key| Secret::new(code(key, slug, holder, step)) == given))
    }
}

fn current_step() -> u64 {
    date::now() / STEP
}

fn code(key: &[u8; 32], slug: &str, holder: &Holder, step: u64) -> String {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&step.to_be_bytes());
    for part in [slug, &holder.organisation, &holder.issuer, &holder.subject] {
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    URL_SAFE_NO_PAD.encode(hasher.finalize().as_bytes())
}
