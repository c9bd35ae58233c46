//! Tests of `audit`: the chain across restarts, rotation and truncation; full disks and full queues
//! under both settings.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::fs;
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::verify::{Anchor, Extent, Part, Report, Text, verify};
use super::*;
use crate::labels::{Outcome, Rejection};

/// Changes by administrators.
mod changes;
/// The end of a file after its writer was stopped.
mod ends;
/// Disks without space.
mod full;
mod lines;
/// The order of syncs, and the boundaries of writes.
mod order;
/// The parts being read: how many are open, and which stay open.
mod parts;
/// The hashes of records, and the effects of changes to them.
mod records;
/// Streams, which have no file.
mod streams;
/// Losses while the writer is stopped, and while it runs.
mod taken;

const ARGUMENTS: Option<&[u8]> = Some(br#"{"path":"/etc/passwd"}"#);
const KEY: &str = "0123456789abcdef0123456789abcdef";

fn config(path: &Path) -> Config {
    Config {
        output: Output::File(path.to_owned()),
        key: None,
        on_full: OnFull::Deny,
        queue: 64,
        rotate_bytes: 1 << 30,
        rotate_age: Duration::from_secs(3600),
        keep: 3,
        anchor: Duration::from_secs(3600),
        arguments: Arguments::Digest,
        ..Config::default()
    }
}

fn start(config: &Config) -> Trail {
    Trail::start(config, Arc::default(), Box::new(<[u8]>::to_vec)).unwrap()
}

fn asked(name: &str) -> Asked<'_> {
    Asked {
        issuer: "key",
        subject: "ci",
        organisation: Some("org"),
        key: None,
        agent: None,
        method: "tools/call",
        endpoint: "".into(),
        server: Some("files"),
        name: Some(name.into()),
        trace: Some(7),
        transport: None,
    }
}

fn refused(words: &str) -> Refused<'_> {
    Refused {
        why: Rejection::Unauthenticated,
        words,
        who: Some(("key", "ci")),
        key: None,
        endpoint: "",
        token: None,
    }
}

fn call(trail: &Trail, name: &str) -> Result<(), RecordError> {
    let ticket = trail.decide(&asked(name), ARGUMENTS, Decision::Allow(Some("rule"), None))?;
    ticket.finish(Outcome::Ok, Duration::from_micros(5));
    Ok(())
}

/// Makes calls in one batch each, then closes the trail.
fn write(how: &Config, calls: usize) {
    let counters = Arc::<AuditCounters>::default();
    let trail = Trail::start(how, Arc::clone(&counters), Box::new(<[u8]>::to_vec)).unwrap();
    until("it begins", || counters.written.get() > 0);
    for _ in 0..calls {
        let before = counters.written.get();
        call(&trail, "t").unwrap();
        until("it is written", || counters.written.get() >= before + 2);
    }
    trail.close();
}

fn files(path: &Path) -> Vec<PathBuf> {
    let own = path.file_name().unwrap().to_str().unwrap().to_owned();
    let is_one =
        |name: &str| name.strip_prefix(&own).is_some_and(|end| end.is_empty() || end.len() == 17);
    let mut all: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|file| is_one(file.file_name().unwrap().to_str().unwrap()))
        .collect();
    all.sort();
    all
}

fn verified(path: &Path, key: Option<&str>, anchors: &[Anchor]) -> Report {
    verify(parts(&files(path)), key, anchors, Extent::Whole).unwrap()
}

fn parts(files: &[PathBuf]) -> Vec<Part<'static>> {
    let part = |file: PathBuf| Part {
        name: file.display().to_string(),
        open: Box::new(move || Ok(Box::new(BufReader::new(fs::File::open(&file)?)))),
        once: false,
    };
    files.iter().cloned().map(part).collect()
}

fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn head(path: &Path) -> Anchor {
    fs::read_to_string(format!("{}.head", path.display())).unwrap().parse().unwrap()
}

