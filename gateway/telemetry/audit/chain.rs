//! The chain: every record carries its number, the hash of the record before it and its own, which is over all of its bytes
//! before `,"hash"`. Anybody can compute it; with a key it is an HMAC, which only its owner can.

use std::io::Write as _;

use aws_lc_rs::hmac;

use super::event::{hex, sha256};

/// What stands before the first record.
pub(super) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Between a record and its hash.
const HASH: &[u8] = b",\"hash\":\"";
/// Characters of a hash.
const DIGITS: usize = 64;

/// How hashes are made.
pub(super) struct Seal(Option<hmac::Key>);

/// A chain at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tip {
    /// Number of the last record; 0 before the first.
    pub(super) seq: u64,
    /// Its hash.
    pub(super) hash: String,
}

impl Default for Tip {
    fn default() -> Self {
        Self { seq: 0, hash: GENESIS.to_owned() }
    }
}

impl Seal {
    pub(super) fn new(key: Option<&str>) -> Self {
        Self(key.map(|key| hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes())))
    }

    pub(super) fn is_keyed(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn digest(&self, bytes: &[u8]) -> [u8; 32] {
        match &self.0 {
            Some(key) => hmac::sign(key, bytes).as_ref().try_into().unwrap_or_default(),
            None => sha256(bytes),
        }
    }

    /// Writes one record, with the members that `write` adds, and moves the tip to it.
    pub(super) fn append(&self, out: &mut Vec<u8>, tip: &mut Tip, write: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        tip.seq += 1;
        let _ = write!(out, "{{\"seq\":{},\"prev\":\"{}\"", tip.seq, tip.hash);
        write(out);
        tip.hash = hex(&self.digest(out.get(start..).unwrap_or_default()));
        out.extend_from_slice(HASH);
        out.extend_from_slice(tip.hash.as_bytes());
        out.extend_from_slice(b"\"}\n");
    }

    /// The hash that a line claims, when it is the right one.
    pub(super) fn check<'a>(&self, line: &'a [u8]) -> Option<&'a str> {
        let (body, claimed) = split(line)?;
        (hex(&self.digest(body)) == claimed).then_some(claimed)
    }
}

/// A line without its break: what was hashed, and the hash that it claims.
fn split(line: &[u8]) -> Option<(&[u8], &str)> {
    let rest = line.strip_suffix(b"\"}")?;
    let (before, hash) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    Some((before.strip_suffix(HASH)?, std::str::from_utf8(hash).ok()?))
}
