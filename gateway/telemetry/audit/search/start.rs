//! The criteria of a search, and its start in a trail's files: after the newest record that can
//! match, found by bisection, because numbers and times increase. Manual edits of a file may move
//! the start too far back; `verify` detects them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::audit::chain::MAX_LINE;
use crate::audit::pieces::open;

/// Bytes per probe; they contain any whole record.
const PROBE_BYTES: u64 = 2 * MAX_LINE as u64;
/// Probes per file: more than bisection of the largest takes, with a margin for garbage.
const MAX_LOOKS: usize = 128;

/// The members of a record as written.
pub type Members = Map<String, Value>;

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

/// The index of a file, and the offset in it at which a search begins.
pub(super) struct Start {
    pub(super) file: usize,
    /// Follows a line break.
    pub(super) at: u64,
}

/// Finds the start of a search in `files`, newest first. The start includes `slack` further bytes,
/// for outcomes of the records before it. Returns `None` if all records are too new.
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
        let first = find_record(&mut file, 0, length.min(PROBE_BYTES), true)?;
        if let Some(first) = first
            && is_after(&first, wanted)
        {
            continue;
        }
        let at = bisect(&mut file, length, wanted)?.saturating_add(slack);
        let Some(more) = at.checked_sub(length) else {
            return Ok(Some(Start { file: place, at: find_break(&mut file, at)? }));
        };
        // The rest of the slack is in the next newer file.
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

/// Returns whether a record, and hence every later record, is too new.
pub(super) fn is_after(record: &Members, wanted: &Search<'_>) -> bool {
    if let Some(before) = wanted.before
        && number_of(record).unwrap_or(0) >= before
    {
        return true;
    }
    matches!(wanted.to, Some(to) if text(record, "time") >= to)
}

/// Returns an offset after which no record matches.
fn bisect(file: &mut File, length: u64, wanted: &Search<'_>) -> io::Result<u64> {
    let mut low = 0;
    let mut high = length;
    let mut looks = 0;
    while high - low > PROBE_BYTES && looks < MAX_LOOKS {
        let middle = low + (high - low) / 2;
        let mut at = middle;
        let mut record = None;
        while record.is_none() && at < high && looks < MAX_LOOKS {
            record = find_record(file, at, PROBE_BYTES, false)?;
            at += PROBE_BYTES / 2;
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

/// Returns the first whole record in a range of a file.
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

/// Returns the end of the line at an offset.
fn find_break(file: &mut File, at: u64) -> io::Result<u64> {
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    file.take(PROBE_BYTES).read_to_end(&mut bytes)?;
    let end = match bytes.iter().position(|byte| *byte == b'\n') {
        Some(found) => found + 1,
        None => bytes.len(),
    };
    Ok(at + end as u64)
}

pub(super) fn number_of(record: &Members) -> Option<u64> {
    record.get("seq").and_then(Value::as_u64)
}

pub(super) fn text<'a>(record: &'a Members, name: &str) -> &'a str {
    record.get(name).and_then(Value::as_str).unwrap_or_default()
}
