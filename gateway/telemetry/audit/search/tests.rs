//! Tests of `search`.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use super::*;

fn decision(seq: u64, call: u64, who: &str) -> String {
    format!(
        "{{\"seq\":{seq},\"time\":\"2026-11-23T00:00:{:02}.000000Z\",\"kind\":\"decision\",\
         \"call\":{call},\"decision\":\"allow\",\"who\":\"{who}\"}}\n",
        seq % 60
    )
}

fn outcome(seq: u64, call: u64) -> String {
    format!(
        "{{\"seq\":{seq},\"time\":\"2026-11-23T00:00:{:02}.000000Z\",\"kind\":\"outcome\",\
         \"call\":{call},\"outcome\":\"ok\",\"duration_us\":7}}\n",
        seq % 60
    )
}

fn seqs(found: &SearchResult) -> Vec<u64> {
    found.records.iter().map(|record| record["seq"].as_u64().unwrap()).collect()
}

fn all(_: &Members) -> bool {
    true
}

#[test]
fn records_are_found_from_the_end_over_files_with_their_outcomes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    std::fs::write(numbered(&path, 1), decision(1, 1, "a") + &decision(2, 2, "b")).unwrap();
    std::fs::write(&path, outcome(3, 2) + &outcome(4, 1) + &decision(5, 3, "a")).unwrap();
    let mut wanted = Search { before: None, from: None, to: None, limit: 10, fits: &all };
    let found = search(&path, &wanted).unwrap();
    assert_eq!(seqs(&found), [5, 2, 1]);
    assert!(found.is_complete && found.gaps == 0 && found.unreadable == 0 && !found.has_more);
    assert_eq!(found.records[1]["outcome"], "ok");
    assert_eq!(found.records[1]["duration_us"], 7);
    assert!(!found.records[0].contains_key("outcome"));
    wanted.limit = 1;
    let first = search(&path, &wanted).unwrap();
    assert_eq!((seqs(&first), first.has_more), (vec![5], true));
    wanted.before = Some(5);
    wanted.limit = 10;
    assert_eq!(seqs(&search(&path, &wanted).unwrap()), [2, 1]);
    wanted.from = Some("2026-11-23T00:00:02");
    let recent = search(&path, &wanted).unwrap();
    assert!(recent.is_complete && seqs(&recent) == [2], "{recent:?}");
}

#[test]
fn garbage_and_holes_are_counted_and_nothing_stops_at_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let long = "x".repeat(3 * MAX_LINE);
    let text = decision(1, 1, "a") + "garbage\n\n{\"seq\":\"1\"}\n\u{0}\n" + &long + "\n";
    std::fs::write(&path, text + &decision(7, 2, "b") + "{\"seq\":8,\"ti").unwrap();
    let wanted = Search { before: None, from: None, to: None, limit: 10, fits: &all };
    let found = search(&path, &wanted).unwrap();
    assert_eq!(seqs(&found), [7, 1]);
    assert!(found.is_complete && found.gaps == 1 && found.unreadable >= 6, "{found:?}");
}

#[test]
fn a_record_that_is_being_written_harms_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let wanted = Search { before: None, from: None, to: None, limit: 10, fits: &all };
    for before in [String::new(), decision(1, 1, "a")] {
        let next = decision(2, 2, "b");
        for length in [1, next.len() / 2, next.len() - 2] {
            std::fs::write(&path, before.clone() + &next[..length]).unwrap();
            let found = search(&path, &wanted).unwrap();
            assert_eq!((found.unreadable, found.gaps), (0, 0), "{length}: {found:?}");
            assert_eq!(found.records.len(), before.lines().count());
        }
    }
}

