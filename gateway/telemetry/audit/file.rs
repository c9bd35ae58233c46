//! The trail's file: continues the chain that it finds, rotates by size and age, and keeps a
//! bounded number of rotated files. `PATH.head` holds the last anchor, and `PATH.lock` excludes a
//! second writer. A chain with an unverifiable end is not continued.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use lockgate_text::json;
use serde_json::{Value, json};

use super::chain::{Hex, MAX_LINE, Seal, Tip};
use super::config::Config;
use super::pieces::{
    End, MAX_ZEROS, Range, aside, beginning, beside, end, gone, numbered, open, read_at,
    read_beside, replace, text, without_zeros,
};
use super::verify::Anchor;

/// The beginning of every record.
pub(super) const BEGIN: &[u8] = b"{\"seq\":";
/// The text after a record's number.
const TIME: &[u8] = b",\"time\":\"";
/// The highest number of an anchor that all JSON readers represent exactly.
const MAX_SEQ: u64 = 1 << 53;
const LOCK_ATTEMPTS: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The findings at the end of an existing chain.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ChainEnd {
    /// The last writer did not record its end.
    pub(super) unclean: bool,
    /// Bytes of a removed incomplete record: the writer ended before it wrote the rest.
    pub(super) torn: u64,
    /// Records that the anchor covers but the file lacks: the file was truncated.
    pub(super) missing: Option<Range>,
    /// A range containing records that are no longer in the files, although rotation did not remove
    /// them.
    pub(super) gone: Option<Range>,
}

pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    len: u64,
    /// Number of the file's first record.
    first: u64,
    since: SystemTime,
    rotate_bytes: u64,
    rotate_age: Duration,
    keep: usize,
    /// First records of the rotated files, oldest first.
    aside: Vec<u64>,
    /// Rotated files to remove once the trail has recorded their removal.
    leaving: Vec<u64>,
    /// Syncs a file to disk. Replaced in tests to simulate failures.
    pub(super) to_disk: fn(&File) -> io::Result<()>,
    _lock: File,
}

#[allow(clippy::disallowed_methods, reason = "the trail's own files")]
impl LogFile {
    pub(super) fn open(
        path: &Path,
        config: &Config,
        seal: &Seal,
    ) -> io::Result<(Self, Tip, ChainEnd)> {
        let path = &real_path(path)?;
        let lock = open(&beside(path, "lock"), OpenOptions::new().write(true).create(true))?;
        take(&lock)?;
        let mut file = open(path, OpenOptions::new().read(true).append(true).create(true))?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let aside = aside(path)?;
        let mut found = ChainEnd::default();
        let mut tip = find_tip(&mut file, path, &aside, seal, &mut found)?;
        if let Some(head) = read_head(path)?
            && head.seq > tip.seq
        {
            found.missing = Some((tip.seq + 1, head.seq));
            tip = head;
        }
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        let meta = file.metadata()?;
        let begin = beginning(&mut file, seal)?;
        let current = if meta.len() > 0 { Some(&begin) } else { None };
        found.gone = gone(path, &aside, current, tip.seq, seal)?;
        let first = begin.map_or_else(|| tip.seq + 1, |begin| begin.seq);
        let file = Self {
            path: path.to_owned(),
            len: meta.len(),
            first,
            // As far as the file system provides it.
            since: meta.created().or(meta.modified()).unwrap_or_else(|_| SystemTime::now()),
            rotate_bytes: config.rotate_bytes,
            rotate_age: config.rotate_age,
            keep: config.keep,
            aside,
            leaving: Vec::new(),
            to_disk: File::sync_data,
            file,
            _lock: lock,
        };
        Ok((file, tip, found))
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.len += written as u64;
        Ok(written)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        (self.to_disk)(&self.file)
    }

    pub(super) fn is_due(&self) -> bool {
        let old = matches!(self.since.elapsed(), Ok(age) if age >= self.rotate_age);
        self.len > 0 && (self.len >= self.rotate_bytes || old)
    }

