//! Searching the files of a trail backwards, within bounds of bytes and time, from its end or from
//! where what is wanted can begin. It says whether what it read is whole by the numbers of records;
//! `verify` alone goes by their hashes.

mod start;
mod wanted;

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::chain::MAX_LINE;
use super::pieces::{aside, numbered, open};
use start::{find_start, is_after};
pub use wanted::{Members, Search};
use wanted::{number_of, text};

/// What one search reads.
const BOUNDS: Bounds = Bounds { bytes: 64 << 20, time: Duration::from_secs(2), slack: 1 << 20 };
/// Bytes that are read at once.
const BLOCK: usize = 64 << 10;
/// Outcomes that wait for their decision.
const MAX_OUTCOMES: usize = 16 << 10;

#[derive(Clone, Copy)]
struct Bounds {
    bytes: u64,
    time: Duration,
    /// Of those, bytes behind the newest record that is wanted: outcomes come after decisions.
    slack: u64,
}

/// What a search has found.
#[derive(Debug, Default)]
pub struct Found {
    /// The newest first. A decision has `outcome` and `duration_us` of its call, as far as those
    /// were read.
    pub records: Vec<Members>,
    /// Number of the oldest record that was looked at.
    pub last: Option<u64>,
    /// All that there is was looked at, back to where the search ends.
    pub is_complete: bool,
    /// There is more that fits before the last of the records.
    pub has_more: bool,
    /// Lines that are no record.
    pub unreadable: u64,
    /// Places where numbers of records are missing, or where the writer says that some are.
    pub gaps: u64,
}

/// Searches the trail whose file is at this path.
///
/// # Errors
/// A file cannot be read.
pub fn search(path: &Path, wanted: &Search<'_>) -> io::Result<Found> {
    search_within(path, wanted, BOUNDS)
}

fn search_within(path: &Path, wanted: &Search<'_>, bounds: Bounds) -> io::Result<Found> {
    let began = Instant::now();
    let mut left = bounds.bytes;
    let mut state = SearchState::default();
    let files = list_files(path, wanted.before)?;
    let Some(start) = find_start(&files, wanted, bounds.slack)? else {
        state.found.is_complete = true;
        return Ok(state.found);
    };
    for (place, file) in files.iter().enumerate().skip(start.file) {
        let end = if place == start.file { start.at } else { u64::MAX };
        let mut lines = match open(file, OpenOptions::new().read(true)) {
            Ok(file) => LinesFromEnd::new(file, end)?,
            // Rotation has taken it away, or has not begun it yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        while let Some(line) = lines.next_line()? {
            left = left.saturating_sub(line.len() as u64 + 1);
            if left == 0 || began.elapsed() > bounds.time {
                return Ok(state.found);
            }
            // The writer is at it; if it never ends, `verify` says so.
            if lines.is_unended && serde_json::from_slice::<Members>(&line).is_err() {
                continue;
            }
            if state.look_at(&line, wanted) == Step::Enough {
                return Ok(state.found);
            }
        }
    }
    state.found.is_complete = true;
    Ok(state.found)
}

/// The files that may have records before that one, or outcomes of those, the newest first.
fn list_files(path: &Path, before: Option<u64>) -> io::Result<Vec<PathBuf>> {
    let mut files = vec![path.to_owned()];
    let mut is_behind = true;
    for first in aside(path)?.into_iter().rev() {
        let is_later = matches!(before, Some(before) if first >= before);
        if is_behind && is_later {
            // Nothing newer than this one is of use.
            files.clear();
        }
        is_behind = is_later;
        files.push(numbered(path, first));
    }
    Ok(files)
}

#[derive(PartialEq, Eq)]
enum Step {
    On,
    Enough,
}

#[derive(Default)]
struct SearchState {
    found: Found,
    /// Members of outcomes by their call.
    outcomes: HashMap<u64, Members>,
}

