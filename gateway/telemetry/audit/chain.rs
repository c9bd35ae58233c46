//! The chain: every record has a number, and some carry a hash, which is over all bytes since the
//! one before it and over that hash itself. Long texts are hashed several times as fast as short
//! ones, so a batch gets one, and a long batch some. Anybody can compute it (BLAKE3); with a key,
//! only its owner can.

/// What stands before the first record.
pub(super) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Records of so many bytes get a hash even if their batch is longer, so that a change is found
/// among few of them.
const SPAN: usize = 16 * 1024;
/// The longest record that is ever written, with its hash and its line break.
pub(super) const MAX_LINE: usize = 64 * 1024;
/// The most bytes that one hash is over.
pub(super) const MAX_SPAN: usize = SPAN + MAX_LINE;
/// Between a record and its hash.
const HASH: &[u8] = b",\"hash\":\"";
/// Characters of a hash.
const DIGITS: usize = 64;
/// What every record ends with.
const END: &[u8] = b"}\n";

/// What makes 32 bytes of the configured key, which has any length. `b3sum --derive-key` with these
/// words does the same.
const CONTEXT: &str = "Lockgate audit trail, key of the chain";

/// A hash in digits, and never anything else: it is written into records as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hex([u8; DIGITS]);

/// How hashes are made.
#[derive(Clone)]
pub(super) struct Seal(Option<[u8; 32]>);

/// A chain at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tip {
    /// Number of the last record; 0 before the first.
    pub(super) seq: u64,
    /// The last hash.
    pub(super) hash: Hex,
}

/// The end of a chain, and the records that are not written yet.
pub(super) struct Chain {
    seal: Seal,
    tip: Tip,
    bytes: Vec<u8>,
    /// Where the records begin that no hash is over.
    open: usize,
}

impl Default for Tip {
    fn default() -> Self {
        Self { seq: 0, hash: Hex([b'0'; DIGITS]) }
    }
}

impl Hex {
    /// Nothing but 64 digits in lower case is one.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes().try_into().ok()?;
        if !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        Some(Self(digits))
    }

    pub(super) fn as_str(&self) -> &str {
        // Digits are text.
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

    /// The hash that the last of these lines claims, when it is the right one for all of them. The
    /// last line has no break.
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
    /// Goes on after `tip`; there is room for `room` bytes.
    pub(super) fn new(seal: Seal, tip: Tip, room: usize) -> Self {
        Self { seal, tip, bytes: Vec::with_capacity(room), open: 0 }
    }

    /// Adds a record with the members that `write` makes, each after a comma.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>, &Seal)) {
        self.tip.seq += 1;
        self.bytes.extend_from_slice(b"{\"seq\":");
        self.bytes.extend_from_slice(itoa::Buffer::new().format(self.tip.seq).as_bytes());
        write(&mut self.bytes, &self.seal);
        self.bytes.extend_from_slice(END);
        if self.bytes.len() - self.open >= SPAN {
            self.close();
        }
    }

    /// Gives the last record a hash over all that have none.
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

    /// What is not written yet.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All of it is written.
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

/// A hash in digits. The library's own way costs as much as the hash of a short text.
pub(super) fn hex(hash: &blake3::Hash) -> [u8; DIGITS] {
    let mut digits = [0; DIGITS];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(hash.as_bytes()) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
    digits
}

fn digit(half: u8) -> u8 {
    if half < 10 { b'0' + half } else { b'a' - 10 + half }
}

/// Whether a line without its break carries a hash.
pub(super) fn is_closed(line: &[u8]) -> bool {
    split(line).is_some()
}

/// Lines without the last break: what was hashed, and the hash that the last one claims.
fn split(lines: &[u8]) -> Option<(&[u8], &[u8; DIGITS])> {
    let rest = lines.strip_suffix(b"\"}")?;
    let (before, hash) = rest.split_last_chunk()?;
    Some((before.strip_suffix(HASH)?, hash))
}