    pub(super) fn oldest(&self) -> u64 {
        self.aside.first().copied().unwrap_or(self.first)
    }

    /// Rotates the file. Every step can be repeated after a later step has failed.
    pub(super) fn rotate(&mut self, tip: &Tip) -> io::Result<()> {
        self.sync()?;
        if self.aside.last() != Some(&self.first) {
            fs::rename(&self.path, numbered(&self.path, self.first))?;
            self.aside.push(self.first);
        }
        self.next_file(tip)
    }

    fn next_file(&mut self, tip: &Tip) -> io::Result<()> {
        if is_link(&self.path) {
            return Err(io::Error::other("it was replaced by a link"));
        }
        self.file = open(&self.path, OpenOptions::new().read(true).append(true).create(true))?;
        self.file.set_permissions(fs::Permissions::from_mode(0o600))?;
        (self.len, self.first, self.since) = (0, tip.seq + 1, SystemTime::now());
        let many = self.aside.len().saturating_sub(self.keep);
        self.leaving.extend(self.aside.drain(..many));
        Ok(())
    }

    /// Returns how the file was tampered with since it was opened, if it is no longer at its path
    /// or shorter than written.
    pub(super) fn harm(&self) -> Option<&'static str> {
        let own = self.file.metadata().ok()?;
        match fs::metadata(&self.path) {
            // Renamed by an unfinished rotation.
            _ if self.aside.last() == Some(&self.first) => None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some("removed"),
            Ok(there) if (there.dev(), there.ino()) != (own.dev(), own.ino()) => Some("replaced"),
            _ if own.len() < self.len => Some("truncated"),
            _ => None,
        }
    }

    /// Continues in a new file after tampering. Returns a range of records of which some are in no
    /// file. A file left at the path becomes a rotated file, so that verification finds it.
    pub(super) fn renew(&mut self, tip: &Tip, seal: &Seal) -> io::Result<Option<Range>> {
        let from = self.first;
        let mut to = tip.seq;
        match fs::metadata(&self.path) {
            Ok(left) if !left.is_file() => {
                return Err(io::Error::other("it is not a regular file"));
            }
            Ok(left) if left.len() > 0 => {
                let mut left = open(&self.path, OpenOptions::new().read(true).append(true))?;
                let mut name = from;
                if let Some(begin) = beginning(&mut left, seal)?
                    && (from + 1..=tip.seq).contains(&begin.seq)
                {
                    name = begin.seq;
                    to = name - 1;
                }
                fs::rename(&self.path, numbered(&self.path, name))?;
                self.aside.push(name);
            }
            _ => {}
        }
        self.next_file(tip)?;
        Ok(if from <= to { Some((from, to)) } else { None })
    }

    /// Removes the oldest files. The record of their removal must already be on disk, so that files
    /// missing for another reason are detected.
    pub(super) fn sweep(&mut self) {
        for first in self.leaving.drain(..) {
            match fs::remove_file(numbered(&self.path, first)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, "an old audit file cannot be removed");
                }
                _ => {}
            }
        }
    }

    pub(super) fn note_head(&self, tip: &Tip) -> io::Result<()> {
        replace(&self.path, "head", &json!({"seq": tip.seq, "hash": tip.hash.as_str()}))
    }
}

/// Resolves a link to the file, because companion and rotated files belong beside its target.
pub(super) fn real_path(path: &Path) -> io::Result<PathBuf> {
    if !is_link(path) {
        return Ok(path.to_owned());
    }
    fs::canonicalize(path).map_err(|error| {
        let words = format!("it is a link to a missing file: create that file ({error})");
        io::Error::other(words)
    })
}

#[allow(clippy::disallowed_methods, reason = "the trail's own file")]
fn is_link(path: &Path) -> bool {
    matches!(fs::symlink_metadata(path), Ok(there) if there.is_symlink())
}

