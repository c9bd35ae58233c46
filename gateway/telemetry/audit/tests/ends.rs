//! Tests of `audit`: the end of a file after its writer was stopped.

use std::io::Write;

use super::super::chain::MAX_LINE;
use super::super::event::{self, name};
use super::super::pieces::without_zeros;
use super::records::{chain, lines_of, of, opened, report};
use super::*;

/// A writer that is killed during a write leaves an incomplete record.
#[test]
fn an_incomplete_record_is_removed_at_the_next_start_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let rest = "{\"seq\":8,\"kind\":\"decision\"";
    for rest in [rest, &rest[..12], &rest[..5]] {
        let good = chain(None, 6).concat();
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
    // An incomplete first record, and zeros in place of a record.
    for first in ["{\"seq\":1,\"ti", "{\"seq\":1,\"ti\0\0\0", "\0\0"] {
        fs::write(&path, first).unwrap();
        start(&config(&path)).close();
        assert_eq!((&lines(&path)[0]["torn_bytes"], lines(&path).len()), (&first.len().into(), 2));
        fs::remove_file(folder.path().join("audit.jsonl.head")).unwrap();
    }
}

/// A writer that is killed right before the last line break leaves a whole record.
#[test]
fn a_last_line_without_its_break_gets_it_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    for many in [8, 0] {
        let good = chain(None, many).concat();
        for zeros in [0, 20] {
            let bare = good.trim_end();
            fs::write(&path, [bare.as_bytes(), &vec![0; zeros as usize]].concat()).unwrap();
            fs::write(folder.path().join("audit.jsonl.head"), bare.lines().last().unwrap())
                .unwrap();
            let report = verified(&path, None, &[head(&path)]);
            assert_eq!(report.intact, zeros == 0, "{report:?}");
            assert!(zeros > 0 || report.notes[0].contains("has no line break"), "{report:?}");
            start(&config(&path)).close();
            assert!(fs::read_to_string(&path).unwrap().starts_with(&good));
            let open = &lines(&path)[good.lines().count()];
            assert_eq!(
                (open["torn_bytes"].as_u64().unwrap_or(0), &open["unclean"]),
                (zeros, &true.into())
            );
            assert!(open.get("missing_from").is_none(), "{open}");
            assert!(verified(&path, None, &[head(&path)]).intact);
            fs::remove_file(folder.path().join("audit.jsonl.head")).unwrap();
        }
    }
    // A writer never leaves a wrong hash.
    let changed = chain(None, 8).concat().replace("\"seq\":9", "\"seq\":8");
    fs::write(&path, changed.trim_end()).unwrap();
    assert!(!verified(&path, None, &[]).intact);
    let refused = Trail::start(&config(&path), Arc::default(), Box::new(<[u8]>::to_vec))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("do not verify"), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), changed.trim_end());
}

/// Only the last line of a file may lack its break.
#[test]
fn a_line_without_its_break_is_the_last_of_its_file() {
    let mut bare = chain(Some(KEY), 4);
    for at in [2, 4] {
        bare[at].pop();
    }
    let whole = of(&[&bare[..3], &bare[3..]], Some(KEY), &[], Extent::Whole);
    assert!(whole.intact && whole.records == 5 && whole.notes.len() == 3, "{whole:?}");
    let broken = report(&bare, Some(KEY), &[]).broken.unwrap();
    assert!(broken.line == 3 && broken.why.contains("not a record"), "{broken:?}");
    // A line break is required even after a maximal line, where it does not fit in the same read.
    let long = |bytes: usize| {
        let mut chain = opened(None, "file");
        (0..2)
            .for_each(|_| chain.add(|out, _| event::plain(out, name!("kind"), &"x".repeat(bytes))));
        let mut lines = lines_of(&chain);
        lines.iter_mut().for_each(|line| line.truncate(line.len() - 1));
        lines
    };
    let lines = long(MAX_LINE - long(20_000)[1].len() + 20_000);
    assert_eq!(lines[1].len(), MAX_LINE);
    let broken =
        report(&[format!("{}\n{}{}\n", lines[0], lines[1], lines[2])], None, &[]).broken.unwrap();
    assert!(broken.line == 2 && broken.why.contains("cut off, or too long"), "{broken:?}");
    // A wrong hash is an error even so.
    bare[4] = bare[4].replace("decision", "decided");
    assert!(!of(&[&bare[..3], &bare[3..]], Some(KEY), &[], Extent::Whole).intact);
}

/// A file that is no trail, or has more bytes after the last record than a writer leaves, is not
/// changed.
#[test]
fn a_file_that_is_no_trail_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let good = chain(None, 5).concat();
    let long = format!("{good}{}", "{\"seq\":7}\n".repeat(MAX_LINE / 10 + 1));
    let changed = good.replace("\"seq\":6", "\"seq\":7");
    let own = r#"{"seq":1,"title":"mine","#;
    let large = format!(r#"{{"seq":1,"time":"{}"#, "x".repeat(MAX_LINE));
    for text in [
        "notes of mine",
        "notes\nof mine\n",
        "{\"seq\":1}\n",
        "{\"seq\":1}",
        "{\"a\":1}",
        own,
        &large,
        &long,
        &changed,
    ] {
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let refused = Trail::start(&config(&path), Arc::default(), Box::new(<[u8]>::to_vec))
            .unwrap_err()
            .to_string();
        assert!(refused.contains("move"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
    }
}

/// After a power loss, zeros may replace the last writes, many more than a record has.
#[test]
fn zeros_at_the_end_are_what_was_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    for zeros in [1, 100_000, 3_000_000] {
        let good = chain(None, 5).concat();
        fs::write(&path, [good.as_bytes(), b"{\"seq\":8,\"ki", &vec![0; zeros]].concat()).unwrap();
        start(&config(&path)).close();
        assert_eq!(lines(&path)[6]["torn_bytes"], 12 + zeros);
        assert!(verified(&path, None, &[head(&path)]).intact);
        fs::remove_file(folder.path().join("audit.jsonl.head")).unwrap();
    }
}

/// Zeros are removed up to a bound; a longer run is kept.
#[test]
fn zeros_are_counted_to_a_bound() {
    let line = MAX_LINE as u64;
    for most in [100, line - 1, line, line + 1, 3 * line] {
        for text in ["{\"seq\":1", "x", ""] {
            for (zeros, taken) in
                [(0, true), (1, true), (most, true), (most + 1, false), (most + line, false)]
            {
                let mut file = tempfile::tempfile().unwrap();
                file.write_all(text.as_bytes()).unwrap();
                file.set_len(text.len() as u64 + zeros).unwrap();
                let left = without_zeros(&mut file, most).unwrap();
                let wanted = text.len() as u64 + if taken { 0 } else { zeros };
                assert_eq!(left, wanted, "{zeros} of {most} behind {text:?}");
            }
        }
    }
}
