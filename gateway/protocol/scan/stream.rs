//! A strict scanner for JSON text that arrives in pieces: validates every byte as
//! [`super::Scanner`] does, keeps a few bytes between two pieces, and passes the parts to a
//! visitor. Does not compare keys; visitors do where necessary.

use super::Scanner;
use super::span::{Fault, is_plain, plain_run};

/// Maximum length of a number, which is kept until it is complete.
const MAX_NUMBER: usize = 64 << 10;

/// A receiver of the parts of a text. White space is left out.
pub trait Visit {
    /// The reason why a visitor rejects a text.
    type Error: From<Fault>;

    /// Receives a bracket, brace, comma or colon.
    ///
    /// # Errors
    /// The visitor rejects the text.
    fn mark(&mut self, byte: u8) -> Result<(), Self::Error>;

    /// Receives a part of a key, string, number or word, including the quotes.
    ///
    /// # Errors
    /// As [`Self::mark`].
    fn part(&mut self, key: bool, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Ends a key, string, number or word.
    ///
    /// # Errors
    /// As [`Self::mark`].
    fn end(&mut self, key: bool) -> Result<(), Self::Error>;
}

/// The state between two pieces.
#[derive(Debug, Default)]
pub struct StreamScanner {
    state: ScanState,
    /// A bit per level, set for arrays; the innermost level is the lowest bit.
    arrays: u128,
    depth: usize,
    max_depth: usize,
    /// The start of a character that was cut off.
    character: Vec<u8>,
    /// The number or word so far.
    scalar: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ScanState {
    #[default]
    Value,
    /// A value or the end of the array.
    FirstItem,
    /// A key or the end of the object.
    FirstKey,
    Key,
    Colon,
    /// A comma or the end of the innermost object or array.
    Next,
    Text {
        key: bool,
        escape: Escape,
    },
    /// A number or word.
    Scalar,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    None,
    Begun,
    /// The number of hexadecimal digits still expected.
    Digits(u8),
}

impl StreamScanner {
    /// Creates a scanner; `max_depth` is capped at [`super::MAX_DEPTH`].
    pub fn new(max_depth: usize) -> Self {
        let max_depth = max_depth.min(super::MAX_DEPTH);
        Self { max_depth, ..Self::default() }
    }

    /// Scans the next piece of the text.
    ///
    /// # Errors
    /// A fault in the text, or the visitor's error. Nothing more may be pushed then.
    pub fn push<V: Visit>(&mut self, piece: &[u8], visitor: &mut V) -> Result<(), V::Error> {
        self.check_encoding(piece)?;
        let mut rest = piece;
        while let Some(&byte) = rest.first() {
            let taken = match self.state {
                ScanState::Text { key, escape: Escape::None } => {
                    self.take_text(key, rest, visitor)?
                }
                ScanState::Text { key, escape } => self.take_escape(key, escape, rest, visitor)?,
                ScanState::Scalar => self.take_scalar(rest, visitor)?,
                _ if matches!(byte, b' ' | b'\n' | b'\r' | b'\t') => 1,
                _ => self.take_structure(byte, visitor)?,
            };
            rest = rest.get(taken..).unwrap_or(&[]);
        }
        Ok(())
    }

    /// Ends the text.
    ///
    /// # Errors
    /// [`Fault::End`] if the text is not complete.
    pub fn finish(&self) -> Result<(), Fault> {
        if self.state == ScanState::Done { Ok(()) } else { Err(Fault::End) }
    }

    /// Checks for UTF-8, including characters cut by the end of a piece.
    fn check_encoding(&mut self, piece: &[u8]) -> Result<(), Fault> {
        let mut rest = piece;
        while let (false, Some((&byte, after))) = (self.character.is_empty(), rest.split_first()) {
            self.character.push(byte);
            rest = after;
            match std::str::from_utf8(&self.character) {
                Ok(_) => self.character.clear(),
                Err(error) if error.error_len().is_some() => return Err(Fault::Utf8),
                Err(_) => {}
            }
        }
        if is_plain(rest) {
            return Ok(());
        }
        match std::str::from_utf8(rest) {
            Ok(_) => Ok(()),
            Err(error) if error.error_len().is_some() => Err(Fault::Utf8),
            Err(error) => {
                self.character.extend_from_slice(rest.get(error.valid_up_to()..).unwrap_or(&[]));
                Ok(())
            }
        }
    }

