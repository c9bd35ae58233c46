//! Tests of `audit`: the hash of each record.

use super::super::chain::{Chain, GENESIS, Seal, Tip};
use super::super::event::{self, name};
use super::*;

/// Returns a chain with an `open` record of that output.
pub(super) fn opened(key: Option<&str>, output: &str) -> Chain {
    let mut chain = Chain::new(Seal::new(key), Tip::default(), 0);
    chain.add(|out, _| {
        event::plain(out, name!("kind"), "open");
        event::plain(out, name!("output"), output);
        event::plain(out, name!("prev"), GENESIS);
        if output == "file" {
            event::number(out, name!("oldest"), 1);
        }
        if key.is_some() {
            out.extend_from_slice(b",\"keyed\":true");
        }
    });
    chain
}

/// Returns the lines of a chain, with their breaks.
pub(super) fn lines_of(chain: &Chain) -> Vec<String> {
    let text = String::from_utf8(chain.bytes.clone()).unwrap();
    text.split_inclusive('\n').map(str::to_owned).collect()
}

/// Returns the lines of a file: its opening, then this many records.
pub(super) fn chain(key: Option<&str>, many: usize) -> Vec<String> {
    let mut chain = opened(key, "file");
    (0..many).for_each(|_| chain.add(|out, _| event::plain(out, name!("kind"), "decision")));
    lines_of(&chain)
}

pub(super) fn report(lines: &[String], key: Option<&str>, anchors: &[Anchor]) -> Report {
    of(&[lines], key, anchors, Extent::Whole)
}

