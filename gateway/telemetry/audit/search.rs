//! Backward search in the files of a trail, within bounds of bytes and time, from its end or from
//! the newest record that can match. Completeness is judged by record numbers; only `verify` checks
//! hashes.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::chain::MAX_LINE;
use super::pieces::{
    Members, aside, bisect, find_line, number, numbered, open_if_there, parse, read_at, text,
};

const BOUNDS: Bounds = Bounds { bytes: 64 << 20, time: Duration::from_secs(2), slack: 1 << 20 };
/// Bytes per read; they contain a whole record.
const BLOCK_BYTES: u64 = 2 * MAX_LINE as u64;
/// Maximum number of outcomes held for their decisions.
const MAX_OUTCOMES: usize = 16 << 10;

#[derive(Clone, Copy)]
struct Bounds {
    bytes: u64,
    time: Duration,
    /// Of `bytes`, those read after the newest matching record: outcomes follow their decisions.
    slack: u64,
}

/// The result of a search.
#[derive(Debug, Default)]
pub struct SearchResult {
    /// Newest first. A decision has the `outcome` and `duration_us` of its call, if those were
    /// read.
    pub records: Vec<Members>,
    /// Number of the oldest record examined.
    pub last: Option<u64>,
    /// All records were examined, back to the start of the range.
    pub is_complete: bool,
    /// Further matches exist before the last of the records.
    pub has_more: bool,
    /// Lines that are not records.
    pub unreadable: u64,
    /// Number of gaps: missing record numbers, or losses that the writer recorded.
    pub gaps: u64,
}

/// Searches the trail with its file at this path.
pub fn search(path: &Path, wanted: &Search<'_>) -> io::Result<SearchResult> {
    search_within(path, wanted, BOUNDS)
}

fn search_within(path: &Path, wanted: &Search<'_>, bounds: Bounds) -> io::Result<SearchResult> {
    let began = Instant::now();
    let mut left = bounds.bytes;
    let mut state = SearchState::default();
    let files = list_files(path, wanted.before)?;
    let Some((first, start)) = find_start(&files, wanted, bounds.slack)? else {
        state.found.is_complete = true;
        return Ok(state.found);
    };
    for (place, file) in files.iter().enumerate().skip(first) {
        // Removed by rotation, or not created yet.
        let Some(mut file) = open_if_there(file)? else { continue };
        let mut end = file.metadata()?.len();
        if place == first {
            end = end.min(start);
        }
        let mut is_last = true;
        while end > 0 {
            let (begin, block) = read_before(&mut file, end)?;
            end = begin;
            for line in block.split_inclusive(|byte| *byte == b'\n').rev() {
                left = left.saturating_sub(line.len() as u64);
                if left == 0 || began.elapsed() > bounds.time {
                    return Ok(state.found);
                }
                // Possibly still being written; `verify` reports a line that stays incomplete.
                let is_unended = std::mem::take(&mut is_last) && !line.ends_with(b"\n");
                if is_unended && parse(line).is_none() {
                    continue;
                }
                if state.is_enough_with(line, wanted) {
                    return Ok(state.found);
                }
            }
        }
    }
    state.found.is_complete = true;
    Ok(state.found)
}

/// Reads the whole lines in a block of a file that ends at an offset. Returns their offset too. A
/// line longer than a block is returned in pieces.
fn read_before(file: &mut File, end: u64) -> io::Result<(u64, Vec<u8>)> {
    let mut begin = end.saturating_sub(BLOCK_BYTES);
    let mut block = read_at(file, begin, end - begin)?;
    let breaks = block.get(..block.len().saturating_sub(1)).unwrap_or(&[]);
    if begin > 0
        && let Some(found) = breaks.iter().position(|byte| *byte == b'\n')
    {
        block.drain(..=found);
        begin += found as u64 + 1;
    }
    Ok((begin, block))
}

/// Returns the files that may contain records before `before`, and the next newer one, which may
/// contain outcomes of those, newest first.
fn list_files(path: &Path, before: Option<u64>) -> io::Result<Vec<PathBuf>> {
    let names = aside(path)?;
    let newer = names.partition_point(|first| before.is_none_or(|before| *first < before));
    let mut files = vec![names.get(newer).map_or(path.to_owned(), |first| numbered(path, *first))];
    files.extend(names.iter().take(newer).rev().map(|first| numbered(path, *first)));
    Ok(files)
}

