//! Tokens that the gateway issues and later accepts: cursors, request states, task and session ids.
//! Clients cannot read, change, transfer or extend them.
//!
//! A token is `lg1.<key id>.<base64url of nonce, ciphertext, tag>`, AES-256-GCM with a key of its
//! own for each purpose. Reasons for a rejection are only logged. There is no state: the caller
//! must enforce single use.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{hkdf, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lockgate_text::hex;

/// Maximum length of a token in bytes.
pub const MAX_TOKEN: usize = 64 * 1024;
/// Minimum length of a secret in bytes.
pub const MIN_SECRET: usize = 32;
/// Maximum number of secrets of a sealer.
pub const MAX_KEYS: usize = 8;

const VERSION: &str = "lg1";
const SALT: &[u8] = b"lockgate sealed tokens";
const EXPIRES_LEN: usize = size_of::<u64>();

lockgate_text::words! {
    /// The purpose of a token. A token of one purpose does not open as another.
    pub enum Purpose {
        /// A position in a list.
        Cursor = "cursor",
        /// The state of a request to the client (`requestState`).
        RequestState = "request state",
        /// A task id.
        Task = "task",
        /// A session id.
        Session = "session",
        /// The state of a request for approval of a call.
        Approval = "approval",
        /// A link to a call that waits for approvers.
        ApprovalLink = "approval link",
        /// The replica that holds a call.
        Holder = "holder",
        /// Proof that a request comes from another replica.
        Peer = "peer",
    }
}

/// The reason why a sealer cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    #[error("no secret")]
    None,
    #[error("a secret is shorter than {MIN_SECRET} bytes")]
    Short,
    #[error("more than {MAX_KEYS} secrets")]
    TooMany,
    #[error("the cryptographic library failed")]
    Crypto,
}

/// The reason why a token cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("the content is too long for a token")]
    TooLong,
    #[error("the cryptographic library failed")]
    Crypto,
}

impl From<Unspecified> for SecretError {
    fn from(_: Unspecified) -> Self {
        Self::Crypto
    }
}

/// An error for a token that does not open, with a uniform text; see [`Self::reason`].
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid or expired token")]
pub struct UnsealError(Reason);

lockgate_text::words! {
    /// The reason why a token does not open. Must not be revealed to the caller.
    pub enum Reason {
        TooLong = "too_long",
        /// Not of the token's form, or of an unknown version.
        Malformed = "malformed",
        /// Sealed with a key that is not in the ring.
        UnknownKey = "unknown_key",
        /// Altered, or sealed for another purpose, principal, endpoint or other bound value.
        Forged = "forged",
        Expired = "expired",
    }
}

impl UnsealError {
    /// Returns the reason, for the log only.
    pub const fn reason(self) -> Reason {
        self.0
    }
}

lockgate_text::debug_fields!(UnsealError);

/// A sealer and opener of tokens, safe to share between threads. Replicas that share secrets open
/// each other's tokens.
pub struct Sealer {
    newest: Key,
    older: Vec<Key>,
}

struct Key {
    id: String,
    /// A key for each purpose, in their order.
    keys: Vec<RandomizedNonceKey>,
}

impl Sealer {
    /// Creates a sealer with a single secret.
    ///
    /// # Errors
    /// [`SecretError`].
    pub fn new(secret: &[u8]) -> Result<Self, SecretError> {
        Self::with_ring([secret])
    }

    /// Creates a sealer with a random secret that is never stored.
    ///
    /// # Errors
    /// [`SecretError::Crypto`], if the system has no randomness.
    pub fn random() -> Result<Self, SecretError> {
        let mut secret = [0; MIN_SECRET];
        rand::fill(&mut secret)?;
        Self::new(&secret)
    }

    /// Creates a sealer with several secrets, newest first. The first one seals, all of them open.
    ///
    /// # Errors
    /// [`SecretError`].
    pub fn with_ring<S: AsRef<[u8]>>(
        secrets: impl IntoIterator<Item = S>,
    ) -> Result<Self, SecretError> {
        let mut keys = Vec::new();
        for secret in secrets {
            if keys.len() >= MAX_KEYS {
                return Err(SecretError::TooMany);
            }
            if secret.as_ref().len() < MIN_SECRET {
                return Err(SecretError::Short);
            }
            keys.push(Key::derive(secret.as_ref())?);
        }
        let mut keys = keys.into_iter();
        let Some(newest) = keys.next() else { return Err(SecretError::None) };
        Ok(Self { newest, older: keys.collect() })
    }

