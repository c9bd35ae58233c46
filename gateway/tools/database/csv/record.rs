//! Parses the records of a CSV text (RFC 4180). Rejects unclosed quotes and text after a closing
//! quote. Distinguishes an absent value from a quoted empty text. Ignores empty lines.

use std::borrow::Cow;

#[derive(Debug)]
pub(super) struct Field<'a> {
    pub(super) text: Cow<'a, str>,
    quoted: bool,
}

impl Field<'_> {
    /// Returns the value, or `None` for an unquoted empty field.
    pub(super) fn value(&self) -> Option<&str> {
        if self.quoted || !self.text.is_empty() { Some(&self.text) } else { None }
    }
}

/// A syntax error and its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub(super) line: usize,
    pub(super) what: &'static str,
}

pub(super) struct Records<'a> {
    rest: &'a str,
    /// The line that `rest` begins in.
    line: usize,
}

impl<'a> Records<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 }
    }

    /// Reads the next record into `record`. Returns its first line, or `None` at the end.
    pub(super) fn next(&mut self, record: &mut Vec<Field<'a>>) -> Result<Option<usize>, Damage> {
        record.clear();
        while self.end_of_line() {}
        if self.rest.is_empty() {
            return Ok(None);
        }
        let line = self.line;
        loop {
            let field = if self.rest.starts_with('"') { self.quoted()? } else { self.plain() };
            record.push(field);
            match self.rest.strip_prefix(',') {
                Some(rest) => self.rest = rest,
                None if self.rest.is_empty() || self.end_of_line() => return Ok(Some(line)),
                None => {
                    return Err(Damage {
                        line: self.line,
                        what: "there is text after a closing quote",
                    });
                }
            }
        }
    }

    /// Consumes a line break. Returns whether there was one.
    fn end_of_line(&mut self) -> bool {
        let rest = match self.rest.strip_prefix("\r\n") {
            Some(rest) => rest,
            None => match self.rest.strip_prefix(['\r', '\n']) {
                Some(rest) => rest,
                None => return false,
            },
        };
        self.rest = rest;
        self.line += 1;
        true
    }

    /// Reads an unquoted value. Quotes inside it are literal.
    fn plain(&mut self) -> Field<'a> {
        let end = self.rest.find([',', '\r', '\n']).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        Field { text: text.into(), quoted: false }
    }

    /// Reads a quoted value, in which a doubled quote is an escaped quote.
    fn quoted(&mut self) -> Result<Field<'a>, Damage> {
        let body = &self.rest[1..];
        let mut from = 0;
        let mut doubled = false;
        let end = loop {
            let Some(at) = body[from..].find('"') else {
                return Err(Damage { line: self.line, what: "a quote is not closed" });
            };
            if !body[from + at + 1..].starts_with('"') {
                break from + at;
            }
            (from, doubled) = (from + at + 2, true);
        };
        let text = &body[..end];
        let rest = &body[end + 1..];
        // Lines end with LF, CRLF, or a lone CR.
        let bytes = text.as_bytes();
        for (at, byte) in bytes.iter().enumerate() {
            let lone = *byte == b'\r' && bytes.get(at + 1) != Some(&b'\n');
            self.line += usize::from(*byte == b'\n' || lone);
        }
        self.rest = rest;
        let text = if doubled { text.replace("\"\"", "\"").into() } else { text.into() };
        Ok(Field { text, quoted: true })
    }
}
