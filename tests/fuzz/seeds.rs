//! Seed inputs from `tests/corpora` and `policies/`.

use std::path::Path;

/// Each target with its corpus files, an input per line, and its number of rules.
const TARGETS: [(&str, &[&str], u8); 5] = [
    (
        "sql",
        &[
            "sql/attack-postgres.sql",
            "sql/benign-postgres.sql",
            "sql/attack-mysql.sql",
            "sql/benign-mysql.sql",
            "sql/attack-sqlite.sql",
            "sql/benign-sqlite.sql",
        ],
        9,
    ),
    ("path", &["path/attack.txt", "path/benign.txt"], 5),
    ("url", &["url/attack.txt", "url/benign.txt"], 4),
    ("uri", &["uri/attack.txt", "uri/benign.txt"], 12),
    ("command", &["command/attack.txt", "command/benign.txt"], 2),
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the inputs of a target: every text of its corpora, once for each rule.
pub(crate) fn of(target: &str) -> Vec<Vec<u8>> {
    let Some((_, files, rules)) = TARGETS.iter().find(|(name, ..)| *name == target) else {
        return files();
    };
    let mut all = Vec::new();
    for file in *files {
        let text =
            std::fs::read_to_string(root().join("tests/corpora").join(file)).expect("a corpus");
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")) {
            let texts = [text_of(target, line)];
            all.extend(
                texts
                    .iter()
                    .flat_map(|text| (0..*rules).map(|rule| [&[rule], text.as_bytes()].concat())),
            );
        }
    }
    all
}

/// Strips the rule's name from a line and decodes JSON; a JSON list is an argument vector.
fn text_of(target: &str, line: &str) -> String {
    let text = match target {
        "path" | "url" => line.split_once(' ').map_or(line, |(_, text)| text),
        _ => line,
    };
    if let Ok(words) = serde_json::from_str::<Vec<String>>(text) {
        return words.join("\n");
    }
    serde_json::from_str(text).unwrap_or_else(|_| text.replace("${CR}", "\r"))
}

fn files() -> Vec<Vec<u8>> {
    let all = std::fs::read_dir(root().join("policies"))
        .expect("policies")
        .flatten()
        .map(|entry| entry.path());
    let all = all.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    all.map(|path| std::fs::read(path).expect("a policy file")).collect()
}

/// Writes the inputs with a subfolder per target, to the folder `LOCKGATE_SEEDS` if it is set.
#[test]
fn every_target_has_seeds() {
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = std::env::var_os("LOCKGATE_SEEDS").unwrap_or_else(|| scratch.path().into());
    for target in ["sql", "path", "url", "uri", "command", "file"] {
        let folder = Path::new(&folder).join(target);
        std::fs::create_dir_all(&folder).expect("a folder");
        for (n, seed) in of(target).iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{n:05}")), seed).expect("a seed");
        }
        let written = std::fs::read_dir(&folder).expect("a folder").count();
        assert!(written >= 5, "{target}: {written}");
    }
}
