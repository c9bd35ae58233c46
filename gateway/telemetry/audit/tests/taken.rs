//! Tests of `audit`: truncated beginnings, and files removed or truncated while the writer runs.

use super::*;
use crate::Format;
use crate::log::tests::logged;

/// Starts and closes the trail without a rotation.
fn quiet(how: &Config) {
    start(&Config { rotate_bytes: 1 << 30, ..how.clone() }).close();
}

/// Removes lines from the beginning of a file and returns them.
fn cut(path: &Path, lines: usize) -> String {
    let text = fs::read_to_string(path).unwrap();
    let at = text.match_indices('\n').nth(lines - 1).unwrap().0 + 1;
    fs::write(path, &text[at..]).unwrap();
    text[..at].to_owned()
}

/// Returns the records of a file; invalid lines are null.
fn records(path: &Path) -> Vec<Value> {
    fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_default())
        .collect()
}

fn last_open(path: &Path) -> Value {
    records(path).into_iter().rfind(|line| line["kind"] == "open").unwrap()
}

fn gone(record: &Value) -> (Option<u64>, Option<u64>) {
    (record["gone_from"].as_u64(), record["gone_to"].as_u64())
}

#[track_caller]
fn broken(path: &Path, key: Option<&str>, words: &str) {
    let report = verified(path, key, &[]);
    let broken = report.broken.unwrap_or_else(|| panic!("{words}: not found"));
    assert!(!report.intact && broken.why.contains(words), "{words}: {broken:?}");
}

/// The remaining file begins in the middle, which no writer produces.
#[test]
fn a_beginning_that_was_cut_is_missed_now_and_after_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let how = Config { key: Some(KEY.into()), ..config(&path) };
    write(&how, 7);
    let text = fs::read_to_string(&path).unwrap();
    cut(&path, 15);
    broken(&path, Some(KEY), "records up to 15 are missing at the beginning");
    fs::write(&path, &text).unwrap();
    let evil = cut(&path, 3);
    broken(&path, Some(KEY), "records up to 3 are missing at the beginning");
    let part = verify(parts(&files(&path)), Some(KEY), &[], Extent::Part).unwrap();
    assert!(part.intact, "{part:?}");
    write(&how, 1);
    // Record 4 cannot be verified without the hash of record 3.
    assert_eq!(gone(&last_open(&path)), (Some(1), Some(4)));
    broken(&path, Some(KEY), "records up to 3 are missing at the beginning");
    // Keeping only the records after the restart does not hide the gap.
    let all = fs::read_to_string(&path).unwrap();
    cut(&path, 13);
    assert_eq!(lines(&path)[0]["kind"], "open");
    broken(&path, Some(KEY), "records 1 to 16 are missing at the beginning");
    // Restoring the removed records repairs the trail.
    fs::write(&path, evil + &all).unwrap();
    assert!(verified(&path, Some(KEY), &[]).intact);
}

/// A line that is no record of this chain is no evidence of its beginning.
#[test]
fn a_forged_beginning_is_believed_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let how = Config { key: Some(KEY.into()), ..config(&path) };
    write(&how, 7);
    cut(&path, 4);
    for forged in [r#"{"seq":17,"kind":"open","oldest":17}"#, "x"] {
        let rest = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{forged}\n{rest}")).unwrap();
        write(&how, 1);
        assert!(gone(&last_open(&path)).0 == Some(1), "{forged}: {}", last_open(&path));
        broken(&path, Some(KEY), "");
        let open = records(&path).iter().rposition(|line| line["kind"] == "open").unwrap();
        cut(&path, open);
        broken(&path, Some(KEY), "records 1 to ");
    }
}

