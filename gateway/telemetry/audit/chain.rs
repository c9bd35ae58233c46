//! The chain: every record has a number, and a hash over the previous record's hash and its own
//! bytes. Without a key, any reader can compute the hash (BLAKE3); with a key, only its owner can.

use lockgate_text::hex;

/// The hash before the first record.
pub(super) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Maximum length of a written record, with its hash and line break.
pub(super) const MAX_LINE: usize = 64 * 1024;
/// The separator between a record and its hash.
const HASH: &[u8] = b",\"hash\":\"";
const HASH_DIGITS: usize = 64;

/// The key derivation context that makes 32 bytes of the configured key of any length. `b3sum
/// --derive-key` with this context gives the same key.
const CONTEXT: &str = "Lockgate audit trail, key of the chain";

/// A hash in hexadecimal digits. It contains only digits, because it is written to records
/// unescaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hex([u8; HASH_DIGITS]);

/// The hash function, with its key if configured.
#[derive(Clone, Default)]
pub(super) struct Seal(pub(super) Option<[u8; 32]>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tip {
    /// Number of the last record; 0 before the first.
    pub(super) seq: u64,
    pub(super) hash: Hex,
}

/// The end of a chain, and its pending records.
pub(super) struct Chain {
    pub(super) seal: Seal,
    pub(super) tip: Tip,
    /// The pending records, cleared after they are written.
    pub(super) bytes: Vec<u8>,
}

impl Default for Tip {
    fn default() -> Self {
        Self { seq: 0, hash: Hex([b'0'; HASH_DIGITS]) }
    }
}

impl Hex {
    /// Parses exactly 64 lower-case hexadecimal digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_hex = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        text.as_bytes().try_into().ok().filter(|_| is_hex).map(Self)
    }

    /// Formats a hash. The library's own formatting costs as much as hashing a short text.
    fn of(hash: &blake3::Hash) -> Self {
        let mut digits = [0; HASH_DIGITS];
        hex::write(hash.as_bytes(), &mut digits);
        Self(digits)
    }

    pub(super) fn as_str(&self) -> &str {
        // Digits are valid UTF-8.
        std::str::from_utf8(&self.0).unwrap_or("")
    }
}

impl Seal {
    pub(super) fn new(key: Option<&str>) -> Self {
        Self(key.map(|key| blake3::derive_key(CONTEXT, key.as_bytes())))
    }

    fn hasher(&self) -> blake3::Hasher {
        self.0.as_ref().map_or_else(blake3::Hasher::new, blake3::Hasher::new_keyed)
    }

    pub(super) fn digest(&self, bytes: &[u8]) -> Hex {
        // Without a hasher, which is 2 KB: arguments are digested on the path of a call.
        Hex::of(&match &self.0 {
            Some(key) => blake3::keyed_hash(key, bytes),
            None => blake3::hash(bytes),
        })
    }

    /// Returns the hash of a record after the record with the hash `prev`.
    fn hash(&self, prev: &Hex, record: &[u8]) -> Hex {
        Hex::of(&self.hasher().update(&prev.0).update(record).finalize())
    }

    /// Returns the hash in a line without its break, if it is correct after the hash `prev`.
    pub(super) fn check(&self, prev: &Hex, line: &[u8]) -> Option<Hex> {
        let (record, claimed) = split(line)?;
        let hash = self.hash(prev, record);
        if hash.0 == *claimed { Some(hash) } else { None }
    }
}

impl Chain {
    /// Continues after `tip`, with capacity for `room` bytes.
    pub(super) fn new(seal: Seal, tip: Tip, room: usize) -> Self {
        Self { seal, tip, bytes: Vec::with_capacity(room) }
    }

    /// Adds a record with the members that `write` appends, each after a comma.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>, &Seal)) {
        self.tip.seq += 1;
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(b"{\"seq\":");
        self.bytes.extend_from_slice(itoa::Buffer::new().format(self.tip.seq).as_bytes());
        write(&mut self.bytes, &self.seal);
        self.tip.hash = self.seal.hash(&self.tip.hash, &self.bytes[begin..]);
        self.bytes.extend_from_slice(HASH);
        self.bytes.extend_from_slice(&self.tip.hash.0);
        self.bytes.extend_from_slice(b"\"}\n");
    }
}

/// Returns the hash that a line without its break carries. It is not verified.
pub(super) fn claimed(line: &[u8]) -> Option<Hex> {
    let (_, digits) = split(line)?;
    Hex::parse(std::str::from_utf8(digits).ok()?)
}

/// Splits a line without its break into the hashed bytes and the hash.
fn split(line: &[u8]) -> Option<(&[u8], &[u8; HASH_DIGITS])> {
    let rest = line.strip_suffix(b"\"}")?;
    let (before, hash) = rest.split_last_chunk()?;
    Some((before.strip_suffix(HASH)?, hash))
}
