//! The files of a trail as they lie there: their names, their first and last records, and which
//! records are missing from them. A line that does not verify says nothing.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::chain::{Hex, MAX_LINE, MAX_SPAN, Seal, is_closed};

/// Digits of the number in the name of a file that was set aside.
const DIGITS: usize = 16;
/// What is read of the end of a file: the last records that one hash is over, the hash before them,
/// and what a writer left that ended in the middle.
const MAX_END: usize = 2 * MAX_SPAN + MAX_LINE;
/// Most zeros that are taken for what was not written.
pub(super) const MAX_ZEROS: u64 = 1 << 30;

/// First and last records that are missing; between them there may be some that are not.
pub(super) type Range = (u64, u64);

/// The first record of a file.
pub(super) struct Beginning {
    pub(super) seq: u64,
    /// It is one that begins a file.
    opens: bool,
    /// The first record that was kept when it was written.
    oldest: Option<u64>,
}

/// Mode 0600 whatever the process's mask is.
#[allow(clippy::disallowed_methods, reason = "the trail's own files, named by the operator")]
pub(super) fn open(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    how.mode(0o600).open(path)
}

pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(end);
    name.into()
}

pub(super) fn numbered(path: &Path, first: u64) -> PathBuf {
    beside(path, &format!("{first:0DIGITS$}"))
}

/// Puts a small file with this text beside the trail, whole or not at all, and on the disk.
#[allow(clippy::disallowed_methods, reason = "the trail's own files")]
pub(super) fn replace(path: &Path, end: &str, text: &Value) -> io::Result<()> {
    let new = beside(path, &format!("{end}.new"));
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Never through a link that somebody put there.
    let mut file = open(&new, OpenOptions::new().write(true).create_new(true))?;
    writeln!(file, "{text}")?;
    file.sync_data()?;
    fs::rename(new, beside(path, end))
}

/// First records of the files that were set aside, in order.
#[allow(clippy::disallowed_methods, reason = "the folder of the trail's own files")]
pub(super) fn aside(path: &Path) -> io::Result<Vec<u64>> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let own = match path.file_name() {
        Some(name) => format!("{}.", name.to_string_lossy()),
        None => String::new(),
    };
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Anything else with such a name is nobody's file of the trail, and opening it may take
        // forever.
        if let Some(number) = read_name(&entry.file_name(), &own)
            && let Ok(kind) = entry.file_type()
            && kind.is_file()
        {
            all.push(number);
        }
    }
    all.sort_unstable();
    Ok(all)
}

/// The number that stands behind the trail's own name in that of a file that was set aside.
fn read_name(name: &OsStr, own: &str) -> Option<u64> {
    let number = name.to_str()?.strip_prefix(own)?;
    if number.len() != DIGITS || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    number.parse().ok()
}

/// The last record of a file that carries a hash.
pub(super) struct End {
    /// All that the hash is over, and the hash, without the last break.
    lines: Vec<u8>,
    /// Where they end in the file.
    pub(super) at: u64,
    /// The last break is missing, and nothing else.
    pub(super) unbroken: bool,
}

impl End {
    /// The last record and its hash, if that is the right one.
    pub(super) fn record(&self, seal: &Seal) -> Option<(Value, Hex)> {
        let hash = seal.check(&self.lines)?;
        let last = self.lines.rsplit(|b| *b == b'\n').next()?;
        Some((serde_json::from_slice(last).ok()?, hash))
    }
}

/// Finds the end of a file. None if there is no hash, or more behind it than a writer leaves that
/// ends in the middle.
pub(super) fn end(file: &mut File) -> io::Result<Option<End>> {
    let len = without_zeros(file, MAX_ZEROS)?;
    let skipped = file.seek(SeekFrom::Start(len.saturating_sub(MAX_END as u64)))?;
    let mut bytes = Vec::new();
    file.take(len - skipped).read_to_end(&mut bytes)?;
    let mut before = None;
    let mut last = None;
    let mut at = 0;
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        at += line.len();
        // A writer may have ended right before the last break, which no hash is over.
        if is_closed(without_break(line)) {
            (before, last) = (last, Some(at));
        }
    }
    let Some(last) = last else { return Ok(None) };
    if bytes.len() - last >= MAX_SPAN {
        return Ok(None);
    }
    let begin = match before {
        Some(before) => before,
        None if skipped == 0 => 0,
        None => return Ok(None),
    };
    let lines = bytes.get(begin..last).unwrap_or(&[]);
    let unbroken = !lines.ends_with(b"\n");
    let lines = without_break(lines).to_vec();
    Ok(Some(End { lines, at: skipped + last as u64, unbroken }))
}

