//! The parts of a trail: where each belongs, and its lines. There may be more of them than a
//! process may have open, so a part is read a little to put it in order, and opened again when its
//! turn comes.

use std::io::{self, BufRead, Read};

use super::super::chain::MAX_LINE;
use super::span::Record;

/// What a part holds.
pub type Text<'a> = Box<dyn BufRead + 'a>;

/// A file and its name.
pub struct Part<'a> {
    pub name: String,
    /// Opens it at its beginning; called twice unless `once`.
    pub open: Box<dyn Fn() -> io::Result<Text<'a>> + 'a>,
    /// What comes out of it comes once, as out of a pipe: it stays open.
    pub once: bool,
}

/// A part, and where it belongs.
pub(super) struct Placed<'a> {
    part: Part<'a>,
    /// Time and number of its first record, if that is one.
    pub(super) time: String,
    pub(super) seq: Option<u64>,
    pub(super) begins_stream: bool,
    held: Option<Lines<'a>>,
}

/// The lines of a part that is open.
pub(super) struct Lines<'a> {
    pub(super) name: String,
    text: Text<'a>,
    /// The first one, until it is taken.
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

    /// Opens it to be read. It must still be what was put in order: rotation may have given its
    /// name to another file.
    pub(super) fn open(self) -> io::Result<Lines<'a>> {
        if let Some(held) = self.held {
            return Ok(held);
        }
        let lines = Lines::open(&self.part)?;
        let seq = match lines.record() {
            Some(record) => record.number("seq"),
            None => None,
        };
        if self.seq.is_some() && self.seq != seq {
            let why = "another file took its place meanwhile: verify again";
            return Err(named(&lines.name, &io::Error::other(why)));
        }
        Ok(lines)
    }
}

impl<'a> Lines<'a> {
    fn open(part: &Part<'a>) -> io::Result<Self> {
        let text = match (part.open)() {
            Ok(text) => text,
            Err(error) => return Err(named(&part.name, &error)),
        };
        let mut lines = Self { name: part.name.clone(), text, first: None };
        lines.first = lines.next()?;
        Ok(lines)
    }

    fn record(&self) -> Option<Record> {
        Record::parse(self.first.as_deref()?)
    }

    /// One line with its break; without one when it is the last and cut off, or too long.
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
