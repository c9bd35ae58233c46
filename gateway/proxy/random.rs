//! Unguessable ids.

use lockgate_text::hex;

/// Returns an id of 128 bits, or `None` without random bytes.
pub fn random_id() -> Option<Box<str>> {
    Some(hex::random::<16>()?.into())
}
