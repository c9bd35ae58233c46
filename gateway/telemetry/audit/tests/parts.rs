//! Tests of `audit`: the files of a trail as `verify` opens them.

use std::cell::Cell;
use std::io::{self, Cursor, Read};
use std::rc::Rc;

use super::records::chain;
use super::*;

/// A text that counts open instances, and their maximum.
struct Counted(Cursor<String>, Rc<Cell<(usize, usize)>>);

impl Counted {
    fn open(text: &str, count: &Rc<Cell<(usize, usize)>>) -> Text<'static> {
        let (now, most) = count.get();
        count.set((now + 1, most.max(now + 1)));
        Box::new(BufReader::new(Self(Cursor::new(text.to_owned()), Rc::clone(count))))
    }
}

impl Read for Counted {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let (now, most) = self.1.get();
        self.1.set((now - 1, most));
    }
}

/// The number of open files is limited, unlike the files of a trail.
#[test]
fn few_files_are_open_at_once() {
    let lines = chain(None, 2000);
    let count = Rc::default();
    let part = |line: &String| {
        let (text, count) = (line.clone(), Rc::clone(&count));
        Part {
            name: "a".into(),
            open: Box::new(move || Ok(Counted::open(&text, &count))),
            once: false,
        }
    };
    // In any order.
    let report = verify(lines.iter().rev().map(part).collect(), None, &[], Extent::Whole).unwrap();
    assert!(report.intact && report.files == 2001 && report.records == 2001, "{report:?}");
    assert_eq!(count.get(), (0, 2));
}

/// A running gateway may rotate the file while the others are read, so that its name belongs to
/// another file. This is no gap in the trail.
#[test]
fn a_file_that_is_set_aside_meanwhile_is_read_or_asked_for_again() {
    let lines = chain(None, 9);
    let text =
        |from: usize, to: usize| Ok(Box::new(Cursor::new(lines[from..to].concat())) as Text<'_>);
    // Already opened for the second time, the old file is read.
    let old = Cell::new(0);
    let one = || {
        old.set(old.get() + 1);
        text(0, 5)
    };
    let other = || if old.get() < 2 { text(5, 10) } else { text(9, 10) };
    let part = |name: &str, open| Part { name: name.into(), open, once: false };
    let parts =
        vec![part("old", Box::new(one) as Box<dyn Fn() -> _>), part("new", Box::new(other))];
    let report = verify(parts, None, &[], Extent::Whole).unwrap();
    assert!(report.intact && report.records == 10, "{report:?}");
    // Here the file is rotated before it is opened again.
    let times = Cell::new(0);
    let other = || if times.replace(1) == 0 { text(5, 10) } else { text(9, 10) };
    let parts = vec![
        part("old", Box::new(|| text(0, 5)) as Box<dyn Fn() -> _>),
        part("new", Box::new(other)),
    ];
    let error = verify(parts, None, &[], Extent::Whole).unwrap_err().to_string();
    assert!(error.starts_with("new: another file has replaced it"), "{error}");
}

/// A pipe can be read only once.
#[test]
fn a_pipe_is_opened_once() {
    let lines = chain(None, 9);
    let part = |lines: &[String]| {
        let text = Cell::new(Some(lines.concat()));
        let open = move || Ok(Box::new(Cursor::new(text.take().unwrap())) as Text<'static>);
        Part { name: "a".into(), open: Box::new(open), once: true }
    };
    let report =
        verify(vec![part(&lines[4..]), part(&lines[..4])], None, &[], Extent::Whole).unwrap();
    assert!(report.intact && report.records == 10, "{report:?}");
}

/// An error names the file.
#[test]
fn a_file_that_cannot_be_read_is_named() {
    let open = || Err(io::Error::from(io::ErrorKind::NotFound));
    let part = Part { name: "audit.jsonl".into(), open: Box::new(open), once: false };
    let error = verify(vec![part], None, &[], Extent::Whole).unwrap_err();
    assert!(
        error.kind() == io::ErrorKind::NotFound && error.to_string().starts_with("audit.jsonl: "),
        "{error}"
    );
}
