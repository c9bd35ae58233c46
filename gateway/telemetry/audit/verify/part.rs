//! The parts of a trail: their order, and their lines. The number of open files is limited, so the
//! first line of each part is read to order them, and each is opened again in turn.

use std::io::{self, BufRead, Read};

use super::super::chain::MAX_LINE;
use super::record::Record;

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
        let mut placed =
            Self { part, time: String::new(), seq: None, begins_stream: false, held: None };
        if let Some(first) = lines.record() {
            placed.time = first.text("time").to_owned();
            placed.seq = first.number("seq");
            placed.begins_stream = first.begins_stream();
        }
        if placed.part.once {
            placed.held = Some(lines);
        }
        Ok(placed)
    }

    /// Opens the part for reading. Fails if rotation has since given its name to another file.
    pub(super) fn open(self) -> io::Result<Lines<'a>> {
        if let Some(held) = self.held {
            return Ok(held);
        }
        let lines = Lines::open(&self.part)?;
        let seq = lines.record().and_then(|record| record.number("seq"));
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

    fn record(&self) -> Option<Record> {
        Record::parse(self.first.as_deref()?)
    }

    /// Returns a line with its break, which only an incomplete or too long line lacks.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let mut line = Vec::new();
        let read = (&mut self.text).take(MAX_LINE as u64).read_until(b'\n', &mut line);
        if let Err(error) = read {
            return Err(named(&self.name, &error));
        }
        Ok(if line.is_empty() { None } else { Some(line) })
    }
}

fn named(name: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{name}: {error}"))
}