/// Polls, because the writer has its own thread.
fn until(what: &str, check: impl Fn() -> bool) {
    let began = Instant::now();
    while !check() {
        assert!(began.elapsed() < Duration::from_secs(10), "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_call_leaves_a_decision_and_an_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let trail = start(&config(&path));
    call(&trail, "files__read\n\u{202e}\u{e0041}").unwrap();
    let deny = Decision::Deny(Some("no-secrets"), "not this one");
    drop(trail.decide(&asked("files__write"), ARGUMENTS, deny).unwrap());
    drop(
        trail
            .decide(&asked("files__slow"), ARGUMENTS, Decision::Allow(Some("rule"), None))
            .unwrap(),
    );
    trail.refuse(refused("a bearer key is required"));
    trail.close();
    let all = lines(&path);
    let kinds: Vec<_> = all.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        ["open", "decision", "outcome", "decision", "decision", "outcome", "refusal", "close"]
    );
    assert_eq!(all[1]["decision"], "allow");
    assert_eq!(all[1]["rule"], "rule");
    assert_eq!(
        (&all[1]["issuer"], &all[1]["who"], &all[1]["server"]),
        (&"key".into(), &"ci".into(), &"files".into())
    );
    assert_eq!(all[1]["name"], "files__read\n\u{202e}\u{e0041}");
    assert_eq!(all[1]["trace"], "00000000000000000000000000000007");
    assert_eq!(all[1]["arguments"]["bytes"], 22);
    // The output of `printf '{"path":"/etc/passwd"}' | b3sum`.
    let digest = "8c7eddcc6e8b7b6d73171dcf7b749504cddea4b00688d4ff4728505467d48732";
    assert_eq!(all[1]["arguments"]["digest"], digest);
    assert_eq!(all[1]["call"], all[2]["call"]);
    assert_eq!((&all[2]["outcome"], &all[2]["duration_us"]), (&"ok".into(), &5.into()));
    assert_eq!((&all[3]["decision"], &all[3]["reason"]), (&"deny".into(), &"not this one".into()));
    assert_eq!(all[5]["outcome"], "cancelled");
    assert_eq!(all[6]["reason"], "unauthenticated");
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("passwd") && text.is_ascii(), "{text}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let report = verified(&path, None, &[head(&path)]);
    assert!(report.intact && report.closed && report.anchors == 1, "{report:?}");
    assert_eq!((report.records, report.last), (8, Some(8)));
}

#[test]
fn redacted_arguments_are_written_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let how = Config { arguments: Arguments::Redacted, ..config(&path) };
    let trail =
        Trail::start(&how, Arc::default(), Box::new(|_| b"{\"path\":\"[x]\"}".to_vec())).unwrap();
    call(&trail, "t").unwrap();
    trail.close();
    assert_eq!(lines(&path)[1]["arguments"]["redacted"], r#"{"path":"[x]"}"#);
    let how = Config { arguments: Arguments::Omitted, ..config(&path) };
    let trail = start(&how);
    call(&trail, "t").unwrap();
    trail.close();
    assert!(lines(&path)[5].get("arguments").is_none());
}

#[test]
fn the_chain_goes_on_over_restarts_torn_ends_and_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let how = Config { rotate_bytes: 2000, key: Some(KEY.into()), ..config(&path) };
    for round in 0..4 {
        let trail = start(&how);
        for _ in 0..5 {
            call(&trail, "t").unwrap();
            std::thread::sleep(Duration::from_millis(8)); // one batch each, to force a rotation
        }
        trail.close();
        if round == 1 {
            let mut torn = fs::read(&path).unwrap();
            torn.extend_from_slice(b"{\"seq\":99,\"pre");
            fs::write(&path, torn).unwrap();
        }
    }
    let all = files(&path);
    assert!((2..=4).contains(&all.len()), "{all:?}");
    let report = verified(&path, Some(KEY), &[head(&path)]);
    assert!(report.intact && report.closed, "{report:?}");
    assert_eq!(report.chains, 1);
    // Old files are removed, and the trail records the oldest kept record.
    assert!(report.first > Some(1), "{report:?}");
    let oldest = lines(&path)[0]["oldest"].as_u64();
    assert!(oldest.is_some() && oldest <= report.first, "{oldest:?}");
    // Verification fails without the key, or with another key.
    for key in [None, Some("another")] {
        let report = verified(&path, key, &[]);
        assert_eq!(report.broken.unwrap().line, 1);
    }
}

