//! Private keys for signing statements: P-256 only, because every library verifies ES256. A key is
//! identified by its thumbprint (RFC 7638), which is the same on every gateway.

use std::fmt;

use jsonwebtoken::jwk::{Jwk, PublicKeyUse, ThumbprintHash};
use jsonwebtoken::{Algorithm, EncodingKey};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;

#[derive(Clone)]
pub struct SigningKey {
    private: EncodingKey,
    public: Jwk,
    id: String,
}

/// The reason that a text is not a signing key. The message does not quote the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SigningKeyError {
    #[error("is not a private key in PEM (PKCS #8)")]
    Form,
    #[error("is not a P-256 private key")]
    Kind,
}

impl SigningKey {
    /// Parses a PKCS #8 key in PEM, `-----BEGIN PRIVATE KEY-----`.
    pub fn from_pem(pem: &str) -> Result<Self, SigningKeyError> {
        let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
        let Ok(der) = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()) else {
            return Err(SigningKeyError::Form);
        };
        let private = EncodingKey::from_ec_der(der.secret_pkcs8_der());
        let Ok(mut public) = Jwk::from_encoding_key(&private, Algorithm::ES256) else {
            return Err(SigningKeyError::Kind);
        };
        let Ok(id) = public.thumbprint(ThumbprintHash::SHA256) else {
            return Err(SigningKeyError::Kind);
        };
        public.common.key_id = Some(id.clone());
        public.common.public_key_use = Some(PublicKeyUse::Signature);
        Ok(Self { private, public, id })
    }

    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn private(&self) -> &EncodingKey {
        &self.private
    }

    pub(super) fn public(&self) -> &Jwk {
        &self.public
    }
}

impl PartialEq for SigningKey {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for SigningKey {}

/// Omits the private key.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}
