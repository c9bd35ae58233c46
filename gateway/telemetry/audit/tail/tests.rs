//! A trail that is read while it grows, rotates, loses its oldest files and is truncated. The content of
//! cursor files, and the position at which sending continues.

#![allow(clippy::disallowed_methods)]

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;

use super::super::chain::{Chain, Seal, Tip};
use super::*;

/// A trail without a writer thread.
struct Written {
    folder: tempfile::TempDir,
    chain: Chain,
    first: u64,
}

impl Written {
    fn new() -> Self {
        let chain = Chain::new(Seal::new(None), Tip::default(), 0);
        Self { folder: tempfile::tempdir().unwrap(), chain, first: 1 }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("audit.jsonl")
    }

    fn append(&self, bytes: &[u8]) {
        let mut file = OpenOptions::new().append(true).create(true).open(self.path()).unwrap();
        file.write_all(bytes).unwrap();
    }

    /// Writes records of this size.
    fn write(&mut self, count: usize, bytes: usize) {
        for _ in 0..count {
            self.chain.add(|out, _| {
                out.extend_from_slice(b",\"time\":\"");
                out.resize(out.len() + bytes, b'x');
                out.push(b'"');
            });
        }
        self.append(&self.chain.bytes);
        self.chain.bytes.clear();
    }

    fn rotate(&mut self) {
        fs::rename(self.path(), numbered(&self.path(), self.first)).unwrap();
        fs::write(self.path(), "").unwrap();
        self.first = self.chain.tip.seq + 1;
    }

    fn tail(&self, after: u64) -> Tail {
        Tail::new(&self.path(), after).unwrap()
    }
}

/// Reads all present records. Returns the numbers of the first and last record, their count, and
/// the count of lost records.
fn read_all(tail: &mut Tail) -> (u64, u64, u64, u64) {
    let mut all = (0, 0, 0, 0);
    while let Some(records) = tail.read().unwrap() {
        let lines = String::from_utf8(records.lines).unwrap();
        let numbers: Vec<u64> =
            lines.split_inclusive('\n').map(|line| number_of(line.as_bytes()).unwrap()).collect();
        assert_eq!(numbers.first(), Some(&records.first));
        assert_eq!(numbers.last(), Some(&records.last));
        assert_eq!(numbers.len() as u64, records.count);
        assert!(numbers.is_sorted());
        all.0 = if all.2 == 0 { records.first } else { all.0 };
        all.1 = records.last;
        all.2 += records.count;
        all.3 += records.lost;
    }
    all
}

#[test]
fn records_come_once_while_files_are_set_aside() {
    let mut trail = Written::new();
    let mut tail = trail.tail(0);
    assert_eq!(tail.read().unwrap(), None, "there is no file yet");
    trail.write(10, 100);
    assert_eq!(read_all(&mut tail), (1, 10, 10, 0));
    assert_eq!(tail.read().unwrap(), None);
    trail.write(5, 100);
    trail.rotate();
    assert_eq!(read_all(&mut tail), (11, 15, 5, 0));
    trail.write(3, 100);
    assert_eq!(read_all(&mut tail), (16, 18, 3, 0));
    // Two files later.
    trail.rotate();
    trail.write(2, 100);
    trail.rotate();
    trail.write(2, 100);
    assert_eq!(read_all(&mut tail), (19, 22, 4, 0));
}

#[test]
fn reading_begins_behind_any_record() {
    let mut trail = Written::new();
    // More than a single read, and more than a single probe.
    for _ in 0..3 {
        trail.write(1500, 700);
        trail.rotate();
    }
    trail.write(1500, 700);
    let last = trail.chain.tip.seq;
    for after in [0, 1, 2, 749, 1499, 1500, 1501, 2999, 3700, 4500, last - 1] {
        let wanted = (after + 1, last, last - after, 0);
        assert_eq!(read_all(&mut trail.tail(after)), wanted, "{after}");
    }
    assert_eq!(read_all(&mut trail.tail(last)), (0, 0, 0, 0));
    assert_eq!(read_all(&mut trail.tail(last + 100)), (0, 0, 0, 0));
}

#[test]
fn what_rotation_removed_is_counted() {
    let mut trail = Written::new();
    let mut behind = trail.tail(0);
    trail.write(10, 100);
    // The reader has read part of the first file, and keeps it open.
    assert_eq!(read_all(&mut behind), (1, 10, 10, 0));
    trail.write(1, 100);
    trail.rotate();
    trail.write(10, 100);
    trail.rotate();
    trail.write(10, 100);
    for first in [1, 12] {
        fs::remove_file(numbered(&trail.path(), first)).unwrap();
    }
    assert_eq!(read_all(&mut behind), (11, 31, 11, 10));
    assert_eq!(read_all(&mut trail.tail(5)), (22, 31, 10, 16));
}

#[test]
fn an_incomplete_line_waits_for_its_rest() {
    let mut trail = Written::new();
    trail.write(2, 100);
    let mut tail = trail.tail(0);
    trail.append(b"{\"seq\":3,\"ti");
    assert_eq!(read_all(&mut tail), (1, 2, 2, 0));
    // The next start removes the line, and writes others in its place.
    let whole = fs::read(trail.path()).unwrap();
    let end = whole.iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    fs::write(trail.path(), &whole[..end]).unwrap();
    trail.write(2, 100);
    assert_eq!(read_all(&mut trail.tail(2)), (3, 4, 2, 0));
}

#[test]
fn garbage_is_skipped_and_ends() {
    let mut trail = Written::new();
    trail.write(2, 100);
    trail.append(b"not a record\n");
    trail.append(&vec![b'y'; 3 * BLOCK_BYTES]);
    trail.append(b"\n");
    trail.write(2, 100);
    trail.rotate();
    fs::write(numbered(&trail.path(), 4), "nothing but garbage\n").unwrap();
    trail.write(2, 100);
    assert_eq!(read_all(&mut trail.tail(0)), (1, 6, 6, 0));
}

#[test]
fn the_file_may_be_a_link() {
    let mut trail = Written::new();
    trail.write(2, 100);
    let link = trail.folder.path().join("link");
    std::os::unix::fs::symlink(trail.path(), &link).unwrap();
    trail.rotate();
    trail.write(2, 100);
    assert_eq!(read_all(&mut Tail::new(&link, 1).unwrap()), (2, 4, 3, 0));
}

#[test]
fn a_cursor_says_what_was_written_and_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("audit.jsonl");
    let cursor = Cursor::new(&trail, "syslog").unwrap();
    assert_eq!(cursor.read().unwrap(), Saved::Nothing);
    for last in [7, 5_000_000_000] {
        cursor.write(last).unwrap();
        assert_eq!(cursor.read().unwrap(), Saved::Taken(last));
    }
    let file = folder.path().join("audit.jsonl.syslog.cursor");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(Cursor::new(&trail, "webhook").unwrap().read().unwrap(), Saved::Nothing);
    for garbage in ["", "{", "7", r#"{"seq":-1}"#] {
        std::fs::write(&file, garbage).unwrap();
        assert_eq!(cursor.read().unwrap(), Saved::Unreadable, "{garbage}");
    }
}

#[test]
fn sending_goes_on_where_it_was_and_begins_with_what_is_new() {
    assert_eq!(Saved::Nothing.after(100), 100);
    assert_eq!(Saved::Taken(40).after(100), 40);
    // Another trail is in its place, and needs a start.
    assert_eq!(Saved::Taken(400).after(100), 100);
    assert_eq!(Saved::Unreadable.after(100), 0);
}