pub(super) fn of(
    parts: &[&[String]],
    key: Option<&str>,
    anchors: &[Anchor],
    extent: Extent,
) -> Report {
    let part = |lines: &&[String]| {
        let text = lines.concat();
        let open = move || Ok(Box::new(std::io::Cursor::new(text.clone())) as Text<'static>);
        Part { name: "a".into(), open: Box::new(open), once: false }
    };
    verify(parts.iter().map(part).collect(), key, anchors, extent).unwrap()
}

fn hash_of(line: &str) -> String {
    line.split("\"hash\":\"").nth(1).unwrap()[..64].to_owned()
}

#[test]
fn each_record_has_a_hash_and_a_change_is_found_in_its_line() {
    for key in [None, Some(KEY)] {
        let good = chain(key, 9);
        let whole = report(&good, key, &[]);
        assert!(whole.intact && whole.records == 10 && whole.last == Some(10), "{whole:?}");
        let changed = |at: usize, from: &str, to: &str| {
            let mut lines = good.clone();
            assert!(lines[at - 1].contains(from));
            lines[at - 1] = lines[at - 1].replace(from, to);
            lines
        };
        let mut swapped = good.clone();
        swapped.swap(6, 7);
        let bare = changed(6, &good[5][good[5].find(",\"hash\"").unwrap()..], "}\n");
        let mut other = opened(key, "file");
        (0..9).for_each(|_| other.add(|out, _| event::plain(out, name!("kind"), "outcome")));
        let foreign = [good[..6].to_vec(), lines_of(&other)[6..].to_vec()].concat();
        let mut reopened = opened(key, "file");
        reopened.add(|out, _| {
            event::plain(out, name!("kind"), "open");
            event::plain(out, name!("prev"), &"a".repeat(64));
        });
        let reopened = [&good[..1], &lines_of(&reopened)[1..]].concat();
        let unopened = [&good[..1], &[good[1].replace("decision", "open")]].concat();
        let cases = [
            (changed(3, "decision", "decided"), 3, "record 3 does not match its hash"),
            (changed(6, &hash_of(&good[5]), &hash_of(&good[4])), 6, "record 6 does not match"),
            (changed(8, "\"seq\":8", "\"seq\":9"), 8, "records 8 to 8 are missing"),
            (swapped, 7, "records 7 to 7 are missing"),
            (bare, 6, "record 6 has no hash"),
            (foreign, 7, "record 7 does not match its hash"),
            (reopened, 2, "the record before this one does not have the hash in `prev`"),
            (unopened, 2, "record 2 does not match its hash"),
        ];
        for (lines, line, words) in cases {
            let broken =
                report(&lines, key, &[]).broken.unwrap_or_else(|| panic!("{words}: not found"));
            assert!(broken.line == line && broken.seq.is_some(), "{words}: {broken:?}");
            assert!(broken.why.contains(words), "{words}: {broken:?}");
        }
    }
    let keyed = report(&chain(Some(KEY), 1), None, &[]).broken.unwrap();
    assert!(keyed.why.contains("the key of the chain is missing"), "{keyed:?}");
}

/// The values are from `b3sum`, over the digits of the previous hash and the line up to its hash.
#[test]
fn a_hash_can_be_verified_without_lockgate() {
    let lines = chain(None, 1);
    let open = r#"{"seq":1,"kind":"open","output":"file","prev":"#;
    assert!(lines[0].starts_with(&format!("{open}\"{GENESIS}\",\"oldest\":1,")), "{}", lines[0]);
    assert_eq!(
        [hash_of(&lines[0]), hash_of(&lines[1])],
        [
            "51d4b0896e9deb24f583589e910c18dbcbba42ca9bd80fe1337965c12c6906f7",
            "ea12cba327f51b5862cc8c20c5b7af184afbf8d33a6331e7c6baebc44aa93de8"
        ]
    );
}

/// A further member named `hash` is no hash of the record.
#[test]
fn an_anchor_is_compared_with_the_verified_hash() {
    let good = chain(None, 3);
    let hash = hash_of(&good[0]);
    assert!(report(&good, None, &[Anchor { seq: 1, hash: hash.clone() }]).intact);
    let broken = report(&good, None, &[Anchor { seq: 2, hash }]).broken.unwrap();
    assert!(broken.line == 2 && broken.why.contains("was rewritten"), "{broken:?}");
}

/// The anchor beside the file enters the next record under a hash, so its content must be
/// restricted to a hash.
#[test]
fn an_anchor_beside_the_file_can_be_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (path, head) = (folder.path().join("audit.jsonl"), folder.path().join("audit.jsonl.head"));
    let good = chain(Some(KEY), 5).concat();
    let how = Config { key: Some(KEY.into()), ..config(&path) };
    let hash = "a".repeat(64);
    let forged = format!("{}\"}}\n{{\"seq\":9,\"kind\":\"decision\",\"x\":\"", "a".repeat(20));
    let wrong = [
        serde_json::json!({"seq": 8, "hash": forged}),
        serde_json::json!({"seq": 8, "hash": format!("{}\"", &hash[1..])}),
        serde_json::json!({"seq": 8, "hash": format!("{}\n", &hash[1..])}),
        serde_json::json!({"seq": 8, "hash": hash.to_uppercase()}),
        serde_json::json!({"seq": 8, "hash": &hash[1..]}),
        serde_json::json!({"seq": u64::MAX, "hash": hash}),
        serde_json::json!({"seq": (1u64 << 53) + 1, "hash": hash}),
        serde_json::json!({"seq": -1, "hash": hash}),
        serde_json::json!({"seq": 8}),
        serde_json::json!([]),
    ];
    for text in wrong.iter().map(Value::to_string).chain(["".into(), "x".into()]) {
        fs::write(&path, &good).unwrap();
        fs::write(&head, &text).unwrap();
        let refused =
            Trail::start(&how, Arc::default(), Box::new(<[u8]>::to_vec)).unwrap_err().to_string();
        assert!(refused.contains("`.head` file beside it, is not valid"), "{text}: {refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), good);
    }
    // A plausible anchor is accepted, and the trail records the missing range.
    fs::write(&head, serde_json::json!({"seq": 1u64 << 53, "hash": hash}).to_string()).unwrap();
    Trail::start(&how, Arc::default(), Box::new(<[u8]>::to_vec)).unwrap().close();
    assert_eq!(
        (&lines(&path)[6]["missing_from"], &lines(&path)[6]["prev"]),
        (&7.into(), &hash.into())
    );
    assert!(!verified(&path, Some(KEY), &[]).intact);
}

/// Readers may use either value of a duplicate member.
#[test]
fn a_record_has_each_member_once() {
    let mut twice = Chain::new(Seal::new(None), Tip::default(), 0);
    twice.add(|out, _| {
        out.extend_from_slice(br#","kind":"open","output":"file","oldest":1,"kind":"decision""#)
    });
    let text = String::from_utf8(twice.bytes).unwrap();
    let broken = report(&[text], None, &[]).broken.unwrap();
    assert!(broken.line == 1 && broken.why == "this is not a record", "{broken:?}");
}

/// Only a part may contain records that cannot be verified, and no record has the number 0.
#[test]
fn nothing_forged_stands_before_the_first_record() {
    let good = chain(Some(KEY), 6);
    let hash = "a".repeat(64);
    let forged = |from: usize, to: usize| {
        let line =
            |seq: usize| format!("{{\"seq\":{seq},\"kind\":\"decision\",\"hash\":\"{hash}\"}}\n");
        (from..=to).map(line).collect::<Vec<_>>()
    };
    for (lines, words) in [
        ([forged(0, 0), good.clone()].concat(), "the record has no number"),
        ([forged(0, 3), good[3..].to_vec()].concat(), "the record has no number"),
        ([forged(1, 3), good[3..].to_vec()].concat(), "the first record does not begin a chain"),
        (
            [forged(2, 3), good[3..].to_vec()].concat(),
            "records up to 1 are missing at the beginning, or record 2 ",
        ),
    ] {
        let report = report(&lines, Some(KEY), &[]);
        assert!(report.broken.is_some_and(|broken| broken.why.starts_with(words)), "{words}");
    }
    // The record after a forged one proves it wrong.
    let lines = [forged(3, 3), good[3..].to_vec()].concat();
    let broken = of(&[&lines], Some(KEY), &[], Extent::Part).broken.unwrap();
    assert!(broken.line == 2 && broken.why.contains("does not match"), "{broken:?}");
    let anchor = Anchor { seq: 3, hash: hash.clone() };
    let part = of(&[&good[2..]], Some(KEY), &[anchor], Extent::Part);
    assert!(part.intact && part.first == Some(4) && part.anchors == 0, "{part:?}");
    for words in
        ["record 3 cannot be verified", "anchors of records that are not in these files: 1"]
    {
        assert!(part.notes.iter().any(|note| note.starts_with(words)), "{part:?}");
    }
}

/// Write access to the folder must not redirect the gateway's writes.
#[test]
fn nothing_is_written_through_a_link_beside_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, victim) = (folder.path().join("audit.jsonl"), folder.path().join("victim"));
    fs::write(&victim, "mine").unwrap();
    std::os::unix::fs::symlink(&victim, folder.path().join("audit.jsonl.head.new")).unwrap();
    start(&config(&path)).close();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    assert!(verified(&path, None, &[head(&path)]).intact);
}

/// The trail and its rotated files are at the link's target.
#[test]
fn a_link_to_the_file_is_followed_once() {
    let folder = tempfile::tempdir().unwrap();
    let (link, path) = (folder.path().join("link"), folder.path().join("audit.jsonl"));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let refused = Trail::start(&config(&link), Arc::default(), Box::new(<[u8]>::to_vec))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("it is a link to a missing file"), "{refused}");
    fs::write(&path, "").unwrap();
    let how = Config { rotate_bytes: 1500, keep: 100, ..config(&link) };
    for _ in 0..2 {
        write(&how, 8);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(files(&path).len() > 1 && verified(&path, None, &[head(&path)]).intact);
        assert!(lines(&path).iter().all(|line| line.get("gone_from").is_none()));
    }
}
