//! The chain: every record carries its number, the hash of the record before it and its own, which is over all of its bytes
//! before `,"hash"`. Anybody can compute it (BLAKE3); with a key, only its owner can.

/// What stands before the first record.
pub(super) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Between a record and its hash.
const HASH: &[u8] = b",\"hash\":\"";
/// Characters of a hash.
const DIGITS: usize = 64;

/// What makes 32 bytes of the configured key, which has any length. `b3sum --derive-key` with these words does the same.
const CONTEXT: &str = "Lockgate audit trail, key of the chain";

/// How hashes are made.
pub(super) struct Seal(Option<[u8; 32]>);

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
        Self(key.map(|key| blake3::derive_key(CONTEXT, key.as_bytes())))
    }

    pub(super) fn is_keyed(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn digest(&self, bytes: &[u8]) -> blake3::Hash {
        match &self.0 {
            Some(key) => blake3::keyed_hash(key, bytes),
            None => blake3::hash(bytes),
        }
    }

    /// Writes one record, with the members that `write` adds, and moves the tip to it.
    pub(super) fn append(&self, out: &mut Vec<u8>, tip: &mut Tip, write: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        tip.seq += 1;
        out.extend_from_slice(b"{\"seq\":");
        out.extend_from_slice(itoa::Buffer::new().format(tip.seq).as_bytes());
        out.extend_from_slice(b",\"prev\":\"");
        out.extend_from_slice(tip.hash.as_bytes());
        out.push(b'"');
        write(out);
        let hash = hex(&self.digest(out.get(start..).unwrap_or_default()));
        out.extend_from_slice(HASH);
        out.extend_from_slice(&hash);
        out.extend_from_slice(b"\"}\n");
        tip.hash.clear();
        // Digits are text.
        tip.hash.push_str(std::str::from_utf8(&hash).unwrap_or_default());
    }

    /// The hash that a line claims, when it is the right one.
    pub(super) fn check<'a>(&self, line: &'a [u8]) -> Option<&'a str> {
        let (body, claimed) = split(line)?;
        (self.digest(body).to_hex().as_str() == claimed).then_some(claimed)
    }
}

/// A hash in digits. Every record has up to three, and the library's own way costs as much as the hash of a short text.
pub(super) fn hex(hash: &blake3::Hash) -> [u8; DIGITS] {
    let mut digits = [0; DIGITS];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(hash.as_bytes()) {
        pair.copy_from_slice(
            &[byte >> 4, byte & 15].map(|half| if half < 10 { b'0' + half } else { b'a' - 10 + half }),
        );
    }
    digits
}

/// A line without its break: what was hashed, and the hash that it claims.
fn split(line: &[u8]) -> Option<(&[u8], &str)> {
    let rest = line.strip_suffix(b"\"}")?;
    let (before, hash) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    Some((before.strip_suffix(HASH)?, std::str::from_utf8(hash).ok()?))
}