fn without_break(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// How long a file is but for zeros at its end: after a loss of power there may be any number in
/// place of what was written last, up to `most`. More of them are left to somebody who knows what
/// they are.
pub(super) fn without_zeros(file: &mut File, most: u64) -> io::Result<u64> {
    let len = file.metadata()?.len();
    let least = len.saturating_sub(most + 1);
    let mut end = len;
    while end > least {
        let begin = file.seek(SeekFrom::Start(end.saturating_sub(MAX_LINE as u64).max(least)))?;
        let mut bytes = Vec::new();
        file.take(end - begin).read_to_end(&mut bytes)?;
        if let Some(last) = bytes.iter().rposition(|b| *b != 0) {
            return Ok(begin + last as u64 + 1);
        }
        end = begin;
    }
    Ok(if len > most { len } else { 0 })
}

/// The first record of a file that a right hash is over. It may not be the first one: where the
/// beginning was cut, no hash may be right before the second.
pub(super) fn beginning(file: &mut File, seal: &Seal) -> io::Result<Option<Beginning>> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.take(2 * MAX_SPAN as u64).read_to_end(&mut bytes)?;
    let mut begin = 0;
    let mut at = 0;
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        at += line.len();
        if !is_closed(without_break(line)) {
            continue;
        }
        let lines = without_break(bytes.get(begin..at).unwrap_or(&[]));
        if seal.check(lines).is_some() {
            return Ok(read_beginning(lines, begin == 0));
        }
        begin = at;
    }
    Ok(None)
}

/// What the first of these lines says; `is_first` where it is the first one of its file.
fn read_beginning(lines: &[u8], is_first: bool) -> Option<Beginning> {
    let line = lines.split(|b| *b == b'\n').next()?;
    let record: Value = serde_json::from_slice(line).ok()?;
    let opens = is_first && matches!(record.get("kind"), Some(kind) if kind == "open");
    let oldest = if opens { number(&record, "oldest") } else { None };
    Some(Beginning { seq: number(&record, "seq")?, opens, oldest })
}

/// A number in a record.
pub(super) fn number(record: &Value, key: &str) -> Option<u64> {
    record.get(key)?.as_u64()
}

/// The number of the last record of a file that a right hash is over.
fn last_number(file: &mut File, seal: &Seal) -> io::Result<Option<u64>> {
    let Some(end) = end(file)? else { return Ok(None) };
    let Some((record, _)) = end.record(seal) else { return Ok(None) };
    Ok(number(&record, "seq"))
}

/// What is missing between the beginning of the oldest file and that of the current one, if that
/// has any, and before the former. What rotation has let go is not: a file begins with a record
/// that says from where on others are kept.
pub(super) fn gone(
    path: &Path,
    aside: &[u64],
    current: Option<&Option<Beginning>>,
    tip: u64,
    seal: &Seal,
) -> io::Result<Option<Range>> {
    let mut next = None;
    let mut said = None;
    let mut holes = None;
    for name in aside {
        let mut file = open(&numbered(path, *name), OpenOptions::new().read(true))?;
        let begin = beginning(&mut file, seal)?;
        if !matches!(&begin, Some(begin) if begin.opens && begin.seq == *name) {
            tracing::warn!(
                name,
                "a file beside the audit file does not begin as its name says, and counts among \
                    those kept"
            );
        }
        said = oldest(begin.as_ref()).or(said);
        holes = union(holes, hole(begin.as_ref(), next, *name));
        next = match last_number(&mut file, seal)? {
            Some(last) => Some(last.saturating_add(1)),
            None => Some(*name),
        };
    }
    if let Some(begin) = current {
        said = oldest(begin.as_ref()).or(said);
        holes = union(holes, hole(begin.as_ref(), next, tip));
    }
    let said = said.unwrap_or(1);
    let holes = match holes {
        Some((from, to)) if from.max(said) <= to => Some((from.max(said), to)),
        _ => None,
    };
    let first = match (aside.first(), current) {
        (Some(first), _) => Some(*first),
        (None, Some(Some(begin))) => Some(begin.seq),
        _ => None,
    };
    let before = match first {
        Some(first) if said < first => Some((said, first - 1)),
        _ => None,
    };
    Ok(union(holes, before))
}

/// The first record that is kept, as the beginning of a file says.
fn oldest(begin: Option<&Beginning>) -> Option<u64> {
    begin?.oldest
}

/// What is missing before a file, the last one before which ends where `next` would follow.
fn hole(begin: Option<&Beginning>, next: Option<u64>, name: u64) -> Option<Range> {
    let from = next.unwrap_or(1);
    let Some(begin) = begin else { return Some((from, name.max(from))) };
    if begin.opens && next.unwrap_or(begin.seq) == begin.seq {
        return None;
    }
    Some((from, begin.seq.saturating_sub(1).max(from)))
}

fn union(one: Option<Range>, other: Option<Range>) -> Option<Range> {
    match (one, other) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
        (one, other) => one.or(other),
    }
}
