//! Tests of `audit`: records that share a hash.

use super::super::chain::{Chain, MAX_SPAN, Seal, Tip};
use super::super::event::{self, name};
use super::*;

/// The lines of a chain: how it begins, then spans of so many records.
fn chain(key: Option<&str>, spans: &[usize]) -> Vec<String> {
    let mut chain = Chain::new(Seal::new(key), Tip::default(), 0);
    chain.add(|out, _| out.extend_from_slice(br#","kind":"open","output":"file","oldest":1"#));
    chain.close();
    for many in spans {
        (0..*many).for_each(|_| chain.add(|out, _| event::plain(out, name!("kind"), "decision")));
        chain.close();
    }
    String::from_utf8(chain.bytes().to_vec()).unwrap().lines().map(|line| format!("{line}\n")).collect()
}

fn report(lines: &[String], key: Option<&str>, anchors: &[Anchor]) -> Report {
    let text = Box::new(std::io::Cursor::new(lines.concat()));
    verify(vec![Part { name: "a".into(), text }], key, anchors, Extent::Whole).unwrap()
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
        // What is over records 2 to 6 taken from them, and given to nobody.
        let bare = changed(6, &good[5][good[5].find(",\"prev\"").unwrap()..], "}\n");
        let foreign = [good[..6].to_vec(), chain(key, &[4, 1, 4])[6..].to_vec()].concat();
        let cases = [
            (changed(3, "decision", "decided"), 2, "records 2 to 6 do not have the hash that the last of them carries"),
            (changed(6, "decision", "decided"), 2, "one was changed"),
            (changed(6, "prev", "perv"), 2, "one was changed"),
            (changed(8, "\"seq\":8", "\"seq\":9"), 8, "records 8 to 8 are missing"),
            (swapped, 7, "records 7 to 7 are missing"),
            (bare, 2, "records 2 to 10 do not have the hash"),
            (cut(4), 2, "no hash is over records 2 to 4: "),
            (cut(7), 7, "no hash is over record 7: "),
            (foreign, 7, "the record before this one is not the one it follows"),
        ];
        for (lines, line, words) in cases {
            let broken = report(&lines, key, &[]).broken.unwrap_or_else(|| panic!("{words}: not found"));
            assert!(broken.line == line && broken.seq.is_some(), "{words}: {broken:?}");
            assert!(broken.why.contains(words), "{words}: {broken:?}");
        }
    }
}

/// An anchor is of a record that has a hash of its own; a member of another one that is called so is none.
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
    let lines: Vec<String> =
        String::from_utf8(anew.bytes().to_vec()).unwrap().lines().map(|line| format!("{line}\n")).collect();
    assert!(report(&lines, None, &[]).intact);
    let broken = report(&lines, None, &[Anchor { seq: 2, hash }]).broken.unwrap();
    assert!(broken.why.contains("written anew"), "{broken:?}");
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
    // Taking all hashes out does not make verifying keep everything.
    let bare: Vec<String> = (1..).take(5000).map(|seq| format!("{{\"seq\":{seq},\"kind\":\"decision\"}}\n")).collect();
    let bare = [vec![good[0].clone()], bare[1..].to_vec()].concat();
    assert!(bare.concat().len() > MAX_SPAN);
    let broken = report(&bare, None, &[]).broken.unwrap();
    let words: Vec<_> = broken.why.split(['.', ':', ' ']).filter_map(|word| word.parse::<usize>().ok()).collect();
    let span = bare[1..words[1]].concat().len();
    assert!(words[0] == 2 && span > MAX_SPAN && span <= MAX_SPAN + 40, "{broken:?} {span}");
}

/// A writer that is killed while it writes leaves records, or half of one, behind the last hash.
#[test]
fn what_no_hash_is_over_is_taken_away_at_the_next_start_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let rest = "{\"seq\":8,\"kind\":\"decision\"}\n{\"seq\":9,\"ki";
    for rest in [rest, &rest[..30], &rest[..31], &rest[..5]] {
        let good = chain(None, &[5, 1]).concat();
        fs::write(&path, format!("{good}{rest}")).unwrap();
        start(&config(&path)).close();
        let all = lines(&path);
        assert_eq!(all.len(), 9);
        assert_eq!((&all[7]["kind"], &all[7]["seq"]), (&"open".into(), &8.into()));
        assert_eq!((&all[7]["torn_bytes"], &all[7]["unclean"]), (&rest.len().into(), &true.into()));
        assert!(fs::read_to_string(&path).unwrap().starts_with(&good));
        assert!(verified(&path, None, &[head(&path)]).intact);
        fs::remove_file(folder.path().join("audit.jsonl.head")).unwrap();
    }
    // A first record that was not finished.
    fs::write(&path, "{\"seq\":1,\"ti").unwrap();
    start(&config(&path)).close();
    assert_eq!((&lines(&path)[0]["torn_bytes"], lines(&path).len()), (&12.into(), 2));
}

/// Nothing is taken from a file that is no trail, or has more behind the last hash than a writer leaves.
#[test]
fn a_file_that_is_no_trail_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let good = chain(None, &[5]).concat();
    let long = format!("{good}{}", "{\"seq\":7}\n".repeat(MAX_SPAN / 10));
    let changed = format!("{}{{\"seq\":7}}\n", good.replacen("decision", "decided", 1));
    for text in ["notes of mine", "notes\nof mine\n", "{\"seq\":1}\n", "{\"a\":1}", &long, &changed] {
        fs::write(&path, text).unwrap();
        let refused = Trail::start(&config(&path), Arc::default(), Box::new(<[u8]>::to_vec)).unwrap_err().to_string();
        assert!(refused.contains("move"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}
