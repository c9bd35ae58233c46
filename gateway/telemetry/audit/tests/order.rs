//! Tests of `audit`: what the writer brings to the disk before what, and in which pieces it writes.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::super::chain::Seal;
use super::super::queue::Queue;
use super::super::sink::Sink;
use super::super::trail::Shared;
use super::super::writer::Writer;
use super::*;
use crate::config::Format;
use crate::log::tests::logged;

/// Writes all that is in a queue, on this thread.
fn run(how: &Config, queue: Queue, change: impl FnOnce(&mut Sink)) {
    queue.close();
    let (mut sink, tip, found) = Sink::open(how, &Seal::new(None)).unwrap();
    change(&mut sink);
    let shared = Shared { counters: Arc::default(), queue, gap: AtomicU64::new(0), hurry: AtomicBool::new(false) };
    Writer::new(how, shared.into(), sink, (Seal::new(None), tip), Box::new(<[u8]>::to_vec)).run(&found);
}

/// A disk of this kind.
fn on(sink: &mut Sink, to_disk: fn(&File) -> io::Result<()>) {
    let Sink::File(file) = sink else { unreachable!() };
    file.to_disk = to_disk;
}

fn fails(_: &File) -> io::Result<()> {
    Err(io::Error::other("the disk is broken"))
}

/// A mark, in the log or beside the file, knows nothing that the disk may not have.
#[test]
fn an_anchor_comes_after_what_it_is_of() {
    for broken in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let how = Config { anchor: Duration::ZERO, ..config(&path) };
        let to_disk = if broken { fails } else { File::sync_data };
        let log = logged(Format::Text, "info", || run(&how, Queue::new(16), |sink| on(sink, to_disk)));
        assert_eq!(log.contains("may not be on the disk"), broken, "{log}");
        assert_eq!(log.contains("audit anchor"), !broken, "{log}");
        assert_eq!(path.with_extension("jsonl.head").exists(), !broken);
        let report = verified(&path, None, &[]);
        assert!(report.intact && report.records == 3, "{report:?}");
    }
}

thread_local! {
    /// How often a disk fails that has a file which rotation began.
    static FAILURES: Cell<u32> = const { Cell::new(0) };
}

fn fails_after_rotation(file: &File) -> io::Result<()> {
    let mut text = vec![0; 4096];
    let read = file.read_at(&mut text, 0)?;
    let left = FAILURES.get();
    if left == 0 || !String::from_utf8_lossy(&text[..read]).contains(r#""why":"rotated""#) {
        return file.sync_data();
    }
    FAILURES.set(left - 1);
    fails(file)
}

/// If the new file is lost with the power, the old one must still be there.
#[test]
fn an_old_file_stays_until_the_new_one_is_on_the_disk() {
    // Always; once; never.
    for (failures, aside, known) in [(u32::MAX, 1, 2), (1, 0, 4), (0, 0, 4)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let how = Config { rotate_bytes: 1, keep: 0, ..config(&path) };
        FAILURES.set(failures);
        run(&how, Queue::new(16), |sink| on(sink, fails_after_rotation));
        assert_eq!(files(&path).len(), 1 + aside, "{failures}");
        assert_eq!(head(&path).seq, known, "{failures}");
        assert!(verified(&path, None, &[head(&path)]).intact, "{failures}");
        // It goes in the end.
        run(&how, Queue::new(16), |_| {});
        assert_eq!(files(&path).len(), 1, "{failures}");
    }
}
