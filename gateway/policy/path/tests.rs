//! Tests of `path`, with the corpora in `tests/corpora/path`.

use proptest::prelude::*;

use super::*;

const ATTACKS: &str = include_str!("../../../tests/corpora/path/attack.txt");
const BENIGN: &str = include_str!("../../../tests/corpora/path/benign.txt");

fn owned(list: &[&str]) -> Vec<String> {
    list.iter().map(|&entry| entry.to_owned()).collect()
}

/// Returns the rule that a corpus names.
fn rule(name: &str) -> Path {
    let data =
        || Spec { roots: owned(&["/srv/data"]), base: Some("/srv/data".into()), ..Spec::default() };
    let spec = match name {
        "rel" => data(),
        "abs" => Spec { roots: owned(&["/srv/data", "/home/ada/projects/"]), ..Spec::default() },
        "all" => Spec { roots: owned(&["/"]), ..Spec::default() },
        "deny" => Spec {
            deny: owned(&[".git", ".env*", "*.pem", "node_modules/.bin", "/srv/data/private"]),
            ..data()
        },
        "nested" => Spec {
            roots: owned(&["/srv/data", "/srv/data/inner"]),
            deny: owned(&["secret/*", "inner/secret"]),
            ..data()
        },
        "allow" => Spec { allow: owned(&["*.md", "src/**"]), ..data() },
        "uri" => Spec { uris: true, ..data() },
        other => panic!("the corpus names the rule {other:?}"),
    };
    Path::compile(&spec).unwrap()
}

/// Parses lines into rule and path. A quoted path is JSON, for invisible characters.
fn corpus(text: &'static str) -> Vec<(&'static str, String)> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entry = |line: &'static str| {
        let (rule, path) = line.split_once(' ').unwrap();
        (
            rule,
            if path.starts_with('"') {
                serde_json::from_str(path).unwrap()
            } else {
                path.to_owned()
            },
        )
    };
    lines.map(entry).collect()
}

