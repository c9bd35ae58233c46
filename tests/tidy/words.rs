//! Checks for forbidden words: vague file names, markers of unfinished work, and machine-specific
//! paths or hosts.

use crate::tree::{File, hold};

/// File and folder names that do not describe their contents.
const NAMES: [&str; 14] = [
    "common", "core", "handler", "handlers", "helper", "helpers", "manager", "managers", "misc",
    "service", "services", "types", "util", "utils",
];

/// Split so that this file passes its own check.
const PROMISES: [&str; 6] = [
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("#[", "ignore"),
    concat!("placeholder ", "for"),
];

/// Machine paths, and package registry hosts, which a lock file or a script must not choose for its
/// users.
const PLACES: [&str; 11] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/Use", "rs/"),
    concat!("/mnt", "/data/"),
    concat!("registry.", "npmjs.org"),
    concat!("registry.", "yarnpkg.com"),
    concat!("//pypi", ".org"),
    concat!("files.", "pythonhosted.org"),
    concat!("static.", "crates.io"),
    concat!("index.", "crates.io"),
    concat!("proxy.", "golang.org"),
];

/// Strips a leading mark and all extensions from a name: `_x.tpl` and `x.test.mjs` both become `x`.
fn stem(name: &str) -> &str {
    let bare = name.trim_start_matches(['.', '_']);
    bare.split('.').next().unwrap_or(bare)
}

fn empty_names(path: &str) -> Vec<String> {
    let stems = path.split('/').map(|name| stem(name).to_ascii_lowercase());
    stems
        .filter(|stem| NAMES.contains(&stem.as_str()))
        .map(|stem| format!("{stem:?} says nothing as a name"))
        .collect()
}

fn found(words: &[&str], text: &str) -> Vec<String> {
    let lines = text.lines().enumerate();
    let hits = lines.flat_map(|(at, line)| {
        words.iter().filter(move |word| line.contains(**word)).map(move |word| (at, word))
    });
    hits.map(|(at, word)| format!("line {} has {word:?}", at + 1)).collect()
}

/// Returns whether the file is our code. Prose may mention such words; lock files are generated.
fn is_code(file: &File) -> bool {
    ![".md", ".lock", "-lock.json", "LICENSE"].iter().any(|end| file.path.ends_with(end))
}

#[test]
fn names_say_something() {
    hold(|_| true, 200, |file| empty_names(&file.path));
}

#[test]
fn nothing_is_left_for_later() {
    hold(is_code, 200, |file| found(&PROMISES, &file.text));
}

#[test]
fn no_place_is_anybodys_own() {
    // Questions of corpora name files.
    hold(|file| !file.path.ends_with(".jsonl"), 200, |file| found(&PLACES, &file.text));
}

#[test]
fn planted_words_are_found() {
    for path in [
        "gateway/utils.rs",
        "gateway/core/x.rs",
        "helm/templates/_helpers.tpl",
        "a/Manager.rs",
        "a/types.test.mjs",
    ] {
        assert_eq!(empty_names(path).len(), 1, "{path}");
    }
    for path in ["gateway/proxy/hub.rs", "gateway/scoreboard.rs", "tests/e2e/harness/servers.py"] {
        assert!(empty_names(path).is_empty(), "{path}");
    }
    for word in PROMISES {
        assert_eq!(
            found(&PROMISES, &format!("fine\n  {word} x")),
            [format!("line 2 has {word:?}")]
        );
    }
    for word in PLACES {
        assert_eq!(found(&PLACES, &format!("see {word}x")).len(), 1, "{word}");
    }
    assert!(found(&PLACES, "https://example.com/path/to/file").is_empty());
}
