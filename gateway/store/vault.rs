//! Sealing of credentials: AES-256-GCM with a random nonce, and with organisation, record and field
//! as associated data, so that a value only opens in the field it was sealed for. The first key of
//! the ring seals, all open. The vault does not use the database.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{digest, hkdf, hmac, rand};
use lockgate_text::hex;
use zeroize::Zeroizing;

use crate::config::{Config, Keys};
use crate::error::{MIN_KEY, VaultError};
use crate::file;

/// The first byte of a sealed value, which identifies its format.
const SEALED_FORM: u8 = 1;
const KEY_ID_LEN: usize = 4;
const HEAD_LEN: usize = 1 + KEY_ID_LEN + NONCE_LEN;
const SALT: &[u8] = b"lockgate vault";

/// The location of a sealed value.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    pub organisation: &'a str,
    pub record: &'a str,
    pub field: &'a str,
}

/// A ring of keys. Replicas with the same keys open each other's values.
pub struct Vault {
    ring: OnceLock<Vec<Key>>,
    /// The file in which the only key is created on first use.
    own_key: Option<PathBuf>,
}

struct Key {
    id: [u8; KEY_ID_LEN],
    cipher: RandomizedNonceKey,
    digests: hmac::Key,
}

impl Vault {
    /// Creates the ring of these keys, the newest first.
    ///
    /// # Errors
    /// [`VaultError::ShortKey`], [`VaultError::Crypto`].
    pub fn new(keys: &Keys) -> Result<Self, VaultError> {
        let mut ring = Vec::with_capacity(keys.0.len());
        for key in &keys.0 {
            if key.len() < MIN_KEY {
                return Err(VaultError::ShortKey);
            }
            let Ok(key) = Key::derive(key.as_bytes()) else { return Err(VaultError::Crypto) };
            ring.push(key);
        }
        Ok(Self { ring: ring.into(), own_key: None })
    }

    /// Creates the ring of a configuration: the gateway's own key if its file exists, else the
    /// configured keys, or a key that is created on first use.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn open_configured(config: &Config) -> Result<Self, VaultError> {
        let Some(own_key) = &config.own_key else { return Self::new(&config.keys) };
        match read_own_key(own_key) {
            Some(key) => Self::new(&Keys(vec![key])),
            None if !config.makes_key => Self::new(&config.keys),
            None => Ok(Self { ring: OnceLock::new(), own_key: Some(own_key.clone()) }),
        }
    }

    /// Returns whether a key for sealing exists or can be created.
    pub fn can_seal(&self) -> bool {
        !self.ring().is_empty() || self.own_key.is_some()
    }

    /// Returns the existing keys. Another gateway may have created the file in the meantime.
    fn ring(&self) -> &[Key] {
        if let Some(ring) = self.ring.get() {
            return ring;
        }
        let Some(key) = self.own_key.as_deref().and_then(read_own_key) else { return &[] };
        self.fill(&key)
    }

    fn fill(&self, key: &str) -> &[Key] {
        let Ok(key) = Key::derive(key.as_bytes()) else { return &[] };
        self.ring.get_or_init(|| vec![key])
    }

    /// Returns the keys. Creates the gateway's own key if there is no other.
    fn filled_ring(&self) -> &[Key] {
        match &self.own_key {
            Some(file) if self.ring.get().is_none() => {
                let Some(key) = make_own_key(file) else { return &[] };
                self.fill(&key)
            }
            _ => self.ring(),
        }
    }

    /// Seals a secret for this field alone.
    ///
    /// # Errors
    /// [`VaultError::NoKey`], [`VaultError::Crypto`].
    pub fn seal(&self, field: &Field<'_>, secret: &Secret) -> Result<Vec<u8>, VaultError> {
        let Some(key) = self.filled_ring().first() else { return Err(VaultError::NoKey) };
        let mut content = secret.expose().as_bytes().to_vec();
        let sealed = key.cipher.seal_in_place_append_tag(associated(key, field), &mut content);
        let Ok(nonce) = sealed else { return Err(VaultError::Crypto) };
        let mut value = Vec::with_capacity(HEAD_LEN + content.len());
        value.push(SEALED_FORM);
        value.extend_from_slice(&key.id);
        value.extend_from_slice(nonce.as_ref());
        value.extend_from_slice(&content);
        Ok(value)
    }

    /// Opens a value that [`Self::seal`] returned for this field.
    ///
    /// # Errors
    /// [`VaultError::UnknownKey`], [`VaultError::Altered`].
    pub fn open(&self, field: &Field<'_>, sealed: &[u8]) -> Result<Secret, VaultError> {
        let Some((key_id, rest)) = split_head(sealed) else { return Err(VaultError::Altered) };
        let key = self.ring().iter().find(|key| key.id == key_id).ok_or(VaultError::UnknownKey)?;
        key.open(field, rest).ok_or(VaultError::Altered)
    }

    /// Returns whether a value was sealed with the current key.
    pub fn is_current(&self, sealed: &[u8]) -> bool {
        match (self.ring().first(), split_head(sealed)) {
            (Some(newest), Some((key_id, _))) => newest.id == key_id,
            _ => false,
        }
    }

    /// Returns a digest for each key, in their order. Digests distinguish secrets, and reveal
    /// nothing without the ring. Without a key, the result is the same for all secrets.
    pub fn digests(&self, secret: &Secret) -> Vec<Vec<u8>> {
        let ring = self.filled_ring();
        if ring.is_empty() {
            return vec![Vec::new()];
        }
        let secret = secret.expose().as_bytes();
        ring.iter().map(|key| hmac::sign(&key.digests, secret).as_ref().to_vec()).collect()
    }
}

