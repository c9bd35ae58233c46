//! The files of a trail on disk: their names, their first and last records, and the records missing
//! from them. Lines that do not verify are ignored.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use lockgate_text::json;
use serde_json::{Map, Value};

use super::chain::{Hex, MAX_LINE, Seal, Tip, claimed};

/// Number of digits in the suffix of a rotated file's name.
const NUMBER_DIGITS: usize = 16;
/// Bytes read from the end of a file: the last record, the record before it, and an incomplete one.
const MAX_END: usize = 3 * MAX_LINE;
/// Maximum number of trailing zeros taken for lost writes.
pub(super) const MAX_ZEROS: u64 = 1 << 30;

/// The members of a record as written.
pub type Members = Map<String, Value>;

/// First and last missing record; records between them may be present.
pub(super) type Range = (u64, u64);

/// The first verified record of a file.
pub(super) struct Beginning {
    pub(super) seq: u64,
    /// Set for an `open` record at the start of the file.
    opens: bool,
    /// The oldest kept record at the time of writing.
    oldest: Option<u64>,
}

/// Opens a file. New files have mode 0600, even under a permissive umask.
#[allow(clippy::disallowed_methods, reason = "the trail's own files, named by the operator")]
pub(super) fn open(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    how.mode(0o600).open(path)
}

