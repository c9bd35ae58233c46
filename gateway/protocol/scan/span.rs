//! Positions in a scanned text, of values and members of objects, and errors of scanning. Also the
//! text of strings: runs without escapes, and decoding of escapes.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::key::Key;

/// The range of a value in its text, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// Returns the bytes of the span; `text` must be the scanned text.
    pub fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.start as usize..self.end as usize).unwrap_or(&[])
    }

    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A member of an object: its key (raw, between the quotes) and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub key: Span,
    pub known: Key,
    /// Whether the key has escapes, so that its bytes are not its text.
    pub escaped: bool,
    pub value: Span,
}

impl Member {
    /// Returns whether the key, unescaped, is `name`.
    #[inline]
    pub fn is(&self, text: &[u8], name: &str) -> bool {
        if self.escaped {
            return unescape(self.key.of(text)) == name;
        }
        // Most keys have another length.
        (self.key.end - self.key.start) as usize == name.len()
            && self.key.of(text) == name.as_bytes()
    }

    /// Returns the unescaped key as bytes; most comparisons do not need text.
    pub fn name_bytes<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let raw = self.key.of(text);
        if !self.escaped {
            return Cow::Borrowed(raw);
        }
        match unescape(raw) {
            Cow::Borrowed(name) => Cow::Borrowed(name.as_bytes()),
            Cow::Owned(name) => Cow::Owned(name.into_bytes()),
        }
    }

    /// Returns the key as text.
    pub fn name<'a>(&self, text: &'a [u8]) -> Cow<'a, str> {
        if self.escaped {
            unescape(self.key.of(text))
        } else {
            Cow::Borrowed(std::str::from_utf8(self.key.of(text)).unwrap_or(""))
        }
    }
}

/// The members of an object, in order.
pub type Members = SmallVec<[Member; 8]>;

/// Returns the value of a known member.
#[inline]
pub fn get(members: &[Member], key: Key) -> Option<Span> {
    members.iter().find(|member| member.known == key).map(|member| member.value)
}

/// Returns the value of the member called `name`.
pub fn find(members: &[Member], text: &[u8], name: &str) -> Option<Span> {
    members.iter().find(|member| member.is(text, name)).map(|member| member.value)
}

/// Returns the text of the member called `name`, as [`as_str`] does.
pub fn find_str<'a>(members: &[Member], text: &'a [u8], name: &str) -> Option<Cow<'a, str>> {
    as_str(find(members, text, name)?.of(text))
}

/// The error of a scan and its position. Small enough for results to be returned in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct ScanError {
    pub what: Fault,
    /// Bytes from the start of the text.
    pub at: u32,
}

/// The fault in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("not UTF-8")]
    Utf8,
    #[error("not JSON")]
    Syntax,
    #[error("text ends early")]
    End,
    #[error("nested too deeply")]
    Depth,
    #[error("text after the value")]
    Trailing,
    #[error("duplicate key")]
    Duplicate,
    #[error("keys that differ only in case")]
    CaseVariant,
    #[error("key with bytes outside printable ASCII")]
    KeyBytes,
    #[error("too many members")]
    Members,
    #[error("not an object")]
    NotObject,
    #[error("a part of it is too long")]
    Length,
}

impl Fault {
    /// Returns whether the text is not JSON, as opposed to JSON that is rejected.
    pub fn is_syntax(self) -> bool {
        matches!(
            self,
            Self::Utf8 | Self::Syntax | Self::End | Self::Trailing | Self::Depth | Self::Length
        )
    }
}

