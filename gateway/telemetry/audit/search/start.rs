//! Where in the files of a trail a search begins: behind the newest record that it can want, found
//! by bisection, because numbers and times of records go up. Who has written into a file by hand
//! may have a search begin too early; `verify` finds that out.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use super::wanted::{Members, Search, number_of, text};
use crate::audit::chain::MAX_LINE;
use crate::audit::pieces::open;

/// Bytes that are read for one look: a record begins and ends in them, where there is one.
const LOOK: u64 = 2 * MAX_LINE as u64;
/// Looks at one file: more than halving the largest takes, and some over garbage.
const MAX_LOOKS: usize = 128;

/// A file, by its place among all, and where in it a search begins.
pub(super) struct Start {
    pub(super) file: usize,
    /// Behind a line.
    pub(super) at: u64,
}

/// Finds the place in files of which the newest come first. So many bytes behind it are read as
/// well, for outcomes of the records before it; none for the end of everything.
pub(super) fn find_start(
    files: &[PathBuf],
    wanted: &Search<'_>,
    slack: u64,
) -> io::Result<Option<Start>> {
    if wanted.before.is_none() && wanted.to.is_none() {
        return Ok(Some(Start { file: 0, at: u64::MAX }));
    }
    for (place, path) in files.iter().enumerate() {
        let mut file = match open(path, OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let length = file.metadata()?.len();
        let first = find_record(&mut file, 0, length.min(LOOK), true)?;
        if let Some(first) = first
            && is_after(&first, wanted)
        {
            continue;
        }
        let at = bisect(&mut file, length, wanted)?.saturating_add(slack);
        let Some(more) = at.checked_sub(length) else {
            return Ok(Some(Start { file: place, at: find_break(&mut file, at)? }));
        };
        // The rest of the slack is in the file after this one.
        if let Some(newer) = place.checked_sub(1)
            && let Some(path) = files.get(newer)
            && let Ok(mut file) = open(path, OpenOptions::new().read(true))
        {
            return Ok(Some(Start { file: newer, at: find_break(&mut file, more)? }));
        }
        return Ok(Some(Start { file: place, at: length }));
    }
    Ok(None)
}

/// Whether a record, and all behind it, is none that is wanted.
pub(super) fn is_after(record: &Members, wanted: &Search<'_>) -> bool {
    if let Some(before) = wanted.before
        && number_of(record).unwrap_or(0) >= before
    {
        return true;
    }
    matches!(wanted.to, Some(to) if text(record, "time") >= to)
}

/// A place behind which no record is wanted.
fn bisect(file: &mut File, length: u64, wanted: &Search<'_>) -> io::Result<u64> {
    let mut low = 0;
    let mut high = length;
    let mut looks = 0;
    while high - low > LOOK && looks < MAX_LOOKS {
        let middle = low + (high - low) / 2;
        let mut at = middle;
        let mut record = None;
        while record.is_none() && at < high && looks < MAX_LOOKS {
            record = find_record(file, at, LOOK, false)?;
            at += LOOK / 2;
            looks += 1;
        }
        match record {
            Some(record) if !is_after(&record, wanted) => low = middle,
            _ if looks < MAX_LOOKS => high = middle,
            _ => {}
        }
    }
    Ok(high)
}

/// The first whole record among some bytes of a file.
fn find_record(
    file: &mut File,
    at: u64,
    length: u64,
    is_start_of_line: bool,
) -> io::Result<Option<Members>> {
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    let skipped = usize::from(!is_start_of_line);
    for line in bytes.split(|byte| *byte == b'\n').skip(skipped) {
        if let Ok(record) = serde_json::from_slice::<Members>(line)
            && number_of(&record).is_some()
        {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

/// The end of the line that a place is in.
fn find_break(file: &mut File, at: u64) -> io::Result<u64> {
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    file.take(LOOK).read_to_end(&mut bytes)?;
    let end = match bytes.iter().position(|byte| *byte == b'\n') {
        Some(found) => found + 1,
        None => bytes.len(),
    };
    Ok(at + end as u64)
}
