//! A strict one-pass scanner over JSON text: it validates every byte, finds where members stand and builds no tree.
//!
//! It refuses what parsers disagree on: duplicate keys, keys that differ only in case, control bytes, lone surrogates
//! in keys, trailing text, and nesting beyond a bound. Values that nobody reads are skipped, but still validated.

use std::borrow::Cow;

use smallvec::SmallVec;

/// Where a value stands in its text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// The bytes of the span; `text` must be the text that was scanned.
    #[must_use]
    pub fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    #[must_use]
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// One member of an object: its key (raw, between the quotes) and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub key: Span,
    /// The key has escapes, so its bytes are not its text.
    pub escaped: bool,
    pub value: Span,
}

impl Member {
    /// Whether the key, unescaped, is `name`.
    #[must_use]
    pub fn is(&self, text: &[u8], name: &str) -> bool {
        if self.escaped { unescape(self.key.of(text)) == name } else { self.key.of(text) == name.as_bytes() }
    }

    /// The key as text.
    #[must_use]
    pub fn name<'a>(&self, text: &'a [u8]) -> Cow<'a, str> {
        if self.escaped {
            unescape(self.key.of(text))
        } else {
            Cow::Borrowed(std::str::from_utf8(self.key.of(text)).unwrap_or_default())
        }
    }
}

/// The members of one object, in order.
pub type Members = SmallVec<[Member; 8]>;

/// The value of the member called `name`.
#[must_use]
pub fn find(members: &[Member], text: &[u8], name: &str) -> Option<Span> {
    members.iter().find(|m| m.is(text, name)).map(|m| m.value)
}

/// How exact the keys of an object have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Plain ASCII without control bytes, no two equal ignoring case. For everything that the gateway itself reads.
    Strict,
    /// Any text, but no two the same. For the results of servers, which may carry members of their own.
    Distinct,
}

/// Why a text was refused, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct Flaw {
    pub what: Fault,
    pub at: usize,
}

/// What is wrong with a text.
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
    #[error("longer than 4 GiB")]
    Length,
}

impl Fault {
    /// Whether the text is JSON at all (as opposed to JSON that we refuse).
    #[must_use]
    pub fn is_syntax(self) -> bool {
        matches!(self, Self::Utf8 | Self::Syntax | Self::End | Self::Trailing | Self::Depth | Self::Length)
    }
}

/// Most members of an object whose keys are compared with each other.
pub const MAX_MEMBERS: usize = 128;
/// Deepest nesting that can be asked for.
pub const MAX_DEPTH: usize = 128;

/// A cursor over one JSON text.
pub struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    max_depth: usize,
}

impl<'a> Scanner<'a> {
    /// Checks the encoding; `max_depth` is capped at [`MAX_DEPTH`].
    ///
    /// # Errors
    /// [`Fault::Utf8`] or [`Fault::Length`].
    pub fn new(text: &'a [u8], max_depth: usize) -> Result<Self, Flaw> {
        if u32::try_from(text.len()).is_err() {
            return Err(Flaw { what: Fault::Length, at: 0 });
        }
        match std::str::from_utf8(text) {
            Ok(_) => Ok(Self { text, at: 0, depth: 0, max_depth: max_depth.min(MAX_DEPTH) }),
            Err(e) => Err(Flaw { what: Fault::Utf8, at: e.valid_up_to() }),
        }
    }

    fn fail<T>(&self, what: Fault) -> Result<T, Flaw> {
        Err(Flaw { what, at: self.at })
    }

