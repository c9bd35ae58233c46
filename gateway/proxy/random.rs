//! Unguessable ids.

use lockgate_text::hex;

/// Returns an id of 128 bits, or `None` without random bytes.
pub(crate) fn random_id() -> Option<Box<str>> {
    let mut random = [0u8; 16];
    getrandom::fill(&mut random).ok()?;
    Some(hex::encode(&random).into())
}
