//! Records as they are read, and the parts of a trail with their lines. The number of open files is
//! limited, so the first line of each part is read to order them, and each is opened again in turn.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};
use std::str::FromStr;

use lockgate_text::json;
use lockgate_text::json::{MAX_DEPTH, Reader};
use serde::Serialize;
use serde_json::Value;

use crate::audit::chain::{GENESIS, MAX_LINE};
use crate::audit::pieces::{Members, number, text};

/// Number of lines kept for repetitions. A sender repeats at most its unconfirmed records.
const MAX_REMEMBERED_LINES: usize = 16_384;

/// A file name and line number.
pub(super) type LinePlace = (String, u64);

/// The first broken record.
#[derive(Clone, Debug, Default, Serialize)]
pub struct BrokenRecord {
    pub file: String,
    pub line: u64,
    pub seq: Option<u64>,
    pub why: String,
}

impl BrokenRecord {
    /// Describes a record that is in no file.
    pub(super) fn missing(seq: u64, why: String) -> Self {
        Self { seq: Some(seq), why, ..Self::default() }
    }
}

/// Parses a record. Duplicate names are rejected, because readers may use either value.
pub(super) fn parse(line: &[u8]) -> Option<Members> {
    match Reader::exact(MAX_DEPTH).read(line) {
        Ok(Value::Object(record)) => Some(record),
        _ => None,
    }
}

/// Returns whether a record is the first of a chain.
pub(super) fn is_fresh(record: &Members) -> bool {
    let is_first = number(record, "seq") == Some(1) && text(record, "prev") == GENESIS;
    is_first && text(record, "kind") == "open"
}

/// Returns whether a record is the first of a process that writes to a stream.
pub(super) fn begins_stream(record: &Members) -> bool {
    is_fresh(record) && text(record, "output") != "file"
}

/// The latest lines by number, to detect exact repetitions by a sender.
#[derive(Default)]
pub(super) struct Repeats(BTreeMap<u64, blake3::Hash>);

impl Repeats {
    /// Returns whether the record with this number had exactly this line.
    pub(super) fn contains(&self, seq: u64, line: &[u8]) -> bool {
        self.0.get(&seq).is_some_and(|known| *known == blake3::hash(line))
    }

    pub(super) fn add(&mut self, seq: u64, line: &[u8]) {
        self.0.insert(seq, blake3::hash(line));
        if self.0.len() > MAX_REMEMBERED_LINES {
            self.0.pop_first();
        }
    }
}

/// The result of a verification.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// No record is broken or missing.
    pub intact: bool,
    pub files: usize,
    pub records: u64,
    /// Greater than 1 if a stream was collected across restarts.
    pub chains: u64,
    pub first: Option<u64>,
    pub last: Option<u64>,
    pub last_hash: Option<String>,
    pub last_time: Option<String>,
    /// The last record states that the writer ended.
    pub closed: bool,
    /// Records that the writer recorded as lost.
    pub lost: u64,
    /// Repeated identical lines, which a receiver gets after a broken connection.
    pub repeated: u64,
    /// Number of anchors that matched.
    pub anchors: usize,
    pub broken: Option<BrokenRecord>,
    pub notes: Vec<String>,
}

impl Report {
    pub(super) fn note(&mut self, words: impl Into<String>) {
        self.notes.push(words.into());
    }
}

/// The extent of the given parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// All kept records: the trail itself states its beginning.
    #[default]
    Whole,
    /// Some records: earlier records may be absent.
    Part,
}

/// An anchor: a record number and hash that were kept outside of the trail, to compare later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    pub seq: u64,
    pub hash: String,
}

impl FromStr for Anchor {
    type Err = &'static str;

    /// Parses `SEQ:HASH`, or the text of a `.head` file.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(head) = json::from_str::<Value>(text) {
            return match (head.get("seq").and_then(Value::as_u64), head.get("hash")) {
                (Some(seq), Some(Value::String(hash))) => Ok(Self { seq, hash: hash.clone() }),
                _ => Err("it has no `seq` and `hash`"),
            };
        }
        let Some((seq, hash)) = text.trim().split_once(':') else {
            return Err("it is not SEQ:HASH");
        };
        let Ok(seq) = seq.parse() else { return Err("SEQ is not a number") };
        if hash.len() != GENESIS.len() || !hash.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err("HASH does not have 64 hexadecimal digits");
        }
        Ok(Self { seq, hash: hash.to_ascii_lowercase() })
    }
}

/// The contents of a part.
pub type Text<'a> = Box<dyn BufRead + 'a>;

/// A named file.
pub struct Part<'a> {
    pub name: String,
    /// Opens the part at its beginning; called twice unless `once`.
    pub open: Box<dyn Fn() -> io::Result<Text<'a>> + 'a>,
    /// The part can be read only once, such as a pipe, and stays open.
    pub once: bool,
}

pub(super) struct Placed<'a> {
    part: Part<'a>,
    /// Time and number of its first record, if valid.
    pub(super) time: String,
    pub(super) seq: Option<u64>,
    pub(super) begins_stream: bool,
    held: Option<Lines<'a>>,
}

pub(super) struct Lines<'a> {
    pub(super) name: String,
    text: Text<'a>,
    /// The first line, until taken.
    first: Option<Vec<u8>>,
}

impl<'a> Placed<'a> {
    pub(super) fn new(part: Part<'a>) -> io::Result<Self> {
        let lines = Lines::open(&part)?;
        let first = lines.record().unwrap_or_default();
        Ok(Self {
            time: text(&first, "time").to_owned(),
            seq: number(&first, "seq"),
            begins_stream: begins_stream(&first),
            held: if part.once { Some(lines) } else { None },
            part,
        })
    }

    /// Opens the part for reading. Fails if rotation has since given its name to another file.
    pub(super) fn open(self) -> io::Result<Lines<'a>> {
        if let Some(held) = self.held {
            return Ok(held);
        }
        let lines = Lines::open(&self.part)?;
        let seq = lines.record().and_then(|record| number(&record, "seq"));
        if self.seq.is_some() && self.seq != seq {
            let why = "another file has replaced it meanwhile: verify again";
            return Err(named(&lines.name, &io::Error::other(why)));
        }
        Ok(lines)
    }
}

impl<'a> Lines<'a> {
    fn open(part: &Part<'a>) -> io::Result<Self> {
        let text = (part.open)().map_err(|error| named(&part.name, &error))?;
        let mut lines = Self { name: part.name.clone(), text, first: None };
        lines.first = lines.next()?;
        Ok(lines)
    }

    fn record(&self) -> Option<Members> {
        parse(self.first.as_deref()?)
    }

    /// Returns a line with its break, which only an incomplete or too long line lacks.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let mut line = Vec::new();
        let read = (&mut self.text).take(MAX_LINE as u64).read_until(b'\n', &mut line);
        read.map_err(|error| named(&self.name, &error))?;
        Ok(if line.is_empty() { None } else { Some(line) })
    }
}

fn named(name: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{name}: {error}"))
}
