//! Tests of `audit`: records that share a hash.

use super::super::chain::{Chain, MAX_SPAN, Seal, Tip};
use super::super::event::{self, name};
use super::*;

/// Returns the lines of a chain: its opening, then spans with these numbers of records.
pub(super) fn chain(key: Option<&str>, spans: &[usize]) -> Vec<String> {
    let mut chain = Chain::new(Seal::new(key), Tip::default(), 0);
    chain.add(|out, _| out.extend_from_slice(br#","kind":"open","output":"file","oldest":1"#));
    chain.close();
    for many in spans {
        (0..*many).for_each(|_| chain.add(|out, _| event::plain(out, name!("kind"), "decision")));
        chain.close();
    }
    String::from_utf8(chain.bytes().to_vec())
        .unwrap()
        .lines()
        .map(|line| format!("{line}\n"))
        .collect()
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

fn hashes(lines: &[String]) -> Vec<usize> {
    (1..).zip(lines).filter(|(_, line)| line.contains("\"hash\"")).map(|(at, _)| at).collect()
}

#[test]
fn a_batch_has_one_hash_and_a_change_in_it_is_found() {
    for key in [None, Some(KEY)] {
        let good = chain(key, &[5, 4]);
        assert_eq!(hashes(&good), [1, 6, 10]);
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
        let cut = |many: usize| good[..many].to_vec();
        // The hash of records 2 to 6 is removed from them.
        let bare = changed(6, &good[5][good[5].find(",\"prev\"").unwrap()..], "}\n");
        let foreign = [good[..6].to_vec(), chain(key, &[4, 1, 4])[6..].to_vec()].concat();
        let cases = [
            (
                changed(3, "decision", "decided"),
                2,
                "records 2 to 6 do not match the hash in the last of them",
            ),
            (changed(6, "decision", "decided"), 2, "one was changed"),
            (changed(6, "prev", "perv"), 2, "one was changed"),
            (changed(8, "\"seq\":8", "\"seq\":9"), 8, "records 8 to 8 are missing"),
            (swapped, 7, "records 7 to 7 are missing"),
            (bare, 2, "records 2 to 10 do not match the hash"),
            (cut(4), 2, "no hash covers records 2 to 4: "),
            (cut(7), 7, "no hash covers record 7: "),
            (foreign, 7, "the record before this one does not have the hash in `prev`"),
        ];
        for (lines, line, words) in cases {
            let broken =
                report(&lines, key, &[]).broken.unwrap_or_else(|| panic!("{words}: not found"));
            assert!(broken.line == line && broken.seq.is_some(), "{words}: {broken:?}");
            assert!(broken.why.contains(words), "{words}: {broken:?}");
        }
    }
}

/// Only the record that carries a hash matches an anchor; a member named `hash` in another record
/// does not.
#[test]
fn an_anchor_holds_against_records_without_a_hash() {
    let good = chain(None, &[3]);
    let hash = good[0].split("\"hash\":\"").nth(1).unwrap()[..64].to_owned();
    assert!(report(&good, None, &[Anchor { seq: 1, hash: hash.clone() }]).intact);
    let mut anew = Chain::new(Seal::new(None), Tip::default(), 0);
    anew.add(|out, _| out.extend_from_slice(br#","kind":"open","output":"file","oldest":1"#));
    anew.close();
    anew.add(|out, _| {
        event::plain(out, name!("hash"), &hash);
        event::plain(out, name!("kind"), "decision");
    });
    anew.add(|out, _| event::plain(out, name!("kind"), "decision"));
    anew.close();
    let lines: Vec<String> = String::from_utf8(anew.bytes().to_vec())
        .unwrap()
        .lines()
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(report(&lines, None, &[]).intact);
    let broken = report(&lines, None, &[Anchor { seq: 2, hash }]).broken.unwrap();
    assert!(broken.why.contains("was rewritten"), "{broken:?}");
}

#[test]
fn a_long_batch_has_several_hashes_and_lines_without_one_have_an_end() {
    let good = chain(None, &[2000]);
    let at = hashes(&good);
    let bytes = |from: usize, to: usize| good[from..to].concat().len();
    assert!(at.len() > 3 && at.last() == Some(&2001), "{at:?}");
    for pair in at[1..at.len() - 1].windows(2) {
        assert!((16 << 10..17 << 10).contains(&bytes(pair[0], pair[1])), "{pair:?}");
    }
    assert!(report(&good, None, &[]).intact);
    // Without any hash, verification still holds a bounded number of records.
    let bare: Vec<String> =
        (1..).take(5000).map(|seq| format!("{{\"seq\":{seq},\"kind\":\"decision\"}}\n")).collect();
    let bare = [vec![good[0].clone()], bare[1..].to_vec()].concat();
    assert!(bare.concat().len() > MAX_SPAN);
    let broken = report(&bare, None, &[]).broken.unwrap();
    let words: Vec<_> =
        broken.why.split(['.', ':', ' ']).filter_map(|word| word.parse::<usize>().ok()).collect();
    let span = bare[1..words[1]].concat().len();
    assert!(words[0] == 2 && span > MAX_SPAN && span <= MAX_SPAN + 40, "{broken:?} {span}");
}

/// The anchor beside the file enters the next record under a hash, so its content must be
/// restricted to a hash.
#[test]
fn an_anchor_beside_the_file_can_be_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (path, head) = (folder.path().join("audit.jsonl"), folder.path().join("audit.jsonl.head"));
    let good = chain(Some(KEY), &[5]).concat();
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
    twice.close();
    let text = String::from_utf8(twice.bytes().to_vec()).unwrap();
    let broken = report(&[text], None, &[]).broken.unwrap();
    assert!(broken.line == 1 && broken.why == "this is not a record", "{broken:?}");
}

/// Only a part may contain records that cannot be verified, and no record has the number 0.
#[test]
fn nothing_forged_stands_before_the_first_record() {
    let good = chain(Some(KEY), &[2, 2, 2]);
    let hash = "a".repeat(64);
    let forged = |from: usize, to: usize| {
        let line = |seq: usize| {
            if seq < to {
                format!("{{\"seq\":{seq},\"kind\":\"decision\"}}\n")
            } else {
                format!(
                    "{{\"seq\":{seq},\"kind\":\"decision\",\"prev\":\"{hash}\",\"hash\":\"{hash}\"}}\n"
                )
            }
        };
        (from..=to).map(line).collect::<Vec<_>>()
    };
    for (lines, words) in [
        ([forged(0, 0), good.clone()].concat(), "the record has no number"),
        ([forged(0, 3), good[3..].to_vec()].concat(), "the record has no number"),
        ([forged(1, 3), good[3..].to_vec()].concat(), "the first record does not begin a chain"),
        (
            [forged(2, 3), good[3..].to_vec()].concat(),
            "records up to 1 are missing at the beginning, or records 2 to 3 ",
        ),
    ] {
        let report = report(&lines, Some(KEY), &[]);
        assert!(report.broken.is_some_and(|broken| broken.why.starts_with(words)), "{words}");
    }
    let anchor = Anchor { seq: 2, hash: hash.clone() };
    let part =
        of(&[&[forged(2, 3), good[3..].to_vec()].concat()], Some(KEY), &[anchor], Extent::Part);
    assert!(part.intact && part.first == Some(4) && part.anchors == 0, "{part:?}");
    assert!(
        part.notes.iter().any(|note| note == "anchors of records that are not in these files: 1"),
        "{part:?}"
    );
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
