//! The chain: every record has a number, and some carry a hash over all bytes since the previous
//! hash and over that hash itself. Long inputs hash several times as fast as short inputs, so a
//! batch gets a single hash, and a long batch several. Without a key, any reader can compute the
//! hash (BLAKE3); with a key, only its owner can.

/// The hash before the first record.
pub(super) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Records of this many bytes get a hash even within a batch, to localise changes.
const SPAN_BYTES: usize = 16 * 1024;
/// Maximum length of a written record, with its hash and line break.
pub(super) const MAX_LINE: usize = 64 * 1024;
/// Maximum number of bytes that one hash covers.
pub(super) const MAX_SPAN: usize = SPAN_BYTES + MAX_LINE;
/// The separator between a record and its hash.
const HASH: &[u8] = b",\"hash\":\"";
const HASH_DIGITS: usize = 64;
const END: &[u8] = b"}\n";

/// The key derivation context that makes 32 bytes of the configured key of any length. `b3sum
/// --derive-key` with this context gives the same key.
const CONTEXT: &str = "Lockgate audit trail, key of the chain";

/// A hash in hexadecimal digits. It contains only digits, because it is written to records
/// unescaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hex([u8; HASH_DIGITS]);

/// The hash function, with its key if configured.
#[derive(Clone)]
pub(super) struct Seal(Option<[u8; 32]>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tip {
    /// Number of the last record; 0 before the first.
    pub(super) seq: u64,
    pub(super) hash: Hex,
}

/// The end of a chain, and its pending records.
pub(super) struct Chain {
    seal: Seal,
    tip: Tip,
    bytes: Vec<u8>,
    /// Offset of the first pending record without a hash.
    open: usize,
}

impl Default for Tip {
    fn default() -> Self {
        Self { seq: 0, hash: Hex([b'0'; HASH_DIGITS]) }
    }
}

impl Hex {
    /// Parses exactly 64 lower-case hexadecimal digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes().try_into().ok()?;
        if !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        Some(Self(digits))
    }

    pub(super) fn as_str(&self) -> &str {
        // Digits are valid UTF-8.
        std::str::from_utf8(&self.0).unwrap_or("")
    }
}

impl Seal {
    pub(super) fn new(key: Option<&str>) -> Self {
        match key {
            Some(key) => Self(Some(blake3::derive_key(CONTEXT, key.as_bytes()))),
            None => Self(None),
        }
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

    /// Returns the hash in the last of these lines, if it is correct for all of them. The last line
    /// must have no line break.
    pub(super) fn check(&self, lines: &[u8]) -> Option<Hex> {
        let (hashed, claimed) = split(lines)?;
        let hash = hex(&self.digest(hashed));
        if hash != *claimed {
            return None;
        }
        Some(Hex(hash))
    }
}

impl Chain {
    /// Continues after `tip`, with capacity for `room` bytes.
    pub(super) fn new(seal: Seal, tip: Tip, room: usize) -> Self {
        Self { seal, tip, bytes: Vec::with_capacity(room), open: 0 }
    }

    /// Adds a record with the members that `write` appends, each after a comma.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>, &Seal)) {
        self.tip.seq += 1;
        self.bytes.extend_from_slice(b"{\"seq\":");
        self.bytes.extend_from_slice(itoa::Buffer::new().format(self.tip.seq).as_bytes());
        write(&mut self.bytes, &self.seal);
        self.bytes.extend_from_slice(END);
        if self.bytes.len() - self.open >= SPAN_BYTES {
            self.close();
        }
    }

    /// Adds a hash over all unhashed records to the last record.
    pub(super) fn close(&mut self) {
        if self.open == self.bytes.len() {
            return;
        }
        self.bytes.truncate(self.bytes.len() - END.len());
        self.bytes.extend_from_slice(b",\"prev\":\"");
        self.bytes.extend_from_slice(&self.tip.hash.0);
        self.bytes.push(b'"');
        let hash = hex(&self.seal.digest(self.bytes.get(self.open..).unwrap_or(&[])));
        self.bytes.extend_from_slice(HASH);
        self.bytes.extend_from_slice(&hash);
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(END);
        self.open = self.bytes.len();
        self.tip.hash = Hex(hash);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Clears the pending records after they are written.
    pub(super) fn clear(&mut self) {
        debug_assert_eq!(self.open, self.bytes.len(), "records without a hash are written");
        self.bytes.clear();
        self.open = 0;
    }

    pub(super) fn tip(&self) -> &Tip {
        &self.tip
    }

    pub(super) fn seal(&self) -> &Seal {
        &self.seal
    }
}

/// Formats a hash. The library's own formatting costs as much as hashing a short text.
pub(super) fn hex(hash: &blake3::Hash) -> [u8; HASH_DIGITS] {
    let mut digits = [0; HASH_DIGITS];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(hash.as_bytes()) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
    digits
}

fn digit(half: u8) -> u8 {
    if half < 10 { b'0' + half } else { b'a' - 10 + half }
}

/// Returns whether a line without its break carries a hash.
pub(super) fn is_closed(line: &[u8]) -> bool {
    split(line).is_some()
}

/// Splits lines without the last break into the hashed bytes and the hash in the last line.
fn split(lines: &[u8]) -> Option<(&[u8], &[u8; HASH_DIGITS])> {
    let rest = lines.strip_suffix(b"\"}")?;
    let (before, hash) = rest.split_last_chunk()?;
    Some((before.strip_suffix(HASH)?, hash))
}