/// Rotated files are removed together with the record that lists them.
#[test]
fn a_cut_is_missed_where_files_were_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let how = Config { rotate_bytes: 3500, keep: 100, ..config(&path) };
    write(&how, 20);
    let with_head = || [files(&path), vec![folder.path().join("audit.jsonl.head")]].concat();
    let copy = || {
        with_head()
            .into_iter()
            .map(|file| (file.clone(), fs::read(file).unwrap()))
            .collect::<Vec<_>>()
    };
    let before = copy();
    let first = lines(&path)[0]["seq"].as_u64().unwrap();

    // All rotated files, and the first record of the current file.
    files(&path)[1..].iter().for_each(|file| fs::remove_file(file).unwrap());
    cut(&path, 1);
    broken(&path, None, &format!("records up to {first} are missing at the beginning"));
    quiet(&how);
    assert_eq!(gone(&last_open(&path)), (Some(1), Some(first + 1)));
    broken(&path, None, "records up to ");

    before.iter().for_each(|(file, bytes)| fs::write(file, bytes).unwrap());
    quiet(&how);
    let all = files(&path);
    let names = copy();
    let restore = || names.iter().for_each(|(file, bytes)| fs::write(file, bytes).unwrap());
    let current = lines(&path);
    let restart = current.iter().rposition(|line| line["kind"] == "open").unwrap();
    assert!(all.len() >= 3 && restart > 0, "{all:?} {restart}");

    // The current file up to a restart, which looks like the beginning of a file. Once the other
    // files are rotated away, only the finding at the writer's start shows the gap.
    cut(&path, restart);
    let hole = current[restart]["seq"].as_u64().unwrap() - 1;
    quiet(&how);
    assert_eq!(gone(&last_open(&path)), (Some(first), Some(hole)));
    let number = |file: &Path| file.extension().unwrap().to_str().unwrap().parse::<u64>().unwrap();
    let how = Config { keep: 2, ..how };
    until("the files before it are rotated away", || {
        write(&how, 1);
        files(&path).get(1).is_some_and(|oldest| number(oldest) > hole)
    });
    assert_eq!(number(&files(&path)[1]), hole + 1);
    broken(&path, None, &format!("records {first} to {hole} are missing at the beginning"));

    // A rotated file, renamed to match its truncated content.
    for file in files(&path) {
        fs::remove_file(file).unwrap();
    }
    restore();
    let last = lines(&all[all.len() - 1])[0]["seq"].as_u64().unwrap();
    let next = last + 2;
    cut(&all[all.len() - 1], 2);
    fs::rename(&all[all.len() - 1], folder.path().join(format!("audit.jsonl.{next:016}"))).unwrap();
    quiet(&how);
    assert_eq!(gone(&last_open(&path)), (Some(last), Some(next)));
}

/// Rotation would count a foreign file, and remove others early.
#[test]
fn a_file_that_somebody_put_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let how = Config { rotate_bytes: 2000, keep: 100, ..config(&path) };
    write(&how, 12);
    quiet(&how);
    assert_eq!(gone(&last_open(&path)), (None, None));
    let all = files(&path);
    for bytes in [fs::read(&all[1]).unwrap(), b"x\n".to_vec()] {
        let forged = all[2]
            .with_extension(format!("{:016}", lines(&all[2])[0]["seq"].as_u64().unwrap() + 1));
        fs::write(&forged, bytes).unwrap();
        quiet(&how);
        assert!(gone(&last_open(&path)).0 > Some(1), "{}", last_open(&path));
        fs::remove_file(&forged).unwrap();
    }
    // A folder, which is not part of the trail.
    fs::create_dir(path.with_extension("jsonl.0000000000000002")).unwrap();
    quiet(&how);
    assert_eq!(gone(&last_open(&path)), (None, None));
}

/// A file named before the oldest file is no gap, but it counts among the kept files and is removed
/// first.
#[test]
fn a_file_that_is_not_what_its_name_says_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let how = Config { rotate_bytes: 1500, keep: 2, ..config(&path) };
    write(&how, 16);
    let warned =
        || logged(Format::Text, "warn", || quiet(&how)).contains("does not match its name");
    let (all, early) = (files(&path), path.with_extension("jsonl.0000000000000002"));
    assert!(lines(&all[1])[0]["seq"].as_u64() > Some(2) && !warned());
    // A foreign file, a copy of a later file, and the oldest file itself.
    fs::write(&early, "x\n").unwrap();
    assert!(warned());
    assert_eq!(gone(&last_open(&path)), (None, None));
    fs::copy(&all[2], &early).unwrap();
    assert!(warned());
    fs::rename(&all[1], &early).unwrap();
    assert!(warned());
    fs::rename(&early, &all[1]).unwrap();
    assert!(!warned());
}

