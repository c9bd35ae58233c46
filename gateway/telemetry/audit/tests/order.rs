//! Tests of `audit`: the order of the writer's syncs, and the boundaries of its writes.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::super::chain::{Seal, claimed};
use super::super::queue::{Draft, Queue, Shared};
use super::super::writer::Writer;
use super::*;
use crate::Format;
use crate::audit::writer::Sink;
use crate::log::tests::logged;

/// Writes the contents of a queue on this thread.
fn run(how: &Config, queue: Queue, change: impl FnOnce(&mut Sink)) {
    queue.close();
    let (mut sink, tip, found) = Sink::open(how, &Seal::new(None)).unwrap();
    change(&mut sink);
    let shared = Shared {
        counters: Arc::default(),
        queue,
        gap: AtomicU64::new(0),
        hurry: AtomicBool::new(false),
    };
    Writer::new(how, shared.into(), sink, (Seal::new(None), tip), Box::new(<[u8]>::to_vec))
        .run(&found);
}

/// Replaces the sync function of a file.
fn on(sink: &mut Sink, to_disk: fn(&File) -> io::Result<()>) {
    let Sink::File(file) = sink else { unreachable!() };
    file.to_disk = to_disk;
}

fn fails(_: &File) -> io::Result<()> {
    Err(io::Error::other("the disk is broken"))
}

/// An anchor, in the log or beside the file, covers only synced records.
#[test]
fn an_anchor_comes_after_what_it_is_of() {
    for broken in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let how = Config { anchor: Duration::ZERO, ..config(&path) };
        let to_disk = if broken { fails } else { File::sync_data };
        let log =
            logged(Format::Text, "info", || run(&how, Queue::new(16), |sink| on(sink, to_disk)));
        assert_eq!(log.contains("cannot be synced to disk"), broken, "{log}");
        assert_eq!(log.contains("audit anchor"), !broken, "{log}");
        assert_eq!(path.with_extension("jsonl.head").exists(), !broken);
        let report = verified(&path, None, &[]);
        assert!(report.intact && report.records == 3, "{report:?}");
    }
}

thread_local! {
    /// Remaining sync failures of files that rotation began.
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

/// If a power loss destroys the new file, the old file must still exist.
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
        // The old file is removed in the end.
        run(&how, Queue::new(16), |_| {});
        assert_eq!(files(&path).len(), 1, "{failures}");
    }
}

/// Maximum size of an atomic pipe write, according to POSIX.
const PIPE_BUF: usize = 4096;

/// A pipe accepts each write as a whole or not at all, so a killed process leaves whole lines.
#[test]
fn a_stream_is_written_in_pieces_of_whole_records() {
    let (from, to) = UnixDatagram::pair().unwrap();
    from.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let queue = Queue::new(1000);
    let members = format!(r#","kind":"decision","name":"{}""#, "n".repeat(400));
    let draft = Draft { at: std::time::SystemTime::now(), members: members.as_bytes(), held: None };
    (0..200).for_each(|_| assert!(queue.offer(1, 0, draft)));
    let how = Config { output: Output::Stderr, ..config(Path::new("")) };
    let writer = std::thread::spawn(move || {
        run(&how, queue, |sink| *sink = Sink::Stream(OwnedFd::from(to).into()))
    });
    let (mut pieces, mut bytes) = (Vec::<String>::new(), vec![0; 1 << 20]);
    while !pieces.last().is_some_and(|piece| piece.contains(r#""kind":"close""#)) {
        let read = from.recv(&mut bytes).unwrap();
        assert!(read <= PIPE_BUF, "a piece of {read} bytes");
        let piece = String::from_utf8(bytes[..read].to_vec()).unwrap();
        assert!(claimed(piece.strip_suffix('\n').unwrap().as_bytes()).is_some(), "{piece}");
        pieces.push(piece);
        // Killed here.
        let text = pieces.concat();
        let open = move || Ok(Box::new(io::Cursor::new(text.clone())) as Text<'static>);
        let part = Part { name: "a".into(), open: Box::new(open), once: false };
        assert!(verify(vec![part], None, &[], Extent::Whole).unwrap().intact);
    }
    writer.join().unwrap();
    let text = pieces.concat();
    assert!(text.lines().count() == 202 && pieces.len() > 20, "{} pieces", pieces.len());
}