#[test]
fn every_change_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let trail = start(&config(&path));
    (0..4).for_each(|_| call(&trail, "t").unwrap());
    trail.close();
    let good = fs::read_to_string(&path).unwrap();
    let all: Vec<&str> = good.lines().collect();
    let anchor = head(&path);
    assert_eq!(anchor.seq, 10);
    let join = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let without = |at: usize| join(&[&all[..at], &all[at + 1..]].concat());
    let mut swapped = all.clone();
    swapped.swap(3, 4);
    let mut twice = all.clone();
    let other = all[2].replacen('{', "{ ", 1);
    twice.insert(3, &other);
    let cases = [
        (good.replacen("allow", "deny ", 1), 2, "was changed"),
        (without(4), 5, "records 5 to 5 are missing"),
        (join(&swapped), 4, "records 4 to 4 are missing"),
        (join(&twice), 4, "follows record 3"),
        (good.replacen("\"open\"", "\"ope\"", 1), 1, "does not begin a chain"),
        (format!("{}{}\n", join(&all[..3]), "x".repeat(100_000)), 4, "cut off, or too long"),
        (good[..good.len() - 5].to_owned(), 10, "cut off"),
        (join(&all[..1]), 0, "records 2 to 10 are missing at the end"),
        (format!("{good}{{\"seq\":11,\"kind\":\"decision\"}}\n"), 11, "record 11 has no hash"),
    ];
    for (text, line, words) in cases {
        fs::write(&path, &text).unwrap();
        let report = verified(&path, None, std::slice::from_ref(&anchor));
        let broken = report.broken.unwrap_or_else(|| panic!("{words}: not found"));
        assert!(
            !report.intact && broken.line == line && broken.why.contains(words),
            "{words}: {broken:?}"
        );
    }
    // A trail rewritten from the start verifies; an anchor kept elsewhere contradicts it.
    fs::write(&path, &good).unwrap();
    let other = Anchor { hash: "0".repeat(64), seq: 4 };
    assert!(verified(&path, None, &[other]).broken.unwrap().why.contains("was rewritten"));
    assert!("4:xyz".parse::<Anchor>().is_err());
}

#[test]
fn a_cut_end_is_noticed_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let trail = start(&config(&path));
    (0..4).for_each(|_| call(&trail, "t").unwrap());
    trail.close();
    let good = fs::read_to_string(&path).unwrap();
    let cut: String = good.lines().take(6).map(|line| format!("{line}\n")).collect();
    fs::write(&path, cut).unwrap();
    let trail = start(&config(&path));
    trail.close();
    let open = lines(&path).iter().rposition(|line| line["kind"] == "open").unwrap();
    assert!((1..=6).contains(&open));
    let broken = verified(&path, None, &[]).broken.unwrap();
    let words = format!("records {} to 10 are missing before this one", open + 1);
    assert_eq!((broken.line, broken.why), (open as u64 + 1, words));
    assert_eq!(lines(&path)[open]["missing_from"], open + 1);
    assert_eq!(lines(&path)[open]["torn_bytes"].is_null(), open == 6);
}

/// Rotation records the removal of files; a file missing for another reason is reported, at once
/// and after the next start.
#[test]
fn a_file_that_was_taken_away_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let how = Config { rotate_bytes: 1200, keep: 100, ..config(&path) };
    write(&how, 12);
    let all = files(&path);
    assert!(all.len() >= 4 && verified(&path, None, &[]).intact, "{all:?}");
    // The current file is last in order of records, and first in order of names.
    let (archive, second) =
        (folder.path().join("archive"), Some(lines(&all[2])[0]["seq"].as_u64().unwrap()));
    fs::rename(&all[1], &archive).unwrap();
    let missed = |words: &str| {
        let report = verified(&path, None, &[]);
        let broken = report.broken.unwrap_or_else(|| panic!("{words}: not found"));
        assert!(!report.intact && broken.why.starts_with(words), "{words}: {broken:?}");
        assert_eq!(report.first, second);
    };
    let gone = format!("records 1 to {} are missing", second.unwrap() - 1);
    missed(&gone);
    // Verification of a part only notes the missing records.
    let part = verify(parts(&files(&path)), None, &[], Extent::Part).unwrap();
    assert!(
        part.intact && part.notes.iter().any(|note| note.contains("are not in these files")),
        "{part:?}"
    );
    // A restart records the missing range, so that later growth does not hide it.
    let quiet = Config { rotate_bytes: 1 << 30, ..how.clone() };
    start(&quiet).close();
    let last = lines(&path).into_iter().rfind(|line| line["kind"] == "open").unwrap();
    assert_eq!(
        (last["gone_from"].as_u64(), last["gone_to"].as_u64()),
        (Some(1), second.map(|seq| seq - 1))
    );
    assert_eq!(last["oldest"].as_u64(), second);
    missed(&gone);
    start(&quiet).close();
    write(&how, 12);
    missed(&gone);
    // With the moved file, the trail is complete.
    let mut with = files(&path);
    with.push(archive);
    let report = verify(parts(&with), None, &[], Extent::Whole).unwrap();
    assert!(report.intact, "{report:?}");
}