#[derive(Default)]
struct SearchState {
    found: SearchResult,
    /// Outcome records by call.
    outcomes: HashMap<u64, Members>,
}

impl SearchState {
    /// Examines the next line. Returns whether the search is over.
    fn is_enough_with(&mut self, line: &[u8], wanted: &Search<'_>) -> bool {
        let Some((seq, mut record)) = read_record(line) else {
            self.found.unreadable += 1;
            return false;
        };
        self.found.gaps += u64::from(self.found.last.is_some_and(|newer| newer != seq + 1));
        self.found.last = Some(seq);
        if wanted.from.is_some_and(|from| text(&record, "time") < from) {
            self.found.is_complete = true;
            return true;
        }
        match text(&record, "kind") {
            "outcome" => {
                if let Some(call) = number(&record, "call")
                    && self.outcomes.len() < MAX_OUTCOMES
                {
                    self.outcomes.insert(call, record);
                }
                return false;
            }
            // Each process restarts the numbers of calls.
            "open" => {
                self.found.gaps += u64::from(record.contains_key("gone_from"));
                self.outcomes.clear();
            }
            "gap" => self.found.gaps += 1,
            _ => self.add_outcome(&mut record),
        }
        if is_after(&record, wanted) || !(wanted.fits)(&record) {
            return false;
        }
        self.found.has_more = self.found.records.len() == wanted.limit;
        if !self.found.has_more {
            self.found.records.push(record);
        }
        self.found.has_more
    }

    fn add_outcome(&mut self, record: &mut Members) {
        let Some(call) = number(record, "call") else { return };
        let Some(mut outcome) = self.outcomes.remove(&call) else { return };
        for name in ["outcome", "duration_us"] {
            record.extend(outcome.remove_entry(name));
        }
    }
}

// The criteria of a search, and its start in a trail's files: after the newest record that can
// match, found by bisection, because numbers and times increase. Manual edits of a file may move
// the start too far back; `verify` detects them.

/// The criteria of a search.
pub struct Search<'a> {
    /// Only records before this number.
    pub before: Option<u64>,
    /// Only records from this time on: RFC 3339, in UTC.
    pub from: Option<&'a str>,
    /// Only records before this time.
    pub to: Option<&'a str>,
    /// Maximum number of returned records.
    pub limit: usize,
    pub fits: &'a dyn Fn(&Members) -> bool,
}

/// Finds the start of a search in `files`, newest first: the index of a file, and an offset in it.
/// A line that began before the offset is left out. The start includes `slack` further bytes, for
/// outcomes of the records before it. Returns `None` if all records are too new.
fn find_start(
    files: &[PathBuf],
    wanted: &Search<'_>,
    slack: u64,
) -> io::Result<Option<(usize, u64)>> {
    if wanted.before.is_none() && wanted.to.is_none() {
        return Ok(Some((0, u64::MAX)));
    }
    for (place, path) in files.iter().enumerate() {
        let Some(mut file) = open_if_there(path)? else { continue };
        let length = file.metadata()?.len();
        if let Some((_, (_, first))) = find_line(&mut file, 0, read_record)?
            && is_after(&first, wanted)
        {
            continue;
        }
        let (_, at) = bisect(&mut file, |line| Some(!is_after(&read_record(line)?.1, wanted)))?;
        let end = at.saturating_add(slack);
        // The rest of the slack is in the next newer file.
        let is_in_newer = end > length && place > 0;
        return Ok(Some(if is_in_newer { (place - 1, end - length) } else { (place, end) }));
    }
    Ok(None)
}

/// Returns whether a record, and hence every later record, is too new.
fn is_after(record: &Members, wanted: &Search<'_>) -> bool {
    let seq = number(record, "seq").unwrap_or(0);
    wanted.before.is_some_and(|before| seq >= before)
        || wanted.to.is_some_and(|to| text(record, "time") >= to)
}

/// Parses a record and its number.
fn read_record(line: &[u8]) -> Option<(u64, Members)> {
    let record = parse(line)?;
    Some((number(&record, "seq")?, record))
}

#[cfg(test)]
mod tests;