/// Returns whether a byte ends a run of plain text within a string.
const fn ends(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Returns whether there is no byte beyond `~`: ASCII without DEL.
pub(super) fn is_plain(text: &[u8]) -> bool {
    const BLOCK: usize = 64;
    let (blocks, rest) = text.as_chunks::<BLOCK>();
    blocks.iter().all(|block| is_plain_block(block)) && is_plain_block(rest)
}

#[inline]
fn is_plain_block(bytes: &[u8]) -> bool {
    // Adding 1 carries DEL into the highest bit, which non-ASCII bytes have already.
    let all = bytes.iter().fold(0, |all, &byte| all | byte | byte.wrapping_add(1));
    all & 0x80 == 0
}

/// Returns the length of the prefix without quote, backslash and control bytes. Keys and short
/// values end within the first words; long texts are scanned in blocks that the compiler turns into
/// vector instructions.
#[inline]
pub(crate) fn plain_run(text: &[u8]) -> usize {
    const SHORT: usize = 128;
    match text.split_at_checked(SHORT) {
        None => words(text),
        Some((start, rest)) => match words(start) {
            SHORT => SHORT + blocks(rest),
            at => at,
        },
    }
}

/// Returns the length of a run of at most 128 bytes in a text that [`is_plain`] accepts, if the
/// run is followed by seven further bytes.
#[inline]
pub(super) fn short_run(text: &[u8]) -> Option<usize> {
    let (words, _) = text.as_chunks::<8>();
    for (n, word) in words.iter().take(16).enumerate() {
        let hit = mark_ends_in_plain(*word);
        if hit != 0 {
            return Some(n * 8 + (hit.trailing_zeros() / 8) as usize);
        }
    }
    None
}

/// Does the same as [`mark_ends`] for bytes up to `~`, whose sums do not carry.
#[inline]
const fn mark_ends_in_plain(word: [u8; 8]) -> u64 {
    let word = u64::from_le_bytes(word);
    let no_control = word.wrapping_add(ONE_BYTES * 0x60);
    let no_quote = (word ^ (ONE_BYTES * b'"' as u64)).wrapping_add(ONE_BYTES * 0x7F);
    let no_backslash = (word ^ (ONE_BYTES * b'\\' as u64)).wrapping_add(ONE_BYTES * 0x7F);
    !(no_control & no_quote & no_backslash) & HIGH_BITS
}

/// Scans long texts.
#[inline(never)]
fn blocks(text: &[u8]) -> usize {
    const BLOCK: usize = 64;
    let (blocks, rest) = text.as_chunks::<BLOCK>();
    for (n, block) in blocks.iter().enumerate() {
        if block.iter().fold(false, |any, &byte| any | ends(byte)) {
            return n * BLOCK + words(block);
        }
    }
    blocks.len() * BLOCK + words(rest)
}

/// Scans eight bytes at a time.
#[inline]
fn words(text: &[u8]) -> usize {
    let (words, rest) = text.as_chunks::<8>();
    for (n, word) in words.iter().enumerate() {
        let hit = mark_ends(*word);
        if hit != 0 {
            return n * 8 + (hit.trailing_zeros() / 8) as usize;
        }
    }
    words.len() * 8 + rest.iter().position(|&byte| ends(byte)).unwrap_or(rest.len())
}

/// Sets the highest bit of each byte that ends a run. Borrows can only set false bits above a true
/// one, so the lowest bit is exact.
#[inline]
const fn mark_ends(word: [u8; 8]) -> u64 {
    let word = u64::from_le_bytes(word);
    let control = word.wrapping_sub(ONE_BYTES * 0x20) & !word & HIGH_BITS;
    control
        | mark_zeros(word ^ (ONE_BYTES * b'"' as u64))
        | mark_zeros(word ^ (ONE_BYTES * b'\\' as u64))
}

const ONE_BYTES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Sets the highest bit of each byte that is zero.
const fn mark_zeros(x: u64) -> u64 {
    x.wrapping_sub(ONE_BYTES) & !x & HIGH_BITS
}

/// Returns the position of the quote that ends the string with content from `at` on.
pub(crate) fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        match text.get(at)? {
            b'"' => return Some(at),
            _ => at += 2,
        }
    }
}

/// Resolves the escapes of a scanned string. A lone surrogate becomes U+FFFD.
pub fn unescape(raw: &[u8]) -> Cow<'_, str> {
    let Ok(text) = std::str::from_utf8(raw) else { return Cow::Borrowed("") };
    if !raw.contains(&b'\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (plain, tail) = rest.split_at(at);
        out.push_str(plain);
        let code = *tail.as_bytes().get(1).unwrap_or(&b'\\');
        let mut used = 2;
        match code {
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'u' => {
                let (c, length) = unicode(tail);
                out.push(c);
                used = length;
            }
            other => out.push(char::from(other)),
        }
        rest = tail.get(used..).unwrap_or("");
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Decodes a `\u` with its four digits, or a surrogate pair, at the start of `tail`. Returns the
/// character and the number of consumed bytes.
fn unicode(tail: &str) -> (char, usize) {
    let Some(high) = escaped_unit(tail.as_bytes(), 0) else {
        return (char::REPLACEMENT_CHARACTER, 2);
    };
    if (0xD800..0xDC00).contains(&high)
        && let Some(low @ 0xDC00..0xE000) = escaped_unit(tail.as_bytes(), 6)
    {
        let code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
        return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12);
    }
    (char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER), 6)
}

/// Returns the text of a scanned string value (quotes included in `raw`), for lookups, comparisons
/// and storage. Returns `None` if the value is not a string, or has a lone surrogate, because two
/// different strings of that kind would read alike.
pub fn as_str(raw: &[u8]) -> Option<Cow<'_, str>> {
    match raw {
        [b'"', inner @ .., b'"'] => match memchr::memchr(b'\\', inner) {
            None => std::str::from_utf8(inner).ok().map(Cow::Borrowed),
            Some(_) if has_lone_surrogate(inner) => None,
            Some(_) => Some(unescape(inner)),
        },
        _ => None,
    }
}

/// Returns the number that a scanned value is, if it is a whole one.
pub fn as_number(raw: &[u8]) -> Option<u64> {
    std::str::from_utf8(raw).ok()?.parse().ok()
}

/// Returns the text of a string value for display only: a lone surrogate becomes U+FFFD.
pub fn as_words(raw: &[u8]) -> Option<Cow<'_, str>> {
    match raw {
        [b'"', inner @ .., b'"'] => Some(unescape(inner)),
        _ => None,
    }
}

/// Decodes the `\u` with four digits at `from`.
fn escaped_unit(text: &[u8], from: usize) -> Option<u32> {
    let digits = text.get(from..from + 6)?.strip_prefix(b"\\u")?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Returns whether a scanned string contains a lone surrogate.
fn has_lone_surrogate(inner: &[u8]) -> bool {
    let mut at = 0;
    while let Some(rest) = inner.get(at..)
        && let Some(found) = memchr::memchr(b'\\', rest)
    {
        at += found;
        at += match (escaped_unit(inner, at), escaped_unit(inner, at + 6)) {
            (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => 12,
            (Some(0xD800..0xE000), _) => return true,
            (Some(_), _) => 6,
            (None, _) => 2,
        };
    }
    false
}