/// Tampering with the file while the writer has it open.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Harm {
    Removed,
    Renamed,
    /// As `logrotate` with `create`.
    Replaced,
    /// As `logrotate` with `copytruncate`.
    Truncated,
    CutShort,
}

/// The trail continues in a new file that records the missing range, even shortly before a
/// rotation.
#[test]
fn a_file_that_goes_while_it_is_written_is_noticed() {
    for harm in [Harm::Removed, Harm::Renamed, Harm::Replaced, Harm::Truncated, Harm::CutShort] {
        let folder = tempfile::tempdir().unwrap();
        let (path, away) = (folder.path().join("audit.jsonl"), folder.path().join("away"));
        let how = Config { rotate_bytes: 3000, ..config(&path) };
        let counters = Arc::<AuditCounters>::default();
        let trail = Trail::start(&how, Arc::clone(&counters), Box::new(<[u8]>::to_vec)).unwrap();
        call(&trail, "before").unwrap();
        until("it is written", || counters.written.get() == 3);
        match harm {
            Harm::Removed => fs::remove_file(&path).unwrap(),
            Harm::Renamed | Harm::Replaced => fs::rename(&path, &away).unwrap(),
            Harm::Truncated => drop(fs::copy(&path, &away).unwrap()),
            Harm::CutShort => {}
        }
        match harm {
            Harm::Replaced => fs::write(&path, "").unwrap(),
            Harm::Truncated => drop(fs::File::create(&path).unwrap()),
            Harm::CutShort => {
                fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(700).unwrap()
            }
            _ => {}
        }
        let began = Instant::now();
        let noticed =
            || path.exists() && fs::read_to_string(&path).unwrap().contains(r#""gone_from":1,"#);
        until(&format!("{harm:?} is noticed"), noticed);
        assert!(began.elapsed() < Duration::from_secs(4), "{harm:?}");
        let open = lines(&path).remove(0);
        let why = match harm {
            Harm::Removed | Harm::Renamed => "removed",
            Harm::Replaced => "replaced",
            Harm::Truncated | Harm::CutShort => "truncated",
        };
        assert_eq!((&open["kind"], &open["why"]), (&"open".into(), &why.into()), "{harm:?}");
        assert_eq!(gone(&open), (Some(1), Some(3)), "{harm:?}");
        assert!(counters.failing.get() == 0);
        broken(
            &path,
            None,
            if harm == Harm::CutShort { "cut off" } else { "records 1 to 3 are missing" },
        );
        // Rotation still works, and the chain continues.
        for _ in 0..12 {
            call(&trail, "after").unwrap();
            std::thread::sleep(Duration::from_millis(12));
        }
        trail.close();
        let mut all = files(&path);
        assert!(all.len() > 1 && counters.failing.get() == 0, "{harm:?}: {all:?}");
        let report = verified(&path, None, &[]);
        assert!(!report.intact, "{harm:?}: {report:?}");
        if harm != Harm::CutShort && harm != Harm::Removed {
            all.push(away);
            let report = verify(parts(&all), None, &[], Extent::Whole).unwrap();
            assert!(report.intact, "{harm:?}: {report:?}");
        }
    }
}

/// A file is removed right before its rotation.
#[test]
fn rotation_gets_over_a_file_that_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let how = Config { rotate_bytes: 2000, on_full: OnFull::Deny, keep: 100, ..config(&path) };
    let trail = start(&how);
    for _ in 0..3 {
        let _ = fs::remove_file(&path);
        (0..6).for_each(|_| call(&trail, "t").unwrap());
        until("calls are made", || {
            std::thread::sleep(Duration::from_millis(50));
            call(&trail, "t").is_ok() && path.exists()
        });
    }
    trail.close();
    assert!(lines(&path).last().unwrap()["kind"] == "close");
    broken(&path, None, "are missing");
}