/// A file that rotation released but has not removed, as after a crash in between, is no error.
#[test]
fn an_old_file_is_removed_after_the_record_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let how = Config { rotate_bytes: 2000, keep: 1, ..config(&path) };
    for _ in 0..3 {
        write(&how, 12);
        let report = verified(&path, None, &[head(&path)]);
        assert!(report.intact && report.first > Some(1), "{report:?}");
        assert_eq!(files(&path).len(), 2);
        assert!(lines(&path).iter().all(|line| line.get("gone_from").is_none()));
    }
}

#[test]
fn a_chain_that_was_changed_is_not_continued_and_a_file_has_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let trail = start(&config(&path));
    let second =
        Trail::start(&config(&path), Arc::default(), Box::new(<[u8]>::to_vec)).unwrap_err();
    let second = second.to_string();
    assert!(second.starts_with("another process"), "{second}");
    assert!(second.ends_with("another `audit.file`"), "{second}");
    trail.close();
    drop(trail);
    let keyed = Config { key: Some(KEY.into()), ..config(&path) };
    let refused = Trail::start(&keyed, Arc::default(), Box::new(<[u8]>::to_vec)).unwrap_err();
    assert!(refused.to_string().contains("another key"), "{refused}");
    assert!(!format!("{keyed:?}").contains(KEY));
}

#[test]
fn a_full_queue_denies_or_drops_and_outcomes_keep_their_place() {
    for on_full in [OnFull::Deny, OnFull::Drop] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let counters = Arc::<AuditCounters>::default();
        let how = Config { on_full, queue: 16, ..config(&path) };
        let trail = Trail::start(&how, Arc::clone(&counters), Box::new(<[u8]>::to_vec)).unwrap();
        // Running calls hold the slot of their outcome, however fast the writer is.
        let mut running = Vec::new();
        let refused = loop {
            match trail.decide(&asked("t"), ARGUMENTS, Decision::Allow(Some("rule"), None)) {
                Ok(ticket) => running.push(ticket),
                Err(RecordError) => break true,
            }
            if counters.dropped.get() > 0 {
                break false;
            }
        };
        assert_eq!(refused, on_full == OnFull::Deny);
        let made = running.len() as u64 - u64::from(!refused);
        assert!((8..=16).contains(&made), "{made}");
        running.into_iter().for_each(|ticket| ticket.finish(Outcome::Ok, Duration::ZERO));
        trail.close();
        let all = lines(&path);
        let count = |kind: &str| all.iter().filter(|line| line["kind"] == kind).count() as u64;
        assert_eq!((count("decision"), count("outcome"), count("gap")), (made, made, 1));
        assert!(verified(&path, None, &[]).intact);
    }
}

#[test]
fn times_are_dates() {
    let mut clock = event::Clock::default();
    let mut at = |millis: u64| {
        let mut out = Vec::new();
        clock.write(&mut out, std::time::UNIX_EPOCH + Duration::from_millis(millis));
        let text = String::from_utf8(out).unwrap();
        text.strip_prefix(r#","time":""#).unwrap().strip_suffix('"').unwrap().to_owned()
    };
    assert_eq!(at(5), "1970-01-01T00:00:00.005000Z");
    assert_eq!(at(999), "1970-01-01T00:00:00.999000Z");
    assert_eq!(at(951_782_400_005), "2000-02-29T00:00:00.005000Z");
    assert_eq!(at(1_785_241_845_990), "2026-07-28T12:30:45.990000Z");
    assert_eq!(at(1_785_241_845_007), "2026-07-28T12:30:45.007000Z");
    assert_eq!(at(4_107_542_399_005), "2100-02-28T23:59:59.005000Z");
}

/// Unlimited refusals by unauthenticated callers neither flood the trail nor block calls.
#[test]
fn of_many_refusals_most_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let trail = start(&Config { queue: 1000, ..config(&path) });
    let began = Instant::now();
    for _ in 0..5000 {
        trail.refuse(refused("again"));
    }
    call(&trail, "files__read").unwrap();
    let seconds = began.elapsed().as_secs() + 2;
    std::thread::sleep(Duration::from_millis(1100));
    trail.refuse(refused("later"));
    trail.close();
    let all = lines(&path);
    let refusals: Vec<_> = all.iter().filter(|line| line["kind"] == "refusal").collect();
    assert!(refusals.len() as u64 <= 100 * seconds + 1, "{}", refusals.len());
    let counted: u64 = refusals.iter().map(|line| line["more"].as_u64().unwrap_or(0)).sum();
    assert_eq!(counted + refusals.len() as u64, 5001);
    assert_eq!(refusals.last().unwrap()["words"], "later");
}