    /// The next byte that is not white space, without taking it.
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(&b) = self.text.get(self.at) {
            if b > b' ' || !matches!(b, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(b);
            }
            self.at += 1;
        }
        None
    }

    fn take(&mut self, expected: u8) -> Result<(), Flaw> {
        match self.peek() {
            Some(b) if b == expected => {
                self.at += 1;
                Ok(())
            }
            Some(_) => self.fail(Fault::Syntax),
            None => self.fail(Fault::End),
        }
    }

    /// Nothing but white space is left.
    ///
    /// # Errors
    /// [`Fault::Trailing`].
    pub fn end(&mut self) -> Result<(), Flaw> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.fail(Fault::Trailing),
        }
    }

    /// Walks an object. `visit` gets each key and must consume the value (with [`Self::value`], [`Self::object`] …).
    ///
    /// # Errors
    /// Any [`Fault`]; those of `visit` too.
    pub fn object(
        &mut self,
        keys: Keys,
        visit: &mut dyn FnMut(&mut Self, Member) -> Result<Span, Flaw>,
    ) -> Result<(Span, Members), Flaw> {
        if self.peek() != Some(b'{') {
            return self.fail(Fault::NotObject);
        }
        let start = self.at;
        self.enter()?;
        let mut members = Members::new();
        if self.peek() == Some(b'}') {
            self.leave();
            return Ok((self.span(start), members));
        }
        loop {
            let key_at = self.at;
            let (key, escaped) = self.string()?;
            let mut member = Member { key, escaped, value: key };
            self.check_key(&members, &member, keys, key_at)?;
            self.take(b':')?;
            member.value = visit(self, member)?;
            members.push(member);
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.peek();
                }
                Some(b'}') => break,
                Some(_) => return self.fail(Fault::Syntax),
                None => return self.fail(Fault::End),
            }
        }
        self.leave();
        Ok((self.span(start), members))
    }

    /// Walks an object and only notes where its members stand.
    ///
    /// # Errors
    /// As [`Self::object`].
    pub fn members(&mut self, keys: Keys) -> Result<(Span, Members), Flaw> {
        self.object(keys, &mut |scanner, _| scanner.value())
    }

    /// Walks an array. `visit` must consume each element.
    ///
    /// # Errors
    /// Any [`Fault`]; those of `visit` too.
    pub fn array(&mut self, visit: &mut dyn FnMut(&mut Self) -> Result<(), Flaw>) -> Result<Span, Flaw> {
        if self.peek() != Some(b'[') {
            return self.fail(Fault::Syntax);
        }
        let start = self.at;
        self.enter()?;
        if self.peek() == Some(b']') {
            self.leave();
            return Ok(self.span(start));
        }
        loop {
            visit(self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                Some(_) => return self.fail(Fault::Syntax),
                None => return self.fail(Fault::End),
            }
        }
        self.leave();
        Ok(self.span(start))
    }

    fn enter(&mut self) -> Result<(), Flaw> {
        if self.depth >= self.max_depth {
            return self.fail(Fault::Depth);
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.at += 1;
    }

    #[allow(clippy::cast_possible_truncation)] // the length was checked in `new`
    fn span(&self, start: usize) -> Span {
        Span { start: start as u32, end: self.at as u32 }
    }

    fn check_key(&self, before: &[Member], new: &Member, keys: Keys, at: usize) -> Result<(), Flaw> {
        if before.len() >= MAX_MEMBERS {
            return Err(Flaw { what: Fault::Members, at });
        }
        let raw = new.key.of(self.text);
        if keys == Keys::Strict {
            let bad = if new.escaped {
                !unescape(raw).bytes().all(|b| (b' '..=b'~').contains(&b))
            } else {
                !raw.iter().all(|b| (b' '..=b'~').contains(b))
            };
            if bad {
                return Err(Flaw { what: Fault::KeyBytes, at });
            }
        }
        for old in before {
            if !old.escaped && !new.escaped && old.key.end - old.key.start != new.key.end - new.key.start {
                continue;
            }
            let (old_name, new_name) = (old.name(self.text), new.name(self.text));
            if old_name == new_name {
                return Err(Flaw { what: Fault::Duplicate, at });
            }
            if keys == Keys::Strict && old_name.eq_ignore_ascii_case(&new_name) {
                return Err(Flaw { what: Fault::CaseVariant, at });
            }
        }
        Ok(())
    }

    /// Takes a string; gives what stands between the quotes and whether it has escapes.
    ///
    /// # Errors
    /// [`Fault::Syntax`] or [`Fault::End`].
    pub fn string(&mut self) -> Result<(Span, bool), Flaw> {
        self.take(b'"')?;
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at += plain_run(self.text.get(self.at..).unwrap_or_default());
            match self.text.get(self.at) {
                Some(b'"') => {
                    let span = self.span(start);
                    self.at += 1;
                    return Ok((span, escaped));
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return self.fail(Fault::Syntax),
                None => return self.fail(Fault::End),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Flaw> {
        match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let digits = self.text.get(self.at + 2..self.at + 6).unwrap_or_default();
                if digits.len() != 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
                    return self.fail(Fault::Syntax);
                }
                self.at += 6;
            }
            Some(_) => return self.fail(Fault::Syntax),
            None => return self.fail(Fault::End),
        }
        Ok(())
    }

    /// Takes any value, validating it.
    ///
    /// # Errors
    /// Any syntax fault or [`Fault::Depth`].
    pub fn value(&mut self) -> Result<Span, Flaw> {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'{' | b'[') => self.container()?,
            _ => self.scalar(first)?,
        }
        Ok(self.span(start))
    }

    fn scalar(&mut self, first: Option<u8>) -> Result<(), Flaw> {
        match first {
            Some(b'"') => self.string().map(drop),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => self.fail(Fault::Syntax),
            None => self.fail(Fault::End),
        }
    }

    /// Skips one object or array without recursion: `open` holds a bit for each level, set for objects.
    fn container(&mut self) -> Result<(), Flaw> {
        let base = self.depth;
        let mut open: u128 = 0;
        let mut opening = true; // a value is due (as opposed to a comma or a closing bracket)
        loop {
            let Some(byte) = self.peek() else { return self.fail(Fault::End) };
            if opening {
                if matches!(byte, b'{' | b'[') {
                    self.enter()?;
                    open = (open << 1) | u128::from(byte == b'{');
                    let closer = if byte == b'{' { b'}' } else { b']' };
                    if self.peek() != Some(closer) {
                        self.key_if(open)?;
                        continue;
                    }
                } else {
                    self.scalar(Some(byte))?;
                }
                opening = false;
                continue;
            }
            match (byte, open & 1) {
                (b',', _) => {
                    self.at += 1;
                    self.key_if(open)?;
                    opening = true;
                }
                (b'}', 1) | (b']', 0) => {
                    self.leave();
                    open >>= 1;
                    if self.depth == base {
                        return Ok(());
                    }
                }
                _ => return self.fail(Fault::Syntax),
            }
        }
    }

    /// Inside an object, takes the key and the colon that stand before the next value.
    fn key_if(&mut self, open: u128) -> Result<(), Flaw> {
        if open & 1 == 1 {
            self.string()?;
            self.take(b':')?;
        }
        Ok(())
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Flaw> {
        if self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            self.at += word.len();
            Ok(())
        } else {
            self.fail(Fault::Syntax)
        }
    }

    fn digits(&mut self) -> Result<(), Flaw> {
        let start = self.at;
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start { self.fail(Fault::Syntax) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<(), Flaw> {
        if self.text.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        if self.text.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.text.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.text.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }
}

/// Length of the prefix without quote, backslash and control bytes; eight bytes at a time.
fn plain_run(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let has_zero = |x: u64| x.wrapping_sub(ONES) & !x & HIGH;
    let (words, _) = text.as_chunks::<8>();
    let mut at = 0;
    for word in words {
        let w = u64::from_le_bytes(*word);
        let control = w.wrapping_sub(ONES * 0x20) & !w & HIGH;
        let hit = control | has_zero(w ^ (ONES * u64::from(b'"'))) | has_zero(w ^ (ONES * u64::from(b'\\')));
        if hit != 0 {
            // Borrows can only set false bits above a true one, so the lowest bit is exact.
            return at + (hit.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().position(|&b| b < 0x20 || b == b'"' || b == b'\\').unwrap_or(rest.len())
}

/// Resolves the escapes of a scanned string. A lone surrogate becomes U+FFFD.
#[must_use]
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
        let code = tail.as_bytes().get(1).copied().unwrap_or(b'\\');
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
        rest = tail.get(used..).unwrap_or_default();
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// One `\uXXXX` or a surrogate pair at the start of `tail`: the character and the bytes it took.
fn unicode(tail: &str) -> (char, usize) {
    let unit = |at: usize| tail.get(at..at + 4).and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let Some(high) = unit(2) else { return (char::REPLACEMENT_CHARACTER, 2) };
    if (0xD800..0xDC00).contains(&high)
        && tail.get(6..8) == Some("\\u")
        && let Some(low @ 0xDC00..0xE000) = unit(8)
    {
        let code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
        return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12);
    }
    (char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER), 6)
}

/// The text of a scanned string value (quotes included in `raw`), or `None` when it is not a string.
#[must_use]
pub fn as_str(raw: &[u8]) -> Option<Cow<'_, str>> {
    match raw {
        [b'"', inner @ .., b'"'] => Some(unescape(inner)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
