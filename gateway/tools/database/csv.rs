//! CSV that becomes a table: a header, rows of the same width, and types that hold every value of a column.

use std::collections::HashSet;

use ::csv::{ReaderBuilder, StringRecord};

use crate::tool::Mistake;

const MAX_COLUMNS: usize = 500;
const MAX_NAME: usize = 63;
/// Digits that a double always holds.
const MAX_DIGITS: usize = 15;

/// What a column of a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Integer,
    Real,
    Text,
}

impl Kind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Text => "TEXT",
        }
    }
}

/// A whole CSV text that has been looked through once.
pub(super) struct Sheet {
    text: String,
    names: Vec<String>,
    kinds: Vec<Kind>,
    rows: usize,
}

impl Sheet {
    pub(super) fn read(text: String) -> Result<Self, Mistake> {
        let mut reader = ReaderBuilder::new().from_reader(text.as_bytes());
        let names = header(reader.headers().map_err(wrong)?)?;
        let mut kinds = vec![None; names.len()];
        // Whole numbers that a double would round keep their column from being one of doubles.
        let mut long = vec![false; names.len()];
        let mut rows = 0;
        let mut record = StringRecord::new();
        while reader.read_record(&mut record).map_err(wrong)? {
            rows += 1;
            for ((kind, long), value) in kinds.iter_mut().zip(&mut long).zip(&record) {
                if !value.is_empty() && *kind != Some(Kind::Text) {
                    let fits = fit(value);
                    *long |= fits == Kind::Integer && value.len() > MAX_DIGITS;
                    *kind = (*kind).max(Some(fits));
                }
            }
        }
        let settle = |(kind, long): (Option<Kind>, bool)| match kind {
            Some(Kind::Real) if long => Kind::Text,
            kind => kind.unwrap_or(Kind::Text),
        };
        let kinds = kinds.into_iter().zip(long).map(settle).collect();
        Ok(Self { text, names, kinds, rows })
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = (&str, Kind)> {
        self.names.iter().map(String::as_str).zip(self.kinds.iter().copied())
    }

    pub(super) fn len(&self) -> usize {
        self.rows
    }

    pub(super) fn rows(&self) -> Rows<'_> {
        Rows { reader: ReaderBuilder::new().from_reader(self.text.as_bytes()), record: StringRecord::new() }
    }
}

/// The rows, one at a time; an empty value is none.
pub(super) struct Rows<'a> {
    reader: ::csv::Reader<&'a [u8]>,
    record: StringRecord,
}

impl Rows<'_> {
    pub(super) fn next_row(&mut self) -> Result<Option<Vec<Option<&str>>>, Mistake> {
        let more = self.reader.read_record(&mut self.record).map_err(wrong)?;
        Ok(more.then(|| self.record.iter().map(|value| (!value.is_empty()).then_some(value)).collect()))
    }
}

/// The narrowest kind that holds the value.
fn fit(value: &str) -> Kind {
    if value.parse::<i64>().is_ok_and(|number| number.to_string() == value) {
        Kind::Integer
    } else if plain_real(value) {
        Kind::Real
    } else {
        Kind::Text
    }
}

/// A decimal that a double holds: no leading zeros that mean something, no exponent.
fn plain_real(value: &str) -> bool {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let Some((whole, fraction)) = digits.split_once('.') else { return false };
    let numeric = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    numeric(whole)
        && numeric(fraction)
        && whole.len() + fraction.len() <= MAX_DIGITS
        && (whole == "0" || !whole.starts_with('0'))
}

fn header(record: &StringRecord) -> Result<Vec<String>, Mistake> {
    if record.is_empty() || record.len() > MAX_COLUMNS {
        return Err(Mistake::new(format!("the CSV must have 1 to {MAX_COLUMNS} columns with names in its first line")));
    }
    let mut seen = HashSet::new();
    record
        .iter()
        .map(|name| {
            let name = name.trim().trim_start_matches('\u{feff}');
            if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
                return Err(Mistake::new(format!("a column of the CSV needs a name of 1 to {MAX_NAME} bytes")));
            }
            if !seen.insert(name.to_lowercase()) {
                return Err(Mistake::new(format!("two columns of the CSV are called {name}")));
            }
            Ok(name.to_owned())
        })
        .collect()
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn wrong(error: ::csv::Error) -> Mistake {
    let line = error.position().map_or(String::new(), |at| format!(" at line {}", at.line()));
    let what = match error.kind() {
        ::csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("a row has {len} values, not {expected_len}")
        }
        ::csv::ErrorKind::Utf8 { .. } => "it is not UTF-8".into(),
        _ => "it is damaged".into(),
    };
    Mistake::new(format!("the CSV cannot be read{line}: {what}"))
}
