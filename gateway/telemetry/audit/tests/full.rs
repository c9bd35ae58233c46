//! Tests of `audit`: files that cannot grow, which has the effect of a full disk.

use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;

const CHILD: &str = "LOCKGATE_TEST_ALONE";

/// Returns whether this process runs the test alone, and otherwise starts such a process. The limit
/// applies to all files of a process, and without `trap` a signal would end the process first.
fn alone(test: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut child = Command::new("sh");
    child.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("audit::tests::full::{test}")]).env(CHILD, "1");
    let done = child.output().unwrap();
    let (out, error) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && out.contains("1 passed"), "{out}{error}");
    false
}

/// Limits the size of files.
fn room(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
}

#[test]
fn a_full_disk_denies_until_there_is_room() {
    if !alone("a_full_disk_denies_until_there_is_room") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let counters = Arc::<AuditCounters>::default();
    let trail =
        Trail::start(&config(&path), Arc::clone(&counters), Box::new(<[u8]>::to_vec)).unwrap();
    call(&trail, "before").unwrap();
    until("it is written", || counters.written.get() == 3);
    // A part of the next batch fits.
    let full = fs::metadata(&path).unwrap().len() + 100;
    room(Some(full));
    until("a call is refused", || call(&trail, "during").is_err());
    assert!(counters.failing.get() == 1);
    assert_eq!(call(&trail, "during"), Err(RecordError));
    assert_eq!(fs::metadata(&path).unwrap().len(), full);
    room(None);
    until("calls are made again", || call(&trail, "after").is_ok());
    trail.close();
    let report = verified(&path, None, &[]);
    assert!(report.intact && report.closed && report.lost > 0, "{report:?}");
    assert_eq!(report.lost, counters.dropped.get());
}

#[test]
fn a_full_disk_drops_and_counts_when_told_so() {
    if !alone("a_full_disk_drops_and_counts_when_told_so") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let counters = Arc::<AuditCounters>::default();
    let how = Config { on_full: OnFull::Drop, ..config(&path) };
    let trail = Trail::start(&how, Arc::clone(&counters), Box::new(<[u8]>::to_vec)).unwrap();
    until("it begins", || counters.written.get() > 0);
    room(Some(fs::metadata(&path).unwrap().len()));
    until("records are dropped", || {
        call(&trail, "during").unwrap();
        counters.dropped.get() > 10
    });
    assert!(counters.failing.get() == 1);
    room(None);
    until("it can be written", || counters.failing.get() == 0);
    call(&trail, "after").unwrap();
    trail.close();
    let report = verified(&path, None, &[]);
    assert!(report.intact && report.lost == counters.dropped.get(), "{report:?}");
    assert!(
        lines(&path).iter().any(|line| line["kind"] == "gap" && line["lost"].as_u64() > Some(0))
    );
}