/// Shows only the number of keys.
impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("keys", &self.ring.get().map_or(0, Vec::len)).finish()
    }
}

impl Key {
    fn derive(secret: &[u8]) -> Result<Self, Unspecified> {
        let root = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(secret);
        // The id is derived with a separate label, so that it reveals nothing about the key.
        let [a, b, c, d, ..] = expand(&root, b"key id")?;
        Ok(Self {
            id: [a, b, c, d],
            cipher: RandomizedNonceKey::new(&AES_256_GCM, &expand(&root, b"seal")?)?,
            digests: hmac::Key::new(hmac::HMAC_SHA256, &expand(&root, b"digest")?),
        })
    }

    /// Opens the part of a sealed value after the key id. Returns `None` if it was altered.
    fn open(&self, field: &Field<'_>, rest: &[u8]) -> Option<Secret> {
        let (nonce, content) = rest.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut content = Zeroizing::new(content.to_vec());
        let opened = self.cipher.open_in_place(nonce, associated(self, field), &mut content);
        let text = std::str::from_utf8(opened.ok()?).ok()?;
        Some(Secret::new(text.to_owned()))
    }
}

fn expand(root: &hkdf::Prk, label: &[u8]) -> Result<[u8; 32], Unspecified> {
    let mut out = [0; 32];
    root.expand(&[label], hkdf::HKDF_SHA256)?.fill(&mut out)?;
    Ok(out)
}

/// Returns the SHA-256 in hexadecimal digits.
pub fn digest(bytes: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// Splits a sealed value into its key id and the rest.
fn split_head(sealed: &[u8]) -> Option<([u8; KEY_ID_LEN], &[u8])> {
    let (form, rest) = sealed.split_first()?;
    let (key_id, rest) = rest.split_first_chunk::<KEY_ID_LEN>()?;
    if *form == SEALED_FORM { Some((*key_id, rest)) } else { None }
}

/// Returns the associated data of a field. Each part carries its length, so that different fields
/// have different encodings.
fn associated(key: &Key, field: &Field<'_>) -> Aad<Vec<u8>> {
    let parts: [&[u8]; 4] =
        [&key.id, field.organisation.as_bytes(), field.record.as_bytes(), field.field.as_bytes()];
    let mut out = vec![SEALED_FORM];
    for part in parts {
        out.extend_from_slice(&(part.len() as u64).to_be_bytes());
        out.extend_from_slice(part);
    }
    Aad::from(out)
}

// The key that a development gateway creates when the first credential is stored: a file beside
// the database, with access for its owner alone.

const KEY_BYTES: usize = 32;
/// Random bytes in the name of a draft, so that concurrent writers use different names.
const DRAFT_BYTES: usize = 8;
/// Maximum number of bytes read from a file.
const MAX_KEY: u64 = 4096;

/// Returns the key in a file; `None` if it cannot be read.
#[allow(clippy::disallowed_methods, reason = "the gateway's own key, beside its database")]
fn read_own_key(path: &Path) -> Option<String> {
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(MAX_KEY).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned())
}

/// Creates the file, or reads the file that another writer has created in the meantime. Logs I/O
/// errors and returns `None`.
#[allow(clippy::disallowed_methods, reason = "the gateway's own key, beside its database")]
fn make_own_key(path: &Path) -> Option<String> {
    let mut random = [0; KEY_BYTES + DRAFT_BYTES];
    rand::fill(&mut random).ok()?;
    let (key, draft) = random.split_at(KEY_BYTES);
    let key = hex::encode(key);
    let shown = path.display();
    if let Some(folder) = path.parent()
        && let Err(error) = file::make_folder(folder)
    {
        tracing::error!(%error, "{shown} cannot be created, so credentials cannot be stored");
        return None;
    }
    match write(path, &hex::encode(draft), &key) {
        Ok(()) => {
            tracing::warn!(
                "{shown} was created: the key that encrypts stored credentials. Without it they \
                    are lost, so keep a copy, separate from backups of the database"
            );
            Some(key)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => read_own_key(path),
        Err(error) => {
            tracing::error!(%error, "{shown} cannot be created, so credentials cannot be stored");
            None
        }
    }
}

/// Writes a file that is complete once it has its name. Does not replace an existing file.
#[allow(clippy::disallowed_methods, reason = "the gateway's own key, beside its database")]
fn write(path: &Path, draft: &str, key: &str) -> std::io::Result<()> {
    let draft = path.with_extension(format!("{draft}.part"));
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(format!("{key}\n").as_bytes())?;
    file.sync_all()?;
    let named = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    named
}

/// A secret text. Cheap to clone.
#[derive(Clone)]
pub struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    pub fn new(text: String) -> Self {
        Self(Arc::new(Zeroizing::new(text)))
    }

    /// Returns the text itself, for the component that uses it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        verify_slices_are_equal(self.expose().as_bytes(), other.expose().as_bytes()).is_ok()
    }
}

impl Eq for Secret {}

lockgate_text::debug_fields!(Secret);

#[cfg(test)]
mod tests;
