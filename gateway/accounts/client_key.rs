//! Private keys of clients, for assertions (`private_key_jwt`, RFC 7523): P-256 only, because every
//! library verifies ES256.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::json;

use crate::error::AccountError;
use crate::random::random_text;

/// Lifetime of a client assertion, in seconds.
const ASSERTION_LIFETIME: u64 = 60;

/// A private key for client assertions.
#[derive(Clone)]
pub struct ClientKey {
    private: EncodingKey,
    key_id: Option<String>,
    /// Distinguishes keys without comparing private parts.
    digest: [u8; 32],
}

/// The reason that a text is not a key. The message does not quote the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a P-256 private key in PEM (PKCS #8)")]
pub struct ClientKeyError;

impl ClientKey {
    /// Parses a P-256 private key in PEM (PKCS #8), for ES256.
    ///
    /// # Errors
    /// [`ClientKeyError`].
    pub fn from_pem(pem: &str, key_id: Option<String>) -> Result<Self, ClientKeyError> {
        let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
        let Ok(der) = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()) else {
            return Err(ClientKeyError);
        };
        let private = EncodingKey::from_ec_der(der.secret_pkcs8_der());
        let digest = *blake3::hash(der.secret_pkcs8_der()).as_bytes();
        let key = Self { private, key_id, digest };
        if key.sign("test", "test").is_ok() { Ok(key) } else { Err(ClientKeyError) }
    }

    /// Signs an assertion of the client for an audience.
    pub(crate) fn sign(&self, client: &str, audience: &str) -> Result<String, AccountError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let claims = json!({
            "iss": client, "sub": client, "aud": audience, "iat": now,
            "exp": now + ASSERTION_LIFETIME, "jti": random_text()?,
        });
        let header = Header { kid: self.key_id.clone(), ..Header::new(Algorithm::ES256) };
        let signed = jsonwebtoken::encode(&header, &claims, &self.private);
        signed.map_err(|_| AccountError::Internal("the client key cannot sign"))
    }
}

impl PartialEq for ClientKey {
    fn eq(&self, other: &Self) -> bool {
        (self.digest, &self.key_id) == (other.digest, &other.key_id)
    }
}

impl Eq for ClientKey {}

/// Omits the private key.
impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}
