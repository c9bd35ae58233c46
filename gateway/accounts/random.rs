//! Unguessable texts, and the challenge of PKCE.

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lockgate_text::hex;

use crate::error::{AccountError, Result};

/// Returns 43 characters with 256 random bits, which suit `state`, ids and PKCE verifiers.
pub(crate) fn random_text() -> Result<String> {
    let none = AccountError::Internal("random numbers are unavailable on this machine");
    Ok(URL_SAFE_NO_PAD.encode(hex::random_bytes::<32>().ok_or(none)?))
}

/// Returns the S256 challenge of a verifier (RFC 7636, section 4.2).
pub(crate) fn pkce_challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()))
}

/// Returns a hash for lookups, so that their timing reveals nothing about the text.
pub(crate) fn lookup_key(text: &str) -> [u8; 32] {
    *blake3::hash(text.as_bytes()).as_bytes()
}

/// Returns a digest of texts, which are kept apart by their lengths.
pub(crate) fn digest(parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests;