#[test]
fn lines_come_whole_from_the_end_whatever_their_length_and_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines");
    for lengths in [
        [0, 1, 2],
        [MAX_LINE - 1, MAX_LINE - 1, 1],
        [MAX_LINE / 2, MAX_LINE - 1, MAX_LINE / 2],
        [MAX_LINE - 1, MAX_LINE - 1, MAX_LINE - 1],
    ] {
        let wanted: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(at, len)| vec![b'a' + at as u8; *len]).collect();
        for last in ["\n", ""] {
            let mut text = wanted.join(&b'\n');
            text.extend_from_slice(last.as_bytes());
            std::fs::write(&path, &text).unwrap();
            let mut file = File::open(&path).unwrap();
            let mut end = text.len() as u64;
            let mut read = Vec::new();
            while end > 0 {
                let (begin, block) = read_before(&mut file, end).unwrap();
                let lines = block.split_inclusive(|byte| *byte == b'\n').rev();
                read.extend(lines.map(|line| line.strip_suffix(b"\n").unwrap_or(line).to_vec()));
                end = begin;
            }
            read.reverse();
            assert_eq!(read.len(), wanted.len(), "{lengths:?} {last:?}");
            assert!(read == wanted, "{lengths:?} {last:?}");
        }
    }
}

const MANY: u64 = 20_000;

/// Writes records a microsecond apart, in three files.
fn write_files(path: &Path) {
    for first in [1, 8_001, 16_001] {
        let last = MANY.min(first + 7_999);
        let mut text = String::new();
        for seq in first..=last {
            let time = format!("00:00:00.{seq:06}");
            text +=
                &decision(seq, seq, "a").replace(&format!("00:00:{:02}.000000", seq % 60), &time);
        }
        let file = if last == MANY { path.to_owned() } else { numbered(path, first) };
        std::fs::write(file, text).unwrap();
    }
}

/// Less than the files contain, and more than a bisection leaves to read.
const FEW: Bounds = Bounds { bytes: 400 << 10, time: Duration::from_secs(60), slack: 16 << 10 };

#[test]
fn a_search_goes_on_until_the_oldest_record_however_little_it_may_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    write_files(&path);
    let mut wanted = Search { before: None, from: None, to: None, limit: 100_000, fits: &all };
    let mut seen = Vec::new();
    loop {
        let found = search_within(&path, &wanted, FEW).unwrap();
        assert!(found.unreadable == 0 && found.gaps == 0, "{} {}", found.unreadable, found.gaps);
        seen.extend(seqs(&found));
        if found.is_complete {
            break;
        }
        let next = found.last.unwrap();
        assert!(wanted.before.is_none_or(|before| next < before), "it goes on at {next}");
        wanted.before = Some(next);
    }
    assert!(seen == (1..=MANY).rev().collect::<Vec<u64>>(), "{} records", seen.len());
}

#[test]
fn what_is_older_than_a_time_is_found_without_reading_what_is_newer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    write_files(&path);
    for newest in [60, 7_999, 8_000, 8_001, 12_345, 16_001, 19_999, MANY] {
        let to = format!("2026-11-23T00:00:00.{:06}", newest + 1);
        let wanted = Search { before: None, from: None, to: Some(&to), limit: 3, fits: &all };
        let found = search_within(&path, &wanted, FEW).unwrap();
        assert_eq!(seqs(&found), [newest, newest - 1, newest - 2], "{to}");
    }
    let wanted = Search { before: None, from: None, to: Some("2026-11-22"), limit: 3, fits: &all };
    let found = search_within(&path, &wanted, FEW).unwrap();
    assert!(found.is_complete && found.records.is_empty());
}

#[test]
fn an_outcome_behind_the_place_where_a_search_goes_on_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let before = Some(3);
    std::fs::write(numbered(&path, 1), decision(1, 1, "a") + &decision(2, 2, "b")).unwrap();
    std::fs::write(&path, decision(3, 3, "c") + &outcome(4, 2) + &outcome(5, 1)).unwrap();
    let wanted = Search { before, from: None, to: None, limit: 10, fits: &all };
    let found = search(&path, &wanted).unwrap();
    assert_eq!(seqs(&found), [2, 1]);
    assert!(found.records.iter().all(|record| record["outcome"] == "ok"), "{found:?}");
}
