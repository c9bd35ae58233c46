//! Tests of `audit`: streams, which have no file: their pieces, and the chains of several
//! processes.

use super::super::chain::{Chain, Seal, Tip};
use super::super::event::{self, name};
use super::spans::{chain, of, report};
use super::*;

/// Returns the output of a process to a stream.
fn stream(key: Option<&str>, spans: &[usize]) -> Vec<String> {
    let mut chain = Chain::new(Seal::new(key), Tip::default(), 0);
    chain.add(|out, _| out.extend_from_slice(br#","kind":"open","output":"stream""#));
    chain.close();
    for many in spans {
        (0..*many).for_each(|_| chain.add(|out, _| event::plain(out, name!("kind"), "outcome")));
        chain.close();
    }
    String::from_utf8(chain.bytes().to_vec())
        .unwrap()
        .lines()
        .map(|line| format!("{line}\n"))
        .collect()
}

/// A collector may split a stream anywhere; together the pieces are complete.
#[test]
fn a_piece_of_a_stream_says_what_it_cannot_show() {
    let good = stream(Some(KEY), &[5, 4, 6, 3]);
    let (one, other) = good.split_at(9);
    assert!(of(&[one, other], Some(KEY), &[], Extent::Whole).intact);
    let first = of(&[one], Some(KEY), &[], Extent::Part);
    assert!(first.intact && first.last == Some(6), "{first:?}");
    assert!(
        first.notes.iter().any(|note| note.starts_with("records 7 to 9 cannot be verified")),
        "{first:?}"
    );
    let second = of(&[other], Some(KEY), &[], Extent::Part);
    assert!(second.intact && (second.first, second.last) == (Some(11), Some(19)), "{second:?}");
    assert!(
        second.notes.iter().any(|note| note.starts_with("record 10 cannot be verified")),
        "{second:?}"
    );
    assert!(
        second.notes.iter().any(|note| note.starts_with("records 1 to 9 are not in these files")),
        "{second:?}"
    );
    // Only the ends of a part may be unverifiable.
    for (lines, extent) in [(one, Extent::Whole), (other, Extent::Whole)] {
        assert!(!of(&[lines], Some(KEY), &[], extent).intact);
    }
    let mut changed = other.to_vec();
    changed[3] = changed[3].replace("outcome", "success");
    let broken = of(&[&changed], Some(KEY), &[], Extent::Part).broken.unwrap();
    assert!(broken.why.starts_with("records 11 to 16 do not match the hash"), "{broken:?}");
    assert!(!of(&[other], None, &[], Extent::Part).intact);
    let gap = [&other[..1], &other[7..]].concat();
    let broken = of(&[&gap], Some(KEY), &[], Extent::Part).broken.unwrap();
    assert_eq!(
        (broken.line, broken.why.as_str()),
        (2, "records 11 to 16 are missing before this one")
    );
    // Records after a part may be absent.
    let later = Anchor { seq: 99, hash: "0".repeat(64) };
    assert!(of(&[one], Some(KEY), std::slice::from_ref(&later), Extent::Part).intact);
    assert!(!of(&[&good], Some(KEY), &[later], Extent::Whole).intact);
}

/// Every process begins a chain in a stream, and an anchor belongs to a single chain.
#[test]
fn an_anchor_of_a_stream_is_met_in_one_of_its_chains() {
    let (one, other) = (stream(None, &[5]), stream(None, &[4, 1]));
    let hash = |line: &str| line.split("\"hash\":\"").nth(1).unwrap()[..64].to_owned();
    let anchors = |lines: &[String]| [Anchor { seq: 6, hash: hash(&lines[5]) }];
    assert_ne!(hash(&one[5]), hash(&other[5]));
    let both = [one.clone(), other.clone()].concat();
    for lines in [&one, &other] {
        let report = report(&both, None, &anchors(lines));
        assert!(report.intact && report.chains == 2 && report.anchors == 1, "{report:?}");
    }
    assert!(report(&one, None, &anchors(&other)).broken.unwrap().why.contains("was rewritten"));
    // Killed before the hash was written: the records left cannot be verified.
    let killed = [one[..3].to_vec(), other].concat();
    let broken = report(&killed, None, &[]).broken.unwrap();
    assert!(
        broken.line == 2 && broken.why.starts_with("no hash covers records 2 to 3"),
        "{broken:?}"
    );
}

/// Only a stream begins another chain: after a file, it could contain forged records.
#[test]
fn no_stream_follows_a_file() {
    let file = chain(Some(KEY), &[5]);
    let lines = [file, stream(Some(KEY), &[5])].concat();
    let broken = report(&lines, Some(KEY), &[]).broken.unwrap();
    assert_eq!((broken.line, broken.why.as_str()), (7, "the record follows record 6"));
}

/// Pieces from streams of several processes are ordered by time.
#[test]
fn pieces_of_several_processes_are_put_in_order() {
    let timed = |day: u32, spans: &[usize]| {
        let mut chain = Chain::new(Seal::new(None), Tip::default(), 0);
        let time = |out: &mut Vec<u8>, at: u32| {
            event::plain(out, name!("time"), &format!("2026-01-{day:02}T00:00:{at:02}Z"))
        };
        chain.add(|out, _| {
            time(out, 0);
            out.extend_from_slice(br#","kind":"open","output":"stream""#);
        });
        chain.close();
        for (at, many) in (1..).zip(spans) {
            (0..*many).for_each(|_| chain.add(|out, _| time(out, at)));
            chain.close();
        }
        String::from_utf8(chain.bytes().to_vec())
            .unwrap()
            .lines()
            .map(|line| format!("{line}\n"))
            .collect::<Vec<_>>()
    };
    let (one, two) = (timed(1, &[9, 9, 9]), timed(2, &[3, 3]));
    let parts: [&[String]; 4] = [&one[..12], &one[12..], &two[..4], &two[4..]];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        let report = of(&order.map(|at: usize| parts[at]), None, &[], Extent::Whole);
        assert!(
            report.intact && report.chains == 2 && report.records == 35,
            "{order:?}: {report:?}"
        );
    }
}

/// A sender repeats unconfirmed lines. They are accepted if identical, also across a restart and in
/// another file; a changed character is an error.
#[test]
fn lines_that_come_again_word_for_word_are_counted() {
    let chain = chain(Some(KEY), &[5, 5]);
    let one = stream(None, &[5]);
    for (lines, from, to, key) in
        [(&chain, 2, 9, Some(KEY)), (&chain, 0, 12, Some(KEY)), (&one, 1, 6, None)]
    {
        let to = to.min(lines.len());
        let again = [&lines[..to], &lines[from..to], &lines[to..]].concat();
        let found = report(&again, key, &[]);
        let (records, repeated) = (lines.len() as u64, (to - from) as u64);
        assert!(found.intact && found.chains == 1, "{found:?}");
        assert_eq!((found.records, found.repeated), (records, repeated));
        let found = of(&[&lines[..to], &lines[from..]], key, &[], Extent::Whole);
        assert!(found.intact && found.repeated == repeated, "{found:?}");
    }
    let changed = chain[3].replace("\"seq\":4", "\"seq\":4 ");
    let lines = [&chain[..6], &[changed], &chain[6..]].concat();
    let broken = report(&lines, Some(KEY), &[]).broken.unwrap();
    assert_eq!((broken.line, broken.why.as_str()), (7, "the record follows record 6"));
    assert_eq!(report(&chain, Some(KEY), &[]).repeated, 0);
}