    /// Seals `plain` until `expires` (Unix seconds). The token opens only with the same `bind`,
    /// part by part: principal, endpoint, method and any other value that must not change.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn seal(
        &self,
        purpose: Purpose,
        bind: &[&[u8]],
        expires: u64,
        plain: &[u8],
    ) -> Result<String, SealError> {
        let key = &self.newest;
        let secret = key.of(purpose);
        let tag = secret.algorithm().tag_len();
        let sealed_len = NONCE_LEN + EXPIRES_LEN + plain.len() + tag;
        let head = VERSION.len() + key.id.len() + 2;
        if plain.len() > MAX_TOKEN || head + base64_len(sealed_len) > MAX_TOKEN {
            return Err(SealError::TooLong);
        }
        let mut sealed = Vec::with_capacity(sealed_len);
        sealed.extend_from_slice(&[0; NONCE_LEN]);
        sealed.extend_from_slice(&expires.to_be_bytes());
        sealed.extend_from_slice(plain);
        let (place, content) = sealed.split_at_mut(NONCE_LEN);
        let aad = Aad::from(associated(key, purpose, bind));
        let Ok((nonce, tag)) = secret.seal_in_place_separate_tag(aad, content) else {
            return Err(SealError::Crypto);
        };
        place.copy_from_slice(nonce.as_ref());
        sealed.extend_from_slice(tag.as_ref());
        let mut token = String::with_capacity(head + base64_len(sealed_len));
        token.extend([VERSION, ".", &key.id, "."]);
        URL_SAFE_NO_PAD.encode_string(&sealed, &mut token);
        Ok(token)
    }

    /// Opens a token that was sealed for this purpose with this `bind` and expires after `now`
    /// (Unix seconds).
    ///
    /// # Errors
    /// [`UnsealError`].
    pub fn open(
        &self,
        purpose: Purpose,
        bind: &[&[u8]],
        now: u64,
        token: &str,
    ) -> Result<Vec<u8>, UnsealError> {
        if token.len() > MAX_TOKEN {
            return Err(UnsealError(Reason::TooLong));
        }
        let Some((key_id, sealed)) = split(token) else {
            return Err(UnsealError(Reason::Malformed));
        };
        let Some(key) = self.find_key(key_id) else { return Err(UnsealError(Reason::UnknownKey)) };
        let mut sealed =
            URL_SAFE_NO_PAD.decode(sealed).map_err(|_| UnsealError(Reason::Malformed))?;
        let Some((nonce, content)) = sealed.split_first_chunk_mut::<NONCE_LEN>() else {
            return Err(UnsealError(Reason::Malformed));
        };
        let nonce = Nonce::from(&*nonce);
        let aad = Aad::from(associated(key, purpose, bind));
        let Ok(opened) = key.of(purpose).open_in_place(nonce, aad, content) else {
            return Err(UnsealError(Reason::Forged));
        };
        let Some((expires, plain)) = opened.split_first_chunk::<EXPIRES_LEN>() else {
            return Err(UnsealError(Reason::Malformed));
        };
        if u64::from_be_bytes(*expires) <= now {
            return Err(UnsealError(Reason::Expired));
        }
        Ok(plain.to_vec())
    }

    fn find_key(&self, id: &str) -> Option<&Key> {
        if self.newest.id == id {
            return Some(&self.newest);
        }
        self.older.iter().find(|key| key.id == id)
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ids = vec![self.newest.id.as_str()];
        ids.extend(self.older.iter().map(|key| key.id.as_str()));
        f.debug_struct("Sealer").field("key_ids", &ids).finish_non_exhaustive()
    }
}

impl Key {
    fn derive(secret: &[u8]) -> Result<Self, Unspecified> {
        let root = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(secret);
        // The id is derived from a label that no purpose has, so it reveals nothing about any key.
        let [a, b, c, d, ..] = expand(&root, "key id")?;
        let keys = Purpose::ALL.iter().map(|purpose| {
            RandomizedNonceKey::new(&AES_256_GCM, &expand(&root, purpose.as_str())?)
        });
        let keys: Result<_, _> = keys.collect();
        Ok(Self { id: format!("{a:02x}{b:02x}{c:02x}{d:02x}"), keys: keys? })
    }

    fn of(&self, purpose: Purpose) -> &RandomizedNonceKey {
        &self.keys[purpose as usize]
    }
}

/// Returns a deterministic fingerprint of a secret, to compare secrets without revealing them. The
/// secret cannot be computed from it.
///
/// # Errors
/// [`SecretError::Crypto`].
pub fn fingerprint(secret: &[u8]) -> Result<String, SecretError> {
    let root = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(secret);
    // No purpose has this label, so the fingerprint reveals nothing about a key.
    Ok(hex::encode(&expand(&root, "fingerprint")?))
}

fn expand(root: &hkdf::Prk, label: &str) -> Result<[u8; 32], Unspecified> {
    let mut out = [0; 32];
    root.expand(&[VERSION.as_bytes(), b"\0", label.as_bytes()], hkdf::HKDF_SHA256)?
        .fill(&mut out)?;
    Ok(out)
}

/// Returns the additional authenticated data. Each part is prefixed with its length, so that
/// different lists of parts never produce the same bytes.
fn associated(key: &Key, purpose: Purpose, bind: &[&[u8]]) -> Vec<u8> {
    let own = [VERSION.as_bytes(), key.id.as_bytes(), purpose.as_str().as_bytes()];
    let mut out = Vec::with_capacity(64 + bind.iter().map(|part| part.len() + 8).sum::<usize>());
    for part in own.iter().chain(bind) {
        out.extend_from_slice(&(part.len() as u64).to_be_bytes());
        out.extend_from_slice(part);
    }
    out
}

fn split(token: &str) -> Option<(&str, &str)> {
    token.strip_prefix(VERSION)?.strip_prefix('.')?.split_once('.')
}

const fn base64_len(bytes: usize) -> usize {
    (bytes * 4).div_ceil(3)
}

#[cfg(test)]
mod tests;
