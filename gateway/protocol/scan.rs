//! A strict single-pass scanner over JSON text: validates every byte, records the positions of
//! members and builds no tree.
//!
//! Rejects texts that parsers disagree on: duplicate keys, keys that differ only in case, control
//! bytes, lone surrogates in keys, trailing text, and nesting beyond a limit. Unused values are
//! skipped, but still validated.

pub use span::{
    Fault, Member, Members, ScanError, Span, as_number, as_str, as_words, find, find_str, get,
    unescape,
};
use span::{is_plain, short_run};
pub(crate) use span::{plain_run, string_end};
pub use stream::{StreamScanner, Visit};

use crate::key::Key;

mod span;
mod stream;

/// Maximum nesting that can be configured.
pub const MAX_DEPTH: usize = 128;

/// A cursor over a JSON text.
pub struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    max_depth: usize,
    /// Whether the text has no byte beyond `~`, so that a key without escapes is printable, as
    /// strings contain no control bytes.
    plain: bool,
}

impl<'a> Scanner<'a> {
    /// Creates a scanner and checks the encoding; `max_depth` is capped at [`MAX_DEPTH`].
    ///
    /// # Errors
    /// [`Fault::Utf8`] or [`Fault::Length`].
    pub fn new(text: &'a [u8], max_depth: usize) -> Result<Self, ScanError> {
        if u32::try_from(text.len()).is_err() {
            return Err(ScanError { what: Fault::Length, at: 0 });
        }
        // Nearly all texts are plain, and that check is faster.
        let plain = is_plain(text);
        if !plain && let Err(error) = std::str::from_utf8(text) {
            return Err(ScanError { what: Fault::Utf8, at: offset(error.valid_up_to()) });
        }
        Ok(Self { text, at: 0, depth: 0, max_depth: max_depth.min(MAX_DEPTH), plain })
    }

    #[cold]
    fn fail<T>(&self, what: Fault) -> Result<T, ScanError> {
        Err(ScanError { what, at: offset(self.at) })
    }

