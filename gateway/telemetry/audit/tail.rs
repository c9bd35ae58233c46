//! Reads the records of a trail in order from a given number on, through the rotated files to the
//! current file. Returns only lines with a hash, because a restart may remove an incomplete last
//! line. Hashes are not verified.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::chain::{MAX_LINE, claimed};
use super::file::{BEGIN, real_path};
use super::pieces::{aside, numbered, open};

/// Bytes per read. A block of this size contains a whole record.
const BLOCK_BYTES: usize = 256 * 1024;
const _: () = assert!(BLOCK_BYTES > MAX_LINE);
/// Bytes that contain any whole record.
const PROBE_BYTES: u64 = 2 * MAX_LINE as u64;

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
    file: File,
    /// Its first record, once known.
    name: Option<u64>,
    /// Bytes read but not yet returned.
    rest: Vec<u8>,
}

impl Tail {
    /// Reads the records after number `after`, in the trail with its file at this path.
    ///
    /// # Errors
    /// The path is a link to a missing file.
    pub fn new(path: &Path, after: u64) -> io::Result<Self> {
        let next = after.saturating_add(1);
        Ok(Self { path: real_path(path)?, next, piece: None, finished: None })
    }

    /// Returns the next records, or `None` if all present records have been returned.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(&mut self) -> io::Result<Option<Records>> {
        loop {
            if self.piece.is_none() {
                self.piece = self.find_piece()?;
            }
            let Some(piece) = &mut self.piece else { return Ok(None) };
            // Checked before reading: nothing is appended once the writer has left the file.
            let is_left = is_left(&self.path, &piece.file)?;
            let has_read = piece.fill()?;
            let records = piece.take(&mut self.next);
            if records.count > 0 {
                return Ok(Some(records));
            }
            if has_read {
                continue;
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
        let name = choose(&names, self.next);
        let file = match name {
            Some(name) => open_if_there(&numbered(&self.path, name))?,
            None => written,
        };
        let Some(mut file) = file else { return Ok(None) };
        let name = if name.is_some() { name } else { find_first(&mut file)? };
        let start = find_line(&mut file, self.next)?;
        file.seek(SeekFrom::Start(start))?;
        Ok(Some(Piece { file, name, rest: Vec::new() }))
    }
}

/// Returns the file that contains a record, or else the first file after it. `names` are sorted.
fn choose(names: &[u64], number: u64) -> Option<u64> {
    let mut chosen = *names.first()?;
    for name in names {
        if *name <= number {
            chosen = *name;
        }
    }
    Some(chosen)
}

impl Piece {
    /// Reads a further block. Returns whether there was more.
    fn fill(&mut self) -> io::Result<bool> {
        let room = BLOCK_BYTES - self.rest.len();
        let read = (&self.file).take(room as u64).read_to_end(&mut self.rest)?;
        Ok(read > 0)
    }

    /// Returns the bytes read up to the last hash, from the next record on.
    fn take(&mut self, next: &mut u64) -> Records {
        let mut records = Records::default();
        let end = find_end(&self.rest);
        let lines = self.rest.get(..end).unwrap_or(&[]);
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let Some(number) = number_of(line) else { continue };
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
            records.lines.extend_from_slice(line);
            *next = number.saturating_add(1);
        }
        // No record is longer than the bytes kept here.
        let used =
            if self.rest.len() == BLOCK_BYTES { end.max(BLOCK_BYTES - MAX_LINE) } else { end };
        self.rest.drain(..used);
        records
    }
}

/// Returns the end of the last line that carries a hash.
fn find_end(bytes: &[u8]) -> usize {
    let mut end = 0;
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        at += line.len();
        if let Some(line) = line.strip_suffix(b"\n")
            && claimed(line).is_some()
        {
            end = at;
        }
    }
    end
}

fn number_of(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(BEGIN)?;
    let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(rest.get(..end)?).ok()?.parse().ok()
}

fn find_first(file: &mut File) -> io::Result<Option<u64>> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.take(PROBE_BYTES).read_to_end(&mut bytes)?;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if let Some(number) = number_of(line) {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// Returns the start of a line at or before that record, by bisection over increasing numbers.
fn find_line(file: &mut File, number: u64) -> io::Result<u64> {
    let mut low = 0;
    let mut high = file.metadata()?.len();
    while high - low > PROBE_BYTES {
        let middle = low + (high - low) / 2;
        file.seek(SeekFrom::Start(middle))?;
        let mut bytes = Vec::new();
        file.take(PROBE_BYTES).read_to_end(&mut bytes)?;
        let mut at = middle;
        let mut found = None;
        for (place, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            // The first line is most likely incomplete.
            if place > 0 {
                found = number_of(line);
            }
            if found.is_some() {
                break;
            }
            at += line.len() as u64;
        }
        match found {
            Some(found) if found < number => low = at,
            _ => high = middle,
        }
    }
    Ok(low)
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

fn open_if_there(path: &Path) -> io::Result<Option<File>> {
    match open(path, OpenOptions::new().read(true)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
