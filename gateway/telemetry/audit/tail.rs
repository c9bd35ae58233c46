//! Reads the records of a trail in order, from one of them on: through the files that rotation set
//! aside to the one that is written. It gives nothing but lines that a hash is over, because a
//! start may take back what comes after the last one. It verifies nothing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::chain::{MAX_LINE, MAX_SPAN, is_closed};
use super::file::{BEGIN, real_path};
use super::pieces::{aside, numbered, open};

/// Bytes that are read at once; among so many there is a hash.
const BLOCK: usize = 256 * 1024;
const _: () = assert!(BLOCK > MAX_SPAN);
/// Bytes in which a record begins and ends, where there is one.
const LOOK: u64 = 2 * MAX_LINE as u64;

/// Some records that follow each other.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Their lines, as they stand in the file; 256 KiB at most.
    pub lines: Vec<u8>,
    /// Numbers of the first and of the last of them.
    pub first: u64,
    pub last: u64,
    pub count: u64,
    /// Those before or among them that are in no file any more.
    pub lost: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    /// Number of the record that is wanted next.
    next: u64,
    piece: Option<Piece>,
    /// First record of the file that was read to its end last.
    finished: Option<u64>,
}

/// A file of the trail.
#[derive(Debug)]
struct Piece {
    file: File,
    /// Its first record; none while it has none.
    name: Option<u64>,
    /// What was read and not given.
    rest: Vec<u8>,
}

impl Tail {
    /// Reads what comes after the record of that number, in the trail whose file is at this path.
    ///
    /// # Errors
    /// The path is a link to what is no file.
    pub fn new(path: &Path, after: u64) -> io::Result<Self> {
        let next = after.saturating_add(1);
        Ok(Self { path: real_path(path)?, next, piece: None, finished: None })
    }

    /// The next records; none where all have been given that are there now.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(&mut self) -> io::Result<Option<Records>> {
        loop {
            if self.piece.is_none() {
                self.piece = self.find_piece()?;
            }
            let Some(piece) = &mut self.piece else { return Ok(None) };
            // Asked before reading: from then on nothing is added to it any more.
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

    /// The file that has the next record, or the first one after it.
    fn find_piece(&self) -> io::Result<Option<Piece>> {
        // Opened before the others are listed: if rotation sets it aside meanwhile, it is there.
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
        let name = match name {
            Some(name) => Some(name),
            None => find_first(&mut file)?,
        };
        let start = find_line(&mut file, self.next)?;
        file.seek(SeekFrom::Start(start))?;
        Ok(Some(Piece { file, name, rest: Vec::new() }))
    }
}

/// Which of these files, by their first records in order, has a record or the first one after it.
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
    /// Reads on; whether there was more.
    fn fill(&mut self) -> io::Result<bool> {
        let room = BLOCK - self.rest.len();
        let read = (&self.file).take(room as u64).read_to_end(&mut self.rest)?;
        Ok(read > 0)
    }

    /// What has been read up to the last hash, from the next record on.
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
        // So much without a hash is nothing that the writer wrote.
        let used = if self.rest.len() == BLOCK { end.max(BLOCK - MAX_SPAN) } else { end };
        self.rest.drain(..used);
        records
    }
}

/// Where the last line ends that carries a hash.
fn find_end(bytes: &[u8]) -> usize {
    let mut end = 0;
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        at += line.len();
        if let Some(line) = line.strip_suffix(b"\n")
            && is_closed(line)
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

/// The number of the first record of a file.
fn find_first(file: &mut File) -> io::Result<Option<u64>> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.take(LOOK).read_to_end(&mut bytes)?;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if let Some(number) = number_of(line) {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// The beginning of a line that is not behind that record: numbers go up, so that halving finds it.
fn find_line(file: &mut File, number: u64) -> io::Result<u64> {
    let mut low = 0;
    let mut high = file.metadata()?.len();
    while high - low > LOOK {
        let middle = low + (high - low) / 2;
        file.seek(SeekFrom::Start(middle))?;
        let mut bytes = Vec::new();
        file.take(LOOK).read_to_end(&mut bytes)?;
        let mut at = middle;
        let mut found = None;
        for (place, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            // The first one most likely began before.
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

/// Whether the writer writes elsewhere now.
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
