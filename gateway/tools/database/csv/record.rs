//! The records of a CSV text (RFC 4180), one at a time. It refuses quotes that are not closed and
//! text behind a closing quote, and keeps apart what is empty and what is an empty text in quotes.
//! Lines that are empty are none.

use std::borrow::Cow;

/// One value of a record.
#[derive(Debug)]
pub(super) struct Field<'a> {
    pub(super) text: Cow<'a, str>,
    quoted: bool,
}

impl Field<'_> {
    /// Nothing between two commas is no value.
    pub(super) fn value(&self) -> Option<&str> {
        if self.quoted || !self.text.is_empty() { Some(&self.text) } else { None }
    }
}

/// What is wrong, and in which line.
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

    /// Puts the next record in place of what is there; the line that it begins in, or none at the
    /// end.
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

    /// Whether there was one, which is taken.
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

    /// A value without quotes around it; those within are its own.
    fn plain(&mut self) -> Field<'a> {
        let end = self.rest.find([',', '\r', '\n']).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        Field { text: text.into(), quoted: false }
    }

    /// A value in quotes, in which two stand for one.
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
        // A line ends with LF, or with a CR alone.
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
