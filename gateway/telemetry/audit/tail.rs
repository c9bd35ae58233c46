//! Reads the records of a trail in order from a given number on, through the rotated files to the
//! current file. Returns only lines with a hash, because a restart may remove an incomplete last
//! line. Hashes are not verified. A cursor keeps a receiver's position in a file of mode 0600
//! beside the trail; an unreadable position never causes records to be skipped.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::chain::{MAX_LINE, claimed};
use super::file::{BEGIN, real_path};
use super::pieces::{
    aside, bisect, find_line, number, numbered, open_if_there, parse, read_beside, replace,
};

/// Bytes from which on no further record is added to those returned.
const BLOCK_BYTES: usize = 192 * 1024;

/// Consecutive records.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Their lines as in the file; at most 256 KiB.
    pub lines: Vec<u8>,
    /// Numbers of the first and of the last record.
    pub first: u64,
    pub last: u64,
    pub count: u64,
    /// Records before or among them that are no longer in any file.
    pub lost: u64,
}

/// A reader of a trail's records in order.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    /// Number of the next record to return.
    next: u64,
    piece: Option<Piece>,
    /// First record of the last file read to its end.
    finished: Option<u64>,
}

#[derive(Debug)]
struct Piece {
    file: BufReader<File>,
    /// Its first record, once known.
    name: Option<u64>,
    /// The beginning of a line that was not complete yet.
    line: Vec<u8>,
}

impl Tail {
    /// Reads the records after number `after`, in the trail with its file at this path.
    pub fn new(path: &Path, after: u64) -> io::Result<Self> {
        let next = after.saturating_add(1);
        Ok(Self { path: real_path(path)?, next, piece: None, finished: None })
    }

    /// Returns the next records, or `None` if all present records have been returned.
    pub fn read(&mut self) -> io::Result<Option<Records>> {
        loop {
            if self.piece.is_none() {
                self.piece = self.find_piece()?;
            }
            let Some(piece) = &mut self.piece else { return Ok(None) };
            // Checked before reading: nothing is appended once the writer has left the file.
            let is_left = is_left(&self.path, piece.file.get_ref())?;
            let records = piece.read(&mut self.next)?;
            if records.count > 0 {
                return Ok(Some(records));
            }
            if !is_left {
                return Ok(None);
            }
            self.finished = self.finished.max(piece.name);
            self.piece = None;
        }
    }

    /// Opens the file that contains the next record, or else the first file after it.
    fn find_piece(&self) -> io::Result<Option<Piece>> {
        // Opened before the others are listed, so that a file rotated in between is in the list.
        let written = open_if_there(&self.path)?;
        let mut names = aside(&self.path)?;
        if let Some(finished) = self.finished {
            names.retain(|name| *name > finished);
        }
        let after = names.partition_point(|name| *name <= self.next);
        let name = names.get(after.saturating_sub(1)).copied();
        let file = match name {
            Some(name) => open_if_there(&numbered(&self.path, name))?,
            None => written,
        };
        let Some(mut file) = file else { return Ok(None) };
        let first = find_line(&mut file, 0, number_of)?;
        let name = name.or(first.map(|(_, first)| first));
        let (start, _) = bisect(&mut file, |line| Some(number_of(line)? < self.next))?;
        file.seek(SeekFrom::Start(start))?;
        Ok(Some(Piece { file: BufReader::new(file), name, line: Vec::new() }))
    }
}

impl Piece {
    /// Reads the next records with a hash, from the record `next` on.
    fn read(&mut self, next: &mut u64) -> io::Result<Records> {
        let mut records = Records::default();
        while records.lines.len() < BLOCK_BYTES
            && let Some(line) = self.read_line()?
        {
            let Some(number) = number_of(&line) else { continue };
            self.name.get_or_insert(number);
            if number < *next {
                continue;
            }
            records.lost += number - *next;
            if records.count == 0 {
                records.first = number;
            }
            records.last = number;
            records.count += 1;
            records.lines.extend_from_slice(&line);
            *next = number.saturating_add(1);
        }
        Ok(records)
    }

    /// Returns the next line with its break, or a piece of a line longer than any record; `None` if
    /// the rest of the line is not written yet.
    fn read_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let room = MAX_LINE - self.line.len();
        (&mut self.file).take(room as u64).read_until(b'\n', &mut self.line)?;
        let is_whole = self.line.ends_with(b"\n") || self.line.len() == MAX_LINE;
        Ok(if is_whole { Some(std::mem::take(&mut self.line)) } else { None })
    }
}

/// Returns the number of a record with its line break and a hash.
fn number_of(line: &[u8]) -> Option<u64> {
    claimed(line.strip_suffix(b"\n")?)?;
    let rest = line.strip_prefix(BEGIN)?;
    let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(rest.get(..end)?).ok()?.parse().ok()
}

/// Returns whether the writer now writes to another file.
#[allow(clippy::disallowed_methods, reason = "the trail's own file")]
fn is_left(path: &Path, file: &File) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) != (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// The cursor file of a receiver.
#[derive(Debug)]
pub struct Cursor {
    trail: PathBuf,
    /// The suffix of the file name.
    end: String,
}

/// The content of a cursor file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// The receiver has all records up to this number.
    Taken(u64),
    /// There is no file: nothing was ever sent to the receiver.
    Nothing,
    /// The file does not contain a cursor.
    Unreadable,
}

impl Saved {
    /// Returns the record after which to continue, in a trail that this process continues after
    /// record `begun`: `begun` if nothing was ever sent, but never a later record, because the
    /// trail does not contain it yet; 0 if the cursor is unreadable.
    pub fn after(self, begun: u64) -> u64 {
        match self {
            Self::Taken(last) => last.min(begun),
            Self::Nothing => begun,
            Self::Unreadable => 0,
        }
    }
}

impl Cursor {
    /// Returns the cursor of the named receiver.
    pub fn new(trail: &Path, to: &str) -> io::Result<Self> {
        Ok(Self { trail: real_path(trail)?, end: format!("{to}.cursor") })
    }

    /// Reads the file.
    pub fn read(&self) -> io::Result<Saved> {
        let Some(bytes) = read_beside(&self.trail, &self.end)? else { return Ok(Saved::Nothing) };
        let last = parse(&bytes).and_then(|said| number(&said, "seq"));
        Ok(last.map_or(Saved::Unreadable, Saved::Taken))
    }

    /// Replaces the file atomically.
    pub fn write(&self, last: u64) -> io::Result<()> {
        replace(&self.trail, &self.end, &json!({"seq": last}))
    }
}

#[cfg(test)]
mod tests;
