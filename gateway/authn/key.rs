//! API keys: `lg_<id>_<secret>` with a secret of 256 random bits, of which only a hash is stored. A
//! key is found by its id and verified by its hash in constant time. Only a caller that presents
//! the whole key is informed that it has expired or was revoked.

use std::collections::HashMap;
use std::sync::Arc;

use lockgate_text::{date, hex};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::identity::{DEFAULT_ORGANISATION, Identity, KEY, share};
use crate::principal::{AuthnError, Principal, RefusedCaller};

/// The prefix of every key.
pub const PREFIX: &str = "lg_";
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;

/// Returns whether a text has the form of an issued key: [`PREFIX`], an id, `_`, a secret.
pub fn has_issued_form(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(PREFIX) else { return false };
    let Some((id, secret)) = rest.split_once('_') else { return false };
    is_hex(id, ID_BYTES) && is_hex(secret, SECRET_BYTES)
}

fn is_hex(text: &str, bytes: usize) -> bool {
    text.len() == bytes * 2 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The stored part of a key: everything but its secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Key {
    /// 16 hexadecimal digits; also the subject of the key's holder.
    pub id: String,
    /// BLAKE3 of the whole key.
    pub hash: [u8; 32],
    pub name: String,
    pub organisation: Option<String>,
    pub roles: Vec<String>,
    pub scopes: Vec<String>,
    pub agent: Option<String>,
    /// Unix seconds.
    pub created: u64,
    /// Unix seconds; `None` for a key that never expires.
    pub expires: Option<u64>,
    /// Unix seconds; `None` for a key in force.
    pub revoked: Option<u64>,
}

impl Key {
    /// Generates a key without name and grants. Also returns its text, which is stored nowhere.
    /// Returns `None` if the system has no random bytes.
    pub fn mint(now: u64) -> Option<(Self, String)> {
        let id = hex::random::<ID_BYTES>()?;
        let secret = hex::random::<SECRET_BYTES>()?;
        let text = format!("{PREFIX}{id}_{secret}");
        let hash = *blake3::hash(text.as_bytes()).as_bytes();
        Some((Self { id, hash, created: now, ..Self::default() }, text))
    }

    pub fn organisation_or_default(&self) -> &str {
        self.organisation.as_deref().unwrap_or(DEFAULT_ORGANISATION)
    }

    /// Returns the state of the key: `revoked`, `expired` or `active`.
    pub fn state(&self, now: u64) -> &'static str {
        match self {
            Self { revoked: Some(_), .. } => "revoked",
            Self { expires: Some(expires), .. } if *expires <= now => "expired",
            _ => "active",
        }
    }
}

pub fn is_id(text: &str) -> bool {
    text.len() == ID_BYTES * 2 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Parses a hash of the keys file: `blake3:` and 64 hexadecimal digits.
pub fn parse_hash(text: &str) -> Option<[u8; 32]> {
    let hash = blake3::Hash::from_hex(text.strip_prefix("blake3:")?).ok()?;
    Some(hash.into())
}

pub fn write_hash(hash: &[u8; 32]) -> String {
    format!("blake3:{}", hex::encode(hash))
}

/// Parses a date (`2027-01-31`, UTC) or an RFC 3339 time. Returns Unix seconds.
pub fn parse_time(text: &str) -> Option<u64> {
    let whole = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
    let seconds = OffsetDateTime::parse(&whole, &Rfc3339).ok()?.unix_timestamp();
    u64::try_from(seconds).ok()
}

/// Formats Unix seconds as RFC 3339, in UTC.
pub fn write_time(seconds: u64) -> String {
    date::of_seconds(i64::try_from(seconds).unwrap_or(i64::MAX))
}

// Omits the hash.
lockgate_text::debug_fields!(Key: id, name);

pub(crate) struct Ring(HashMap<Box<str>, HeldKey, ahash::RandomState>);

struct HeldKey {
    /// Its `==` takes constant time.
    hash: blake3::Hash,
    expires: u64,
    revoked: bool,
    principal: Principal,
}

impl Ring {
    pub(crate) fn new(keys: &[Key], scopes: impl Fn(&[String]) -> Box<[Arc<str>]>) -> Self {
        let mut ring = HashMap::default();
        for key in keys {
            let mut identity =
                Identity::new(KEY, &key.id).in_organisation(key.organisation.as_deref());
            identity.roles = share(&key.roles);
            identity.scopes = scopes(&key.scopes);
            identity.agent = key.agent.as_deref().map(Into::into);
            if !key.name.is_empty() {
                identity.key_name = Some(key.name.as_str().into());
            }
            let held = HeldKey {
                hash: key.hash.into(),
                expires: key.expires.unwrap_or(u64::MAX),
                revoked: key.revoked.is_some(),
                principal: Principal::new(identity),
            };
            ring.insert(key.id.as_str().into(), held);
        }
        Self(ring)
    }

    /// Returns the holder of a key that begins with [`PREFIX`]; `hash` is of the whole text.
    pub(crate) fn find(
        &self,
        text: &str,
        hash: blake3::Hash,
        now: impl FnOnce() -> u64,
    ) -> Result<Principal, RefusedCaller> {
        let id = text.strip_prefix(PREFIX).and_then(|rest| rest.get(..ID_BYTES * 2)).unwrap_or("");
        let held = self.0.get(id);
        // Comparing with a dummy makes an unknown id take as long as a wrong secret.
        let kept = held.map_or_else(|| [0; 32].into(), |held| held.hash);
        let is_proved = hash == kept;
        match held {
            Some(held) if is_proved => held.admit(now),
            _ => Err(AuthnError::Invalid.into()),
        }
    }

    /// Returns the holder of the key with this id, unless the key has expired or was revoked.
    pub(crate) fn holder(&self, id: &str, now: impl FnOnce() -> u64) -> Option<&Principal> {
        let held = self.0.get(id)?;
        if held.revoked || held.is_over(now) { None } else { Some(&held.principal) }
    }
}

impl HeldKey {
    /// Returns the holder of a verified key, unless the key has expired or was revoked.
    fn admit(&self, now: impl FnOnce() -> u64) -> Result<Principal, RefusedCaller> {
        if self.revoked {
            return Err(RefusedCaller::known(AuthnError::Revoked, &self.principal));
        }
        if self.is_over(now) {
            return Err(RefusedCaller::known(AuthnError::Expired, &self.principal));
        }
        Ok(self.principal.clone())
    }

    /// Returns whether the key has expired. Reads the clock only if the key can expire.
    fn is_over(&self, now: impl FnOnce() -> u64) -> bool {
        self.expires != u64::MAX && self.expires <= now()
    }
}

#[cfg(test)]
mod tests;