/// Opens a file for reading; returns `None` if it does not exist.
pub(super) fn open_if_there(path: &Path) -> io::Result<Option<File>> {
    match open(path, OpenOptions::new().read(true)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads up to `most` bytes from an offset on.
pub(super) fn read_at(file: &mut File, at: u64, most: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Bytes per probe; they contain any whole record.
const PROBE_BYTES: u64 = 2 * MAX_LINE as u64;
/// Probes per file: more than bisection of the largest takes, with a margin for garbage.
const MAX_LOOKS: usize = 128;

/// Returns the first of some lines that `read` accepts, at or after an offset, with its own offset.
pub(super) fn find_line<T>(
    file: &mut File,
    at: u64,
    read: impl Fn(&[u8]) -> Option<T>,
) -> io::Result<Option<(u64, T)>> {
    let bytes = read_at(file, at, PROBE_BYTES)?;
    let mut start = at;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        // Within a file, the first line is most likely incomplete.
        let is_whole = start > at || at == 0;
        if is_whole && let Some(found) = read(line) {
            return Ok(Some((start, found)));
        }
        start += line.len() as u64;
    }
    Ok(None)
}

/// Narrows the place in a file at which `is_early` becomes false, by bisection. Returns the start
/// of a line that is early, and an offset from which on none is. `is_early` returns `None` for
/// garbage.
pub(super) fn bisect(
    file: &mut File,
    is_early: impl Fn(&[u8]) -> Option<bool>,
) -> io::Result<(u64, u64)> {
    let mut low = 0;
    let mut high = file.metadata()?.len();
    let mut looks = 0;
    while high - low > PROBE_BYTES && looks < MAX_LOOKS {
        let middle = low + (high - low) / 2;
        let mut at = middle;
        let mut found = None;
        while found.is_none() && at < high && looks < MAX_LOOKS {
            found = find_line(file, at, &is_early)?;
            at += PROBE_BYTES / 2;
            looks += 1;
        }
        match found {
            Some((start, true)) => low = start.min(high),
            _ if looks < MAX_LOOKS => high = middle,
            _ => {}
        }
    }
    Ok((low, high))
}

pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(end);
    name.into()
}

pub(super) fn numbered(path: &Path, first: u64) -> PathBuf {
    beside(path, &format!("{first:0NUMBER_DIGITS$}"))
}

/// Replaces a small file beside the trail atomically, and syncs it to disk.
#[allow(clippy::disallowed_methods, reason = "the trail's own files")]
pub(super) fn replace(path: &Path, end: &str, text: &Value) -> io::Result<()> {
    let new = beside(path, &format!("{end}.new"));
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // `create_new` does not follow a planted link.
    let mut file = open(&new, OpenOptions::new().write(true).create_new(true))?;
    writeln!(file, "{text}")?;
    file.sync_data()?;
    fs::rename(new, beside(path, end))
}

/// Reads a small file beside the trail; returns `None` if it does not exist.
pub(super) fn read_beside(path: &Path, end: &str) -> io::Result<Option<Vec<u8>>> {
    let Some(mut file) = open_if_there(&beside(path, end))? else { return Ok(None) };
    read_at(&mut file, 0, MAX_LINE as u64).map(Some)
}

/// Returns the first records of the rotated files, in order.
#[allow(clippy::disallowed_methods, reason = "the folder of the trail's own files")]
pub(super) fn aside(path: &Path) -> io::Result<Vec<u64>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let own =
        path.file_name().map(|name| format!("{}.", name.to_string_lossy())).unwrap_or_default();
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Other entries with such a name do not belong to the trail, and opening them (a FIFO, for
        // instance) may block.
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

/// Returns the files of the trail with its file at this path: the file, and the rotated ones.
pub fn list_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = vec![path.to_owned()];
    files.extend(aside(path)?.into_iter().map(|first| numbered(path, first)));
    Ok(files)
}

/// Parses the number after the trail's own name in the name of a rotated file.
fn read_name(name: &OsStr, own: &str) -> Option<u64> {
    let number = name.to_str()?.strip_prefix(own)?;
    if number.len() != NUMBER_DIGITS || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    number.parse().ok()
}

/// The last record of a file.
pub(super) struct End {
    /// The line, without its break.
    line: Vec<u8>,
    /// The hash of the record before it, if it is in the file or in the line.
    prev: Option<Hex>,
    /// The offset at which the line ends in the file.
    pub(super) at: u64,
    /// Only the last line break is missing.
    pub(super) unbroken: bool,
}

impl End {
    /// Returns the record with its number and hash, if the hash is correct.
    pub(super) fn record(&self, seal: &Seal) -> Option<(Tip, Members)> {
        let hash = seal.check(self.prev.as_ref()?, &self.line)?;
        let record = parse(&self.line)?;
        Some((Tip { seq: number(&record, "seq")?, hash }, record))
    }
}

/// Finds the last record of a file. Returns `None` if there is none, or if more follows it than an
/// interrupted writer leaves.
pub(super) fn end(file: &mut File) -> io::Result<Option<End>> {
    let len = without_zeros(file, MAX_ZEROS)?;
    let skipped = len.saturating_sub(MAX_END as u64);
    let bytes = read_at(file, skipped, len - skipped)?;
    let mut before = None;
    let mut end = None;
    let mut at = 0;
    for text in bytes.split_inclusive(|b| *b == b'\n') {
        at += text.len();
        // The writer may have ended right before the last line break.
        let line = without_break(text);
        if let Some(hash) = claimed(line) {
            end = Some((line, before.replace(hash), at, line.len() == text.len()));
        }
    }
    let Some((line, before, last, unbroken)) = end else { return Ok(None) };
    if bytes.len() - last >= MAX_LINE {
        return Ok(None);
    }
    let prev = prev_of(line).or(before);
    Ok(Some(End { line: line.to_vec(), prev, at: skipped + last as u64, unbroken }))
}

/// Returns the hash of the previous record, which only `open` records contain.
fn prev_of(line: &[u8]) -> Option<Hex> {
    let record = parse(line)?;
    if text(&record, "kind") == "open" { Hex::parse(text(&record, "prev")) } else { None }
}

fn without_break(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// Returns the length of a file without trailing zeros. After a power loss, up to `most` zeros may
/// replace the last writes; more of them are left for the operator to examine.
pub(super) fn without_zeros(file: &mut File, most: u64) -> io::Result<u64> {
    let len = file.metadata()?.len();
    let least = len.saturating_sub(most + 1);
    let mut end = len;
    while end > least {
        let begin = end.saturating_sub(MAX_LINE as u64).max(least);
        let bytes = read_at(file, begin, end - begin)?;
        if let Some(last) = bytes.iter().rposition(|b| *b != 0) {
            return Ok(begin + last as u64 + 1);
        }
        end = begin;
    }
    Ok(if len > most { len } else { 0 })
}

/// Returns the first record of a file that has a valid hash. If the beginning was cut off, it is a
/// later record, because only `open` records contain the hash before them.
pub(super) fn beginning(file: &mut File, seal: &Seal) -> io::Result<Option<Beginning>> {
    let bytes = read_at(file, 0, MAX_END as u64)?;
    let mut before = None;
    for (at, text) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        let line = without_break(text);
        if let Some(prev) = prev_of(line).or(before)
            && seal.check(&prev, line).is_some()
        {
            return Ok(read_beginning(line, at == 0));
        }
        before = claimed(line);
    }
    Ok(None)
}

/// Parses a record; `is_first` if it is the file's first line.
fn read_beginning(line: &[u8], is_first: bool) -> Option<Beginning> {
    let record = parse(line)?;
    let opens = is_first && text(&record, "kind") == "open";
    let oldest = if opens { number(&record, "oldest") } else { None };
    Some(Beginning { seq: number(&record, "seq")?, opens, oldest })
}

pub(super) fn parse(line: &[u8]) -> Option<Members> {
    json::from_slice(line).ok()
}

pub(super) fn number(record: &Members, name: &str) -> Option<u64> {
    record.get(name)?.as_u64()
}

pub(super) fn text<'a>(record: &'a Members, name: &str) -> &'a str {
    record.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the range of records missing before or between the files, up to the beginning of the
/// current file, if present. Records removed by rotation are not missing: each file begins with a
/// record that names the oldest record kept.
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
                "the first record of a rotated audit file does not match its name; the file counts \
                    among those kept"
            );
        }
        said = begin.as_ref().and_then(|begin| begin.oldest).or(said);
        holes = union(holes, hole(begin.as_ref(), next, *name));
        let last = end(&mut file)?.and_then(|end| end.record(seal));
        next = Some(last.map_or(*name, |(tip, _)| tip.seq.saturating_add(1)));
    }
    if let Some(begin) = current {
        said = begin.as_ref().and_then(|begin| begin.oldest).or(said);
        holes = union(holes, hole(begin.as_ref(), next, tip));
    }
    let said = said.unwrap_or(1);
    let first = aside.first().copied().or_else(|| Some(current?.as_ref()?.seq));
    let before = first.and_then(|first| Some((said, first.checked_sub(1)?)));
    let holes = holes.map(|(from, to)| (from.max(said), to));
    Ok(union(holes.filter(is_range), before.filter(is_range)))
}

fn is_range((from, to): &Range) -> bool {
    from <= to
}

/// Returns the range missing before a file, where `next` is the expected first record.
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
