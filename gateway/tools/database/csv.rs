//! CSV that becomes a table: a header, rows of equal width, and column types that fit all values.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::tool::ToolError;

const MAX_COLUMNS: usize = 500;
const MAX_NAME: usize = 63;
/// Number of digits that a double always represents exactly.
const MAX_DIGITS: usize = 15;

lockgate_text::words! {
    /// The type of a column, from narrow to wide.
    #[derive(PartialOrd, Ord)]
    pub(super) enum ColumnKind {
        Integer = "INTEGER",
        Real = "REAL",
        Text = "TEXT",
    }
}

/// Statistics of a column's values.
#[derive(Clone, Copy, Debug, Default)]
struct ColumnStatistics {
    /// The narrowest type that fits each value; `None` for a column without values.
    kind: Option<ColumnKind>,
    /// Whether there are integers that a double would round.
    long: bool,
}

impl ColumnStatistics {
    fn add(&mut self, value: &str) {
        if self.kind != Some(ColumnKind::Text) {
            let kind = fit(value);
            self.long |= kind == ColumnKind::Integer && value.len() > MAX_DIGITS;
            self.kind = self.kind.max(Some(kind));
        }
    }

    /// Returns the narrowest type that fits all values.
    fn settled(self) -> ColumnKind {
        match self.kind {
            Some(ColumnKind::Real) if self.long => ColumnKind::Text,
            kind => kind.unwrap_or(ColumnKind::Text),
        }
    }

    /// Describes values that a column of type `kind` would change, if any.
    fn beyond(self, kind: ColumnKind) -> Option<&'static str> {
        let needed = if self.kind.is_none() { kind } else { self.settled() };
        match (needed, kind) {
            (ColumnKind::Integer, ColumnKind::Real) if self.long => Some("longer numbers"),
            (needed, kind) if needed <= kind => None,
            (ColumnKind::Real, _) => Some("real"),
            _ => Some("text"),
        }
    }
}

/// A CSV text that has been validated in a first pass.
pub(super) struct Sheet {
    text: String,
    pub(super) names: Vec<String>,
    seen: Vec<ColumnStatistics>,
    /// Number of rows below the header.
    pub(super) count: usize,
}

impl Sheet {
    pub(super) fn read(text: String) -> Result<Self, ToolError> {
        let mut records = Records::new(&text);
        let mut record = Vec::new();
        records.next(&mut record)?;
        let names = header(&record)?;
        let mut seen = vec![ColumnStatistics::default(); names.len()];
        let mut count = 0;
        while let Some(line) = records.next(&mut record)? {
            if record.len() != names.len() {
                return Err(wrong(
                    line,
                    &format!("a row has {} values, not {}", record.len(), names.len()),
                ));
            }
            count += 1;
            for (seen, field) in seen.iter_mut().zip(&record) {
                if let Some(value) = field.value() {
                    seen.add(value);
                }
            }
        }
        drop((records, record));
        Ok(Self { text, names, seen, count })
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = (&str, ColumnKind)> {
        let columns = self.names.iter().zip(&self.seen);
        columns.map(|(name, seen)| (name.as_str(), seen.settled()))
    }

    /// Describes the first column of a table that would change values, if any.
    pub(super) fn misfit(&self, columns: &[(String, ColumnKind)]) -> Option<String> {
        for ((name, kind), seen) in columns.iter().zip(&self.seen) {
            if let Some(beyond) = seen.beyond(*kind) {
                let kind = kind.as_str().to_ascii_lowercase();
                return Some(format!(
                    "column {name} of the table is {kind}, and would change {beyond} in the CSV"
                ));
            }
        }
        None
    }

    pub(super) fn rows(&self) -> Rows<'_> {
        let mut rows = Rows { records: Records::new(&self.text), record: Vec::new() };
        // Skips the header. It was parsed without error before.
        let _names = rows.records.next(&mut rows.record);
        rows
    }
}

pub(super) struct Rows<'a> {
    records: Records<'a>,
    record: Vec<Field<'a>>,
}

impl Rows<'_> {
    pub(super) fn next_row(&mut self) -> Result<Option<Vec<Option<&str>>>, ToolError> {
        if self.records.next(&mut self.record)?.is_none() {
            return Ok(None);
        }
        Ok(Some(self.record.iter().map(Field::value).collect()))
    }
}

/// Returns the narrowest type that fits the value.
fn fit(value: &str) -> ColumnKind {
    match value.parse::<i64>() {
        Ok(number) if number.to_string() == value => ColumnKind::Integer,
        _ if plain_real(value) => ColumnKind::Real,
        _ => ColumnKind::Text,
    }
}

/// Returns whether a decimal fits a double: no significant leading zeros, no exponent.
fn plain_real(value: &str) -> bool {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let Some((whole, fraction)) = digits.split_once('.') else { return false };
    are_digits(whole)
        && are_digits(fraction)
        && whole.len() + fraction.len() <= MAX_DIGITS
        && (whole == "0" || !whole.starts_with('0'))
}

fn are_digits(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())
}

fn header(record: &[Field<'_>]) -> Result<Vec<String>, ToolError> {
    if record.is_empty() || record.len() > MAX_COLUMNS {
        return Err(ToolError::new(format!(
            "the CSV must have 1 to {MAX_COLUMNS} columns with names in its first line"
        )));
    }
    let mut seen = HashSet::new();
    let mut names = Vec::with_capacity(record.len());
    for field in record {
        let name = field.text.trim();
        if name.is_empty() || name.len() > MAX_NAME || name.contains(char::is_control) {
            return Err(ToolError::new(format!(
                "a column of the CSV needs a name of 1 to {MAX_NAME} bytes"
            )));
        }
        if !seen.insert(name.to_lowercase()) {
            return Err(ToolError::new(format!("two columns of the CSV are called {name}")));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

fn wrong(line: usize, what: &str) -> ToolError {
    ToolError::new(format!("the CSV cannot be read at line {line}: {what}"))
}

// Parses the records of a CSV text (RFC 4180). Rejects unclosed quotes and text after a closing
// quote. Distinguishes an absent value from a quoted empty text. Ignores empty lines.

#[derive(Debug)]
struct Field<'a> {
    text: Cow<'a, str>,
    quoted: bool,
}

impl Field<'_> {
    /// Returns the value, or `None` for an unquoted empty field.
    fn value(&self) -> Option<&str> {
        if self.quoted || !self.text.is_empty() { Some(&self.text) } else { None }
    }
}

struct Records<'a> {
    rest: &'a str,
    /// The line that `rest` begins in.
    line: usize,
}

impl<'a> Records<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 }
    }

    /// Reads the next record into `record`. Returns its first line, or `None` at the end.
    fn next(&mut self, record: &mut Vec<Field<'a>>) -> Result<Option<usize>, ToolError> {
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
                None => return Err(wrong(self.line, "there is text after a closing quote")),
            }
        }
    }

    /// Consumes a line break. Returns whether there was one.
    fn end_of_line(&mut self) -> bool {
        let rest = self.rest.strip_prefix("\r\n");
        let Some(rest) = rest.or(self.rest.strip_prefix(['\r', '\n'])) else { return false };
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
    fn quoted(&mut self) -> Result<Field<'a>, ToolError> {
        let body = &self.rest[1..];
        let mut from = 0;
        let mut doubled = false;
        let end = loop {
            let Some(at) = body[from..].find('"') else {
                return Err(wrong(self.line, "a quote is not closed"));
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
