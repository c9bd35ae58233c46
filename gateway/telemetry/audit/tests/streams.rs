//! Tests of `audit`: streams, which have no file: their pieces, and the chains of several
//! processes.

use super::super::chain::{Chain, GENESIS, Seal, Tip};
use super::super::event::{self, name};
use super::records::{chain, lines_of, of, opened, report};
use super::*;

/// Returns the output of a process to a stream.
fn stream(key: Option<&str>, many: usize) -> Vec<String> {
    let mut chain = opened(key, "stream");
    (0..many).for_each(|_| chain.add(|out, _| event::plain(out, name!("kind"), "outcome")));
    lines_of(&chain)
}

/// A collector may split a stream anywhere; together the pieces are complete.
#[test]
fn a_piece_of_a_stream_says_what_it_cannot_show() {
    let good = stream(Some(KEY), 18);
    let (one, other) = good.split_at(9);
    assert!(of(&[one, other], Some(KEY), &[], Extent::Whole).intact);
    let first = of(&[one], Some(KEY), &[], Extent::Part);
    assert!(first.intact && first.last == Some(9), "{first:?}");
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
    // Only the first record of a part may be unverifiable.
    assert!(!of(&[other], Some(KEY), &[], Extent::Whole).intact);
    let mut changed = other.to_vec();
    changed[3] = changed[3].replace("outcome", "success");
    let broken = of(&[&changed], Some(KEY), &[], Extent::Part).broken.unwrap();
    assert!(broken.why.starts_with("record 13 does not match its hash"), "{broken:?}");
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
    let one = stream(None, 5);
    let mut later = opened(None, "stream");
    (0..5).for_each(|_| later.add(|out, _| event::plain(out, name!("kind"), "decision")));
    let other = lines_of(&later);
    let hash = |line: &str| line.split("\"hash\":\"").nth(1).unwrap()[..64].to_owned();
    let anchors = |lines: &[String]| [Anchor { seq: 6, hash: hash(&lines[5]) }];
    assert_ne!(hash(&one[5]), hash(&other[5]));
    let both = [one.clone(), other.clone()].concat();
    for lines in [&one, &other] {
        let report = report(&both, None, &anchors(lines));
        assert!(report.intact && report.chains == 2 && report.anchors == 1, "{report:?}");
    }
    assert!(report(&one, None, &anchors(&other)).broken.unwrap().why.contains("was rewritten"));
    // A process that was killed.
    let killed = [one[..3].to_vec(), other].concat();
    let report = report(&killed, None, &[]);
    assert!(report.intact && report.chains == 2, "{report:?}");
    assert!(report.notes[0].contains("ends at record 3 without a `close`"), "{report:?}");
}

/// Only a stream begins another chain: after a file, it could contain forged records.
#[test]
fn no_stream_follows_a_file() {
    let file = chain(Some(KEY), 5);
    let lines = [file, stream(Some(KEY), 5)].concat();
    let broken = report(&lines, Some(KEY), &[]).broken.unwrap();
    assert_eq!((broken.line, broken.why.as_str()), (7, "the record follows record 6"));
}

/// Pieces from streams of several processes are ordered by time.
#[test]
fn pieces_of_several_processes_are_put_in_order() {
    let timed = |day: u32, many: usize| {
        let mut chain = Chain::new(Seal::new(None), Tip::default(), 0);
        let time = |out: &mut Vec<u8>, at: usize| {
            event::plain(out, name!("time"), &format!("2026-01-{day:02}T00:00:{at:02}Z"));
        };
        chain.add(|out, _| {
            time(out, 0);
            event::plain(out, name!("kind"), "open");
            event::plain(out, name!("output"), "stream");
            event::plain(out, name!("prev"), GENESIS);
        });
        (0..many).for_each(|at| chain.add(|out, _| time(out, at / 9)));
        lines_of(&chain)
    };
    let (one, two) = (timed(1, 27), timed(2, 6));
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
    let chain = chain(Some(KEY), 10);
    let one = stream(None, 5);
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