/// Finds the end of the chain, in the file or in the last rotated file. Removes an incomplete
/// record.
fn find_tip(
    file: &mut File,
    path: &Path,
    aside: &[u64],
    seal: &Seal,
    found: &mut ChainEnd,
) -> io::Result<Tip> {
    if let Some(end) = end(file)? {
        let tip = read_tip(&end, seal, found)?;
        found.torn = cut(file, end.at)?;
        if end.unbroken {
            file.write_all(b"\n")?;
        }
        return Ok(tip);
    }
    found.torn = cut_first(file)?;
    let Some(first) = aside.last() else { return Ok(Tip::default()) };
    let mut before = open(&numbered(path, *first), OpenOptions::new().read(true))?;
    let end = end(&mut before)?.ok_or_else(|| io::Error::other(UNVERIFIED))?;
    read_tip(&end, seal, found)
}

/// Takes the lock. Retries briefly, because an exiting process or a child that is starting may hold
/// it.
fn take(lock: &File) -> io::Result<()> {
    for _ in 0..LOCK_ATTEMPTS {
        if lock.try_lock().is_ok() {
            return Ok(());
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    Err(io::Error::other(
        "another process is writing to it: stop that process, or set another `audit.file`",
    ))
}

/// Truncates the file at an offset, and returns the number of removed bytes.
fn cut(file: &File, at: u64) -> io::Result<u64> {
    let torn = file.metadata()?.len() - at;
    if torn > 0 {
        file.set_len(at)?;
    }
    Ok(torn)
}

/// Empties a file without a record, if it can only hold an incomplete first record.
fn cut_first(file: &mut File) -> io::Result<u64> {
    let len = without_zeros(file, MAX_ZEROS)?;
    let most = MAX_LINE as u64;
    let bytes = read_at(file, 0, len.min(most))?;
    if len < most && is_half_a_record(&bytes) {
        return cut(file, 0);
    }
    Err(io::Error::other(if bytes.starts_with(BEGIN) {
        "the bytes after its last record are not from the writer: run `lockgate audit verify` and \
            move the file away"
    } else {
        "it is not an audit trail: move it away, or configure another file"
    }))
}

/// Returns whether the bytes may be an incomplete first record.
fn is_half_a_record(bytes: &[u8]) -> bool {
    let whole = bytes.contains(&b'\n') || json::from_slice::<Value>(bytes).is_ok();
    if whole || !begin_alike(bytes, BEGIN) {
        return false;
    }
    let number = bytes.strip_prefix(BEGIN).unwrap_or(&[]);
    let end = number.iter().position(|b| !b.is_ascii_digit());
    end.is_none_or(|end| begin_alike(&number[end..], TIME))
}

fn begin_alike(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

const UNVERIFIED: &str = "its last records do not verify: they were changed, or written with \
    another key (`audit.key`); run `lockgate audit verify` and move the files away";

fn read_tip(end: &End, seal: &Seal, found: &mut ChainEnd) -> io::Result<Tip> {
    let (tip, record) = end.record(seal).ok_or_else(|| io::Error::other(UNVERIFIED))?;
    found.unclean = !matches!(text(&record, "kind"), "close" | "rotate");
    Ok(tip)
}

/// Reads the last anchor, if present. Its values are written to the trail, so only a number and a
/// hash are accepted.
fn read_head(path: &Path) -> io::Result<Option<Tip>> {
    let Some(bytes) = read_beside(path, "head")? else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes);
    if let Ok(Anchor { seq, hash }) = text.parse()
        && let Some(hash) = Hex::parse(&hash)
        && seq <= MAX_SEQ
    {
        return Ok(Some(Tip { seq, hash }));
    }
    Err(io::Error::other(
        "the last anchor, in the `.head` file beside it, is not valid: the file was changed; run \
            `lockgate audit verify`, then move it away",
    ))
}