    /// Scans a byte outside of strings, numbers and words. Returns the number of consumed bytes.
    fn take_structure<V: Visit>(&mut self, byte: u8, visitor: &mut V) -> Result<usize, V::Error> {
        match (self.state, byte) {
            (ScanState::FirstItem, b']') | (ScanState::FirstKey, b'}') => {
                self.close(byte, visitor)?
            }
            (ScanState::Next, b']' | b'}') => self.close(byte, visitor)?,
            (ScanState::Next, b',') => {
                self.state = if self.in_array() { ScanState::Value } else { ScanState::Key };
                visitor.mark(byte)?;
            }
            (ScanState::Colon, b':') => {
                self.state = ScanState::Value;
                visitor.mark(byte)?;
            }
            (ScanState::FirstKey | ScanState::Key, b'"') => {
                self.state = ScanState::Text { key: true, escape: Escape::None };
                visitor.part(true, b"\"")?;
            }
            (ScanState::Value | ScanState::FirstItem, _) => return self.begin_value(byte, visitor),
            (ScanState::Done, _) => return Err(Fault::Trailing.into()),
            _ => return Err(Fault::Syntax.into()),
        }
        Ok(1)
    }

    fn begin_value<V: Visit>(&mut self, byte: u8, visitor: &mut V) -> Result<usize, V::Error> {
        self.state = match byte {
            b'{' | b'[' => {
                let array = byte == b'[';
                if self.depth >= self.max_depth {
                    return Err(Fault::Depth.into());
                }
                self.depth += 1;
                self.arrays = self.arrays << 1 | u128::from(array);
                visitor.mark(byte)?;
                if array { ScanState::FirstItem } else { ScanState::FirstKey }
            }
            b'"' => {
                visitor.part(false, b"\"")?;
                ScanState::Text { key: false, escape: Escape::None }
            }
            _ if is_of_scalar(byte) => ScanState::Scalar,
            _ => return Err(Fault::Syntax.into()),
        };
        Ok(usize::from(self.state != ScanState::Scalar))
    }

    fn in_array(&self) -> bool {
        self.arrays & 1 == 1
    }

    fn close<V: Visit>(&mut self, byte: u8, visitor: &mut V) -> Result<(), V::Error> {
        let array = byte == b']';
        if self.in_array() != array {
            return Err(Fault::Syntax.into());
        }
        self.depth -= 1;
        self.arrays >>= 1;
        self.state = self.after_value();
        visitor.mark(byte)
    }

    fn after_value(&self) -> ScanState {
        if self.depth == 0 { ScanState::Done } else { ScanState::Next }
    }

    fn end<V: Visit>(&mut self, key: bool, visitor: &mut V) -> Result<(), V::Error> {
        self.state = if key { ScanState::Colon } else { self.after_value() };
        visitor.end(key)
    }

    fn take_text<V: Visit>(
        &mut self,
        key: bool,
        rest: &[u8],
        visitor: &mut V,
    ) -> Result<usize, V::Error> {
        let run = plain_run(rest);
        let taken = match rest.get(run) {
            None => run,
            Some(b'"') => run + 1,
            Some(b'\\') => {
                self.state = ScanState::Text { key, escape: Escape::Begun };
                run + 1
            }
            Some(_) => return Err(Fault::Syntax.into()),
        };
        visitor.part(key, rest.get(..taken).unwrap_or(&[]))?;
        if rest.get(run) == Some(&b'"') {
            self.end(key, visitor)?;
        }
        Ok(taken)
    }

    fn take_escape<V: Visit>(
        &mut self,
        key: bool,
        escape: Escape,
        rest: &[u8],
        visitor: &mut V,
    ) -> Result<usize, V::Error> {
        let byte = rest.get(..1).unwrap_or(&[]);
        let escape = match (escape, byte) {
            (Escape::Begun, [b'u']) => Escape::Digits(4),
            (Escape::Begun, [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't']) => {
                Escape::None
            }
            (Escape::Digits(1), [digit]) if digit.is_ascii_hexdigit() => Escape::None,
            (Escape::Digits(left), [digit]) if digit.is_ascii_hexdigit() => {
                Escape::Digits(left - 1)
            }
            _ => return Err(Fault::Syntax.into()),
        };
        self.state = ScanState::Text { key, escape };
        visitor.part(key, byte)?;
        Ok(1)
    }

    /// Scans a number or word, which ends before the first byte that cannot be a part of it.
    fn take_scalar<V: Visit>(&mut self, rest: &[u8], visitor: &mut V) -> Result<usize, V::Error> {
        let run = rest.iter().take_while(|byte| is_of_scalar(**byte)).count();
        self.scalar.extend_from_slice(rest.get(..run).unwrap_or(&[]));
        if self.scalar.len() > MAX_NUMBER {
            return Err(Fault::Length.into());
        }
        if run < rest.len() {
            let mut scanner = Scanner::new(&self.scalar, 0).map_err(|error| error.what)?;
            let scanned = scanner.value().and_then(|_| scanner.end());
            scanned.map_err(|_| Fault::Syntax)?;
            visitor.part(false, &self.scalar)?;
            self.scalar.clear();
            self.end(false, visitor)?;
        }
        Ok(run)
    }
}

/// Returns whether a byte may be a part of a number or word.
fn is_of_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}

#[cfg(test)]
mod tests;