    /// Returns the next byte that is not white space, without consuming it.
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(&b) = self.text.get(self.at) {
            if b > b' ' || !matches!(b, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(b);
            }
            self.at += 1;
        }
        None
    }

    fn take(&mut self, expected: u8) -> Result<(), ScanError> {
        match self.peek() {
            Some(b) if b == expected => {
                self.at += 1;
                Ok(())
            }
            Some(_) => self.fail(Fault::Syntax),
            None => self.fail(Fault::End),
        }
    }

    /// Checks that only white space remains.
    ///
    /// # Errors
    /// [`Fault::Trailing`].
    pub fn end(&mut self) -> Result<(), ScanError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.fail(Fault::Trailing),
        }
    }

    /// Walks an object and adds its members to `members`. `visit` gets each key and must consume
    /// the value (with [`Self::value`], [`Self::object`] …).
    ///
    /// # Errors
    /// Any [`Fault`], including those of `visit`.
    pub fn object(
        &mut self,
        keys: Keys,
        members: &mut Members,
        mut visit: impl FnMut(&mut Self, &Member) -> Result<Span, ScanError>,
    ) -> Result<Span, ScanError> {
        if self.peek() != Some(b'{') {
            return self.fail(Fault::NotObject);
        }
        let start = self.at;
        self.enter()?;
        if self.peek() == Some(b'}') {
            self.leave();
            return Ok(self.span(start));
        }
        let mut seen = Seen::default();
        loop {
            let key_at = self.at;
            let (key, escaped) = self.string()?;
            let known = if escaped {
                Key::of(unescape(key.of(self.text)).as_bytes())
            } else {
                Key::of(key.of(self.text))
            };
            let mut member = Member { key, known, escaped, value: key };
            if let Err(what) = seen.check(self.text, self.plain, members, &member, keys) {
                return Err(ScanError { what, at: offset(key_at) });
            }
            self.take(b':')?;
            member.value = visit(self, &member)?;
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
        Ok(self.span(start))
    }

    /// Walks an object and returns only the positions of its members.
    ///
    /// # Errors
    /// As [`Self::object`].
    pub fn members(&mut self, keys: Keys) -> Result<(Span, Members), ScanError> {
        let mut members = Members::new();
        let span = self.members_into(keys, &mut members)?;
        Ok((span, members))
    }

    /// Does the same as [`Self::members`], without moving the members.
    pub(crate) fn members_into(
        &mut self,
        keys: Keys,
        members: &mut Members,
    ) -> Result<Span, ScanError> {
        self.object(keys, members, |scanner, _| scanner.value())
    }

    /// Walks an array. `visit` must consume each element.
    ///
    /// # Errors
    /// Any [`Fault`], including those of `visit`.
    pub fn array(
        &mut self,
        visit: &mut dyn FnMut(&mut Self) -> Result<(), ScanError>,
    ) -> Result<Span, ScanError> {
        self.items(*b"[]", visit)
    }

    /// Walks an object with any keys, which are not compared. `visit` gets the position of each key
    /// with its quotes, and must consume the value.
    pub(crate) fn each_member(
        &mut self,
        visit: &mut dyn FnMut(&mut Self, Span) -> Result<(), ScanError>,
    ) -> Result<Span, ScanError> {
        self.items(*b"{}", &mut |scanner| {
            scanner.peek();
            let start = scanner.at;
            scanner.string()?;
            let key = scanner.span(start);
            scanner.take(b':')?;
            visit(scanner, key)
        })
    }

    fn items(
        &mut self,
        [open, close]: [u8; 2],
        visit: &mut dyn FnMut(&mut Self) -> Result<(), ScanError>,
    ) -> Result<Span, ScanError> {
        if self.peek() != Some(open) {
            return self.fail(Fault::Syntax);
        }
        let start = self.at;
        self.enter()?;
        if self.peek() == Some(close) {
            self.leave();
            return Ok(self.span(start));
        }
        loop {
            visit(self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(byte) if byte == close => break,
                Some(_) => return self.fail(Fault::Syntax),
                None => return self.fail(Fault::End),
            }
        }
        self.leave();
        Ok(self.span(start))
    }

    fn enter(&mut self) -> Result<(), ScanError> {
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

    fn span(&self, start: usize) -> Span {
        Span { start: offset(start), end: offset(self.at) }
    }

    /// Consumes a string. Returns the span between the quotes and whether it has escapes.
    ///
    /// # Errors
    /// [`Fault::Syntax`] or [`Fault::End`].
    pub fn string(&mut self) -> Result<(Span, bool), ScanError> {
        self.take(b'"')?;
        let start = self.at;
        if self.plain
            && let Some(rest) = self.text.get(start..)
            && let Some(run) = short_run(rest)
            && rest.get(run) == Some(&b'"')
        {
            self.at += run;
            let span = self.span(start);
            self.at += 1;
            return Ok((span, false));
        }
        self.string_from(start)
    }

    #[inline(never)]
    fn string_from(&mut self, start: usize) -> Result<(Span, bool), ScanError> {
        let mut escaped = false;
        loop {
            self.at += plain_run(self.text.get(self.at..).unwrap_or(&[]));
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

    fn escape(&mut self) -> Result<(), ScanError> {
        match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let digits = self.text.get(self.at + 2..self.at + 6).unwrap_or(&[]);
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

    /// Consumes and validates any value.
    ///
    /// # Errors
    /// Any syntax fault or [`Fault::Depth`].
    pub fn value(&mut self) -> Result<Span, ScanError> {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'"') => drop(self.string()?),
            Some(b'{' | b'[') => self.container()?,
            _ => self.scalar(first)?,
        }
        Ok(self.span(start))
    }

    fn scalar(&mut self, first: Option<u8>) -> Result<(), ScanError> {
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

    /// Skips an object or array without recursion: `open` holds a bit per level, set for objects.
    fn container(&mut self) -> Result<(), ScanError> {
        let base = self.depth;
        let mut open: u128 = 0;
        let mut opening = true; // a value is due, as opposed to a comma or a closing bracket
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

    /// Consumes the key and the colon before the next value, if inside an object.
    fn key_if(&mut self, open: u128) -> Result<(), ScanError> {
        if open & 1 == 1 {
            self.string()?;
            self.take(b':')?;
        }
        Ok(())
    }

    fn word(&mut self, word: &[u8]) -> Result<(), ScanError> {
        if let Some(rest) = self.text.get(self.at..)
            && rest.starts_with(word)
        {
            self.at += word.len();
            Ok(())
        } else {
            self.fail(Fault::Syntax)
        }
    }

    fn digits(&mut self) -> Result<(), ScanError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.text.get(self.at) {
            self.at += 1;
        }
        if self.at == start { self.fail(Fault::Syntax) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<(), ScanError> {
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

/// Converts an offset; [`Scanner::new`] has checked the text's length.
#[allow(clippy::cast_possible_truncation)]
const fn offset(at: usize) -> u32 {
    at as u32
}

#[cfg(test)]
mod tests;

/// How strictly an object's keys are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Printable ASCII, no two equal ignoring case. For all objects that the gateway itself reads.
    Strict,
    /// Any text without duplicates. For the results of servers, which may have members of their
    /// own.
    Distinct,
}

/// Maximum members of an object, because each key is compared with all others.
pub const MAX_MEMBERS: usize = 128;

/// The keys of an object so far.
#[derive(Default)]
struct Seen {
    /// A bit for each known key.
    known: u64,
    /// Whether there is any other key.
    has_others: bool,
}

impl Seen {
    /// Checks a key against the required strictness and the keys before it. `plain` means that the
    /// text has no byte beyond `~`.
    #[inline]
    fn check(
        &mut self,
        text: &[u8],
        plain: bool,
        before: &[Member],
        new: &Member,
        keys: Keys,
    ) -> Result<(), Fault> {
        if before.len() >= MAX_MEMBERS {
            return Err(Fault::Members);
        }
        if keys == Keys::Strict && (new.escaped || !plain) && !is_printable(text, new) {
            return Err(Fault::KeyBytes);
        }
        if new.known == Key::Other || self.has_others {
            compare(text, before, new, keys)?;
        }
        if new.known == Key::Other {
            self.has_others = true;
            return Ok(());
        }
        if self.known & new.known.bit() != 0 {
            return Err(Fault::Duplicate);
        }
        self.known |= new.known.bit();
        Ok(())
    }
}

/// Compares a key with those before it.
fn compare(text: &[u8], before: &[Member], new: &Member, keys: Keys) -> Result<(), Fault> {
    for old in before {
        if !old.escaped && !new.escaped && old.key.range().len() != new.key.range().len() {
            continue;
        }
        let old_name = old.name_bytes(text);
        let new_name = new.name_bytes(text);
        if old_name.eq_ignore_ascii_case(&new_name) {
            if old_name == new_name {
                return Err(Fault::Duplicate);
            }
            if keys == Keys::Strict {
                return Err(Fault::CaseVariant);
            }
        }
    }
    Ok(())
}

/// Returns whether a key, unescaped, is printable ASCII.
fn is_printable(text: &[u8], member: &Member) -> bool {
    member.name_bytes(text).iter().all(|b| (b' '..=b'~').contains(b))
}