impl SearchState {
    fn look_at(&mut self, line: &[u8], wanted: &Search<'_>) -> Step {
        let Ok(mut record) = serde_json::from_slice::<Members>(line) else {
            self.found.unreadable += 1;
            return Step::On;
        };
        let Some(seq) = number_of(&record) else {
            self.found.unreadable += 1;
            return Step::On;
        };
        if matches!(self.found.last, Some(newer) if newer != seq + 1) {
            self.found.gaps += 1;
        }
        self.found.last = Some(seq);
        if matches!(wanted.from, Some(from) if text(&record, "time") < from) {
            self.found.is_complete = true;
            return Step::Enough;
        }
        match text(&record, "kind") {
            "outcome" => self.keep_outcome(record),
            // Calls are numbered anew by each process.
            "open" => {
                self.found.gaps += u64::from(record.contains_key("gone_from"));
                self.outcomes.clear();
                return self.offer(record, wanted);
            }
            "gap" => {
                self.found.gaps += 1;
                return self.offer(record, wanted);
            }
            _ => {
                self.add_outcome(&mut record);
                return self.offer(record, wanted);
            }
        }
        Step::On
    }

    fn keep_outcome(&mut self, record: Members) {
        let Some(call) = call_of(&record) else { return };
        if self.outcomes.len() < MAX_OUTCOMES {
            self.outcomes.insert(call, record);
        }
    }

    fn add_outcome(&mut self, record: &mut Members) {
        let Some(call) = call_of(record) else { return };
        let Some(outcome) = self.outcomes.remove(&call) else { return };
        for name in ["outcome", "duration_us"] {
            if let Some(value) = outcome.get(name) {
                record.insert(name.to_owned(), value.clone());
            }
        }
    }

    fn offer(&mut self, record: Members, wanted: &Search<'_>) -> Step {
        if is_after(&record, wanted) || !(wanted.fits)(&record) {
            return Step::On;
        }
        if self.found.records.len() == wanted.limit {
            self.found.has_more = true;
            return Step::Enough;
        }
        self.found.records.push(record);
        Step::On
    }
}

/// The call that a record is of.
fn call_of(record: &Members) -> Option<u64> {
    record.get("call")?.as_u64()
}

/// The lines of a file without their breaks, the last one first.
struct LinesFromEnd {
    file: File,
    /// Where what was read begins.
    at: u64,
    /// What was read and not yet given.
    rest: VecDeque<u8>,
    /// The break at the end of the file is none between lines.
    is_fresh: bool,
    /// The line that was given last has no break behind it.
    is_unended: bool,
}

impl LinesFromEnd {
    /// Those before a place that is behind a line.
    fn new(mut file: File, end: u64) -> io::Result<Self> {
        let at = file.seek(SeekFrom::End(0))?.min(end);
        Ok(Self { file, at, rest: VecDeque::new(), is_fresh: true, is_unended: false })
    }

    fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut looked_at = 0;
        loop {
            let mut unseen = self.rest.iter().rev().skip(looked_at);
            let found = unseen.position(|byte| *byte == b'\n');
            if let Some(found) = found {
                let line = self.rest.split_off(self.rest.len() - looked_at - found);
                self.rest.pop_back();
                let is_last = std::mem::take(&mut self.is_fresh);
                if is_last && line.is_empty() {
                    looked_at = 0;
                    continue;
                }
                self.is_unended = is_last;
                return Ok(Some(line.into()));
            }
            looked_at = self.rest.len();
            if self.at == 0 {
                self.is_unended = std::mem::take(&mut self.is_fresh);
                let line = std::mem::take(&mut self.rest);
                return Ok(if line.is_empty() { None } else { Some(line.into()) });
            }
            // A line that is longer than any record is given in pieces.
            if self.rest.len() >= MAX_LINE {
                return Ok(Some(std::mem::take(&mut self.rest).into()));
            }
            self.read_block()?;
        }
    }

    fn read_block(&mut self) -> io::Result<()> {
        let size = self.at.min(BLOCK as u64);
        self.at -= size;
        self.file.seek(SeekFrom::Start(self.at))?;
        let mut block = Vec::new();
        (&self.file).take(size).read_to_end(&mut block)?;
        for byte in block.into_iter().rev() {
            self.rest.push_front(byte);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