#[test]
fn no_attack_passes() {
    let corpus = corpus(ATTACKS);
    assert!(corpus.len() >= 80, "{}", corpus.len());
    let passed: Vec<_> =
        corpus.iter().filter(|(name, path)| rule(name).check(path).is_ok()).collect();
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn at_most_one_in_a_hundred_benign_paths_is_refused() {
    let corpus = corpus(BENIGN);
    assert!(corpus.len() >= 80, "{}", corpus.len());
    let refused: Vec<_> = corpus
        .iter()
        .filter_map(|(name, path)| rule(name).check(path).err().map(|why| (name, path, why)))
        .collect();
    assert!(refused.len() * 100 <= corpus.len(), "{refused:#?}");
}

/// A glob may match the part of a name that a lenient file system strips.
#[test]
fn a_name_is_denied_as_it_stands_and_as_others_read_it() {
    let spec = Spec {
        roots: owned(&["/srv/data"]),
        deny: owned(&["*.pem", "log?", "/srv/data/a:b/*"]),
        ..Spec::default()
    };
    let rule = Path::compile(&spec).unwrap();
    for denied in ["server:.pem", "server.pem:x", "server.pem.", "log.", "logs", "a:b/c", "A:B/c"] {
        assert!(rule.check(&format!("/srv/data/{denied}")).is_err(), "{denied}");
    }
    for fine in ["server:pem", "log", "a:c/c", "a/c"] {
        assert!(rule.check(&format!("/srv/data/{fine}")).is_ok(), "{fine}");
    }
}

#[test]
fn what_is_allowed_is_absolute_and_normalised() {
    for (name, path, expected) in [
        ("rel", "a//b/./../c.txt", "/srv/data/a/c.txt"),
        ("rel", ".", "/srv/data"),
        ("rel", "/srv/data/", "/srv/data"),
        ("all", "/", "/"),
        ("uri", "file:///srv/data/my%20notes.txt", "/srv/data/my notes.txt"),
    ] {
        assert_eq!(rule(name).check(path).unwrap().path, expected);
    }
    assert_eq!(rule("nested").check("inner/a").unwrap().root, "/srv/data/inner");
}

#[test]
fn a_refusal_is_a_sentence_that_says_what_to_do() {
    for (name, path, words) in [
        ("rel", "../x", "the path leaves the allowed folders: use a path in /srv/data"),
        (
            "abs",
            "x",
            "the path is relative: use an absolute path in /srv/data or /home/ada/projects",
        ),
        ("rel", "%2e%2e/x", "the path has a percent escape: write the character itself"),
        ("rel", "notes /", "the path begins or ends with white space: leave it out"),
        ("rel", "\\b", "the path has a backslash: separate names with /"),
        ("deny", ".git/config", "the path is denied: use another path"),
        ("allow", "a.txt", "the path is not on the list of allowed paths: use an allowed path"),
        (
            "all",
            "/proc/1/environ",
            "/proc/1/environ is a folder of the kernel: use a path of ordinary files",
        ),
        ("rel", "a\u{200b}", "the path has the invisible character U+200B: leave it out"),
    ] {
        assert_eq!(rule(name).check(path).unwrap_err().0, words);
    }
    let long = format!("a/{}", "b/".repeat(300));
    assert_eq!(
        rule("rel").check(&long).unwrap_err().0,
        "the path has more than 256 names: use a shorter one"
    );
    assert!(rule("rel").check(&"a".repeat(5000)).unwrap_err().0.contains("at most 4096"));
    for (name, path) in corpus(ATTACKS) {
        let words = rule(name).check(&path).unwrap_err().0;
        assert!(words.len() < 600 && !words.chars().any(char::is_control), "{words:?}");
    }
}

#[test]
fn a_denied_folder_is_denied_however_it_is_written() {
    for (glob, path) in [
        ("secrets/", "/srv/data/a/secrets/b"),
        ("a/secrets/", "/srv/data/a/secrets/b"),
        ("/srv/data/keys/", "/srv/data/keys/a"),
        ("/SRV/Data/keys", "/srv/data/keys/a"),
        ("**/certs/", "/srv/data/x/certs/a"),
        // Folders that contain the root.
        ("/srv", "/srv/data/a"),
        ("/srv/*", "/srv/data/a"),
        ("/*/data", "/srv/data/a"),
        // Accents as separate characters.
        ("\u{e9}t\u{e9}", "/srv/data/e\u{301}te\u{301}"),
        ("e\u{301}te\u{301}", "/srv/data/\u{c9}t\u{e9}/a"),
    ] {
        let rule = Path::compile(&Spec {
            roots: owned(&["/srv/data"]),
            deny: owned(&[glob]),
            ..Spec::default()
        })
        .unwrap();
        assert!(rule.check(path).unwrap_err().0.contains("the path is denied"), "{glob} {path}");
        assert!(
            rule.check("/srv/data/other").is_ok()
                || glob.starts_with("/srv")
                || glob.starts_with("/*"),
            "{glob}"
        );
    }
}

/// On Windows, a short name may stand for any name, including a denied one.
#[test]
fn a_short_name_is_denied_where_anything_is() {
    let rule = rule("deny");
    for denied in
        ["PROGRA~1", "progra~1.txt", "A~1", "AB~12345.T", "a/SECRET~1/b", "SECRET~1.", "SECRET~1:x"]
    {
        assert!(rule.check(denied).is_err(), "{denied}");
    }
    for fine in ["a~b", "PROGRAM~1", "PROGRA~1.text", "a~1b"] {
        assert!(rule.check(fine).is_ok(), "{fine}");
    }
}

#[test]
fn what_is_denied_below_one_root_is_denied_below_each_that_holds_it() {
    for roots in [["/srv/data", "/srv/data/inner"], ["/srv/data/inner", "/srv/data"]] {
        let spec = Spec { roots: owned(&roots), deny: owned(&["keys/*"]), ..Spec::default() };
        let rule = Path::compile(&spec).unwrap();
        for denied in ["/srv/data/keys/a", "/srv/data/inner/keys/a"] {
            assert!(rule.check(denied).is_err(), "{roots:?} {denied}");
        }
        assert!(rule.check("/srv/data/inner/a/keys/a").is_ok(), "{roots:?}");
    }
}

#[test]
fn a_rule_that_means_nothing_does_not_compile() {
    let roots = owned(&["/srv/data"]);
    for (spec, words) in [
        (Spec::default(), "roots: name at least one folder"),
        (Spec { roots: owned(&["data"]), ..Spec::default() }, "roots: \"data\" must begin with /"),
        (
            Spec { roots: owned(&["/srv/../etc"]), ..Spec::default() },
            "must begin with / and be plain",
        ),
        (
            Spec { roots: roots.clone(), base: Some("/srv".into()), ..Spec::default() },
            "base: must be a root",
        ),
        (
            Spec { roots: roots.clone(), deny: owned(&["[a"]), ..Spec::default() },
            "deny: \"[a\" is not a glob",
        ),
        (
            Spec { roots: roots.clone(), allow: owned(&[""]), ..Spec::default() },
            "allow: \"\" is empty",
        ),
        (
            Spec { roots: roots.clone(), allow: owned(&["docs/"]), ..Spec::default() },
            "write docs/** for the contents of",
        ),
        (
            Spec { roots: roots.clone(), deny: owned(&["./private"]), ..Spec::default() },
            "\"./private\" matches no path",
        ),
        (
            Spec { roots: roots.clone(), deny: owned(&["a/../b"]), ..Spec::default() },
            "\"a/../b\" matches no path",
        ),
        (
            Spec { roots: roots.clone(), deny: owned(&["a//b"]), ..Spec::default() },
            "\"a//b\" matches no path",
        ),
        (
            Spec { roots: roots.clone(), deny: owned(&["/"]), ..Spec::default() },
            "deny: \"/\" is empty",
        ),
        (
            Spec { roots: roots.clone(), deny: owned(&["/etc/*"]), ..Spec::default() },
            "\"/etc/*\" is outside of all roots",
        ),
        (
            Spec { roots: roots.clone(), allow: owned(&["/srv/x/*"]), ..Spec::default() },
            "outside of all roots",
        ),
        (Spec { roots, max_bytes: 0, ..Spec::default() }, "max_bytes: must be from 1 to 65536"),
        (Spec { roots: vec!["/a".into(); 1001], ..Spec::default() }, "more than 1000 entries"),
    ] {
        let said = Path::compile(&spec).unwrap_err();
        assert!(said.contains(words), "{said}");
    }
    assert!(serde_json::from_str::<Spec>(r#"{"roots":["/a"],"root":"/b"}"#).is_err());
}

/// The text of a call, with the text that is sent in its place.
#[test]
fn a_call_goes_up_nowhere_and_names_no_root_that_it_may_change() {
    let spec = |allow_root| Spec {
        roots: owned(&["/srv/data", "/srv/data/a/inner"]),
        base: Some("/srv/data/a".into()),
        uris: true,
        allow_root,
        ..Spec::default()
    };
    let sent = |allow_root, text: &str, reads| {
        Path::compile(&spec(allow_root)).unwrap().check_argument(text, reads)
    };
    for (text, forwarded) in [
        ("/srv/data/a/../b", Some("/srv/data/b")),
        ("b/../c", Some("/srv/data/a/c")),
        ("../c", Some("/srv/data/c")),
        ("/srv/data/b/c/..", Some("/srv/data/b")),
        ("/srv/data/b//./c", None),
        ("b..c/..d", None),
        ("file:///srv/data/b", None),
    ] {
        for reads in [true, false] {
            assert_eq!(sent(None, text, reads), Ok(forwarded.map(str::to_owned)), "{text}");
        }
    }
    assert!(sent(None, "file:///srv/data/a/../b", true).is_err());
    for root in [
        "/srv/data",
        "/srv/data/",
        "..",
        "/srv/data/b/..",
        "/srv/data/a",
        ".",
        "inner",
        "/srv/data/a/inner",
    ] {
        assert!(sent(None, root, true).is_ok() && sent(Some(true), root, false).is_ok(), "{root}");
        for (allow_root, reads) in [(None, false), (Some(false), false), (Some(false), true)] {
            assert!(
                sent(allow_root, root, reads)
                    .unwrap_err()
                    .0
                    .contains("is a root, which must not be changed"),
                "{root}"
            );
        }
    }
}

#[test]
fn what_takes_names_as_they_stand_is_sent_more_of_them() {
    let literal =
        Path::compile(&Spec { literal: true, deny: owned(&[".git", "*.pem"]), ..data_folder() })
            .unwrap();
    let plain = Path::compile(&Spec { deny: owned(&[".git", "*.pem"]), ..data_folder() }).unwrap();
    for name in ["~", "~/a", "$HOME", "${HOME}/a", "a\\", "\\a", "a\\x41", "{a,b}", "`a`", "$(a)"] {
        assert_eq!(
            literal.check(name).map(|checked| checked.path),
            Ok(format!("/srv/data/{name}")),
            "{name}"
        );
        assert!(plain.check(name).is_err(), "{name}");
    }
    for name in [
        "../a",
        "a/../../b",
        "%2e%2e/a",
        "a\u{200b}",
        ".git/config",
        "C:/a",
        "~/../../b",
        "a/$HOME/../../../b",
    ] {
        assert!(literal.check(name).is_err(), "{name}");
    }
    // The name is allowed under every reading of the backslash.
    for name in [
        ".g\\it/x",
        "a\\.git",
        "server.p\\em",
        "a\\..\\..\\b",
        "..\\b",
        "a\\0b",
        "a\\",
        "~\\a",
        "a\\ ..\\b",
        "C\\:/b",
        "a/.\\./b",
    ] {
        assert!(plain.check(name).is_err(), "{name}");
    }
    for name in ["a\\b", "it\\'s", "a/b\\ c"] {
        assert_eq!(
            plain.check(name).map(|checked| checked.path),
            Ok(format!("/srv/data/{name}")),
            "{name}"
        );
    }
}

fn data_folder() -> Spec {
    Spec { roots: owned(&["/srv/data"]), base: Some("/srv/data".into()), ..Spec::default() }
}

proptest! {
    #[test]
    fn what_passes_is_inside_its_root(text in "[./a~% \\\\\u{2024}\u{ff0f}:$;{},]{0,24}|(\\.\\./|\\./|a/|/srv/data/|\\.git){0,6}|.{0,24}") {
        for name in ["rel", "abs", "deny", "uri", "all"] {
            if let Ok(Checked { path, root, .. }) = rule(name).check(&text) {
                let inside = path == root || path.starts_with(&format!("{}/", root.trim_end_matches('/')));
                prop_assert!(inside, "{path} {root}");
                prop_assert!(!path.split('/').any(|n| n == ".." || n == "."), "{path}");
                prop_assert!(!path.contains("//") && !path.contains('\0'));
                // Nor outside for a program that reads a backslash as a slash.
                let other = path.replace('\\', "/");
                let above = other.split('/').any(|n| n == "..");
                prop_assert!(!above && other.starts_with(root.trim_end_matches('/')), "{other}");
                // Checking the result again does not change it.
                if name != "uri" {
                    prop_assert_eq!(rule(name).check(&path).map(|c| c.path), Ok(path));
                }
            }
        }
    }
}

#[test]
fn a_root_is_read_where_all_in_it_is_allowed() {
    let check = |allow: &str, reads| {
        let rule = Path::compile(&Spec {
            roots: owned(&["/srv/project"]),
            allow: owned(&[allow]),
            ..Spec::default()
        });
        rule.unwrap().check_argument("/srv/project", reads)
    };
    for allow in ["**", "**/*", "*", "/srv/project/**", "/srv/**"] {
        assert_eq!(check(allow, true), Ok(None), "{allow}");
        assert!(check(allow, false).is_err(), "{allow}");
    }
    for allow in ["docs/**", "*.md", "**/*.md", "/srv/project/docs/*"] {
        assert!(check(allow, true).is_err(), "{allow}");
    }
}
