//! Checks of the documentation: links resolve, examples have a README, and every block of README.md
//! is marked for `tests/readme`, which runs the blocks and states their number.

use crate::tree::{File, files, hold, root};

const MARK: &str = "<!-- test: ";
/// Precedes a block that is copied line by line from this file.
const FROM: &str = "<!-- from: ";

/// Returns an offence for each block without a mark, and for each mark without a block.
fn unmarked(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut offences = Vec::new();
    let mut inside = false;
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with("```") {
            let marked = at > 0 && lines[at - 1].starts_with(MARK);
            if !inside && !marked {
                offences.push(format!("the block at line {} is not marked for a test", at + 1));
            }
            inside = !inside;
        } else if line.starts_with(MARK)
            && !lines.get(at + 1).is_some_and(|next| next.starts_with("```"))
        {
            offences.push(format!("no block follows the mark at line {}", at + 1));
        }
    }
    offences
}

/// Returns the path and the text of each block that is copied from a file.
fn copied(page: &'static str) -> Vec<(&'static str, &'static str)> {
    let marks = page.split(FROM).skip(1);
    let copy = |rest: &'static str| {
        let (path, rest) = rest.split_once(" -->\n```rust\n")?;
        Some((path, rest.split_once("```\n")?.0))
    };
    marks.map(|rest| copy(rest).unwrap_or((rest.lines().next().unwrap_or_default(), ""))).collect()
}

/// Returns the relative links of a page to missing files.
fn broken_links(file: &File) -> Vec<String> {
    let root = root();
    let folder = root.join(&file.path);
    let targets = file.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| {
            !target.contains("://") && !target.starts_with('#') && !target.contains(' ')
        })
        .filter_map(|target| target.split('#').next())
        .filter(|path| !folder.parent().is_some_and(|folder| folder.join(path).exists()))
        .map(|path| format!("the link to {path} leads nowhere"))
        .collect()
}

/// Returns the modules that a page names and that do not exist, such as `proxy/relay`. Those of
/// `tools` are left out, because methods of the protocol look the same.
fn missing_modules(file: &File) -> Vec<String> {
    let sources = root().join("gateway");
    let quoted = file.text.split('`').skip(1).step_by(2);
    let named = quoted.filter(|name| {
        let is_path =
            name.bytes().all(|byte| byte.is_ascii_lowercase() || b"_/0123456789".contains(&byte));
        let layer = name.split_once('/').map_or("", |(layer, _)| layer);
        is_path && !["", "tools"].contains(&layer) && sources.join(layer).is_dir()
    });
    named
        .filter(|name| !sources.join(format!("{name}.rs")).exists() && !sources.join(name).is_dir())
        .map(|name| format!("there is no module {name}"))
        .collect()
}

/// Returns the rows of the corpora table that state a wrong number of entries.
fn miscounted(table: &str) -> Vec<String> {
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let counted = rows.filter_map(|row| {
        let (name, rest) = row.split_once("` | ")?;
        let corpus = text(&format!("tests/corpora/{name}"));
        let entries =
            corpus.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).count();
        (entries > 0).then(|| (name, entries, rest.split(' ').next().unwrap_or_default()))
    });
    let wrong = counted.filter(|(_, entries, said)| entries.to_string() != **said);
    wrong.map(|(name, entries, said)| format!("{name} has {entries} entries, not {said}")).collect()
}

fn text(path: &str) -> &'static str {
    files().iter().find(|file| file.path == path).map_or("", |file| &file.text)
}

#[test]
fn the_readme_blocks_are_the_ones_that_are_run() {
    hold(|file| file.path == "README.md", 1, |file| unmarked(&file.text));
    let marks = text("README.md").lines().filter(|line| line.starts_with(MARK)).count();
    let line = format!("BLOCKS = {marks}\n");
    assert!(
        marks > 5 && text("tests/readme").contains(&line),
        "tests/readme lacks the line {line}"
    );
}

#[test]
fn the_table_of_corpora_is_true() {
    let page = text("tests/README.md");
    assert_eq!(miscounted(page), Vec::<String>::new());
    let corpora = files()
        .iter()
        .filter(|file| file.path.starts_with("tests/corpora/") && !file.path.ends_with(".md"));
    for file in corpora {
        let name = file.path.trim_start_matches("tests/corpora/");
        assert!(page.contains(&format!("| `{name}` | ")), "tests/README.md lacks {name}");
    }
}

#[test]
fn the_walk_through_is_the_code() {
    let blocks = copied(text("CONTRIBUTING.md"));
    assert_eq!(blocks.len(), 4, "{blocks:?}");
    for (path, block) in blocks {
        let whole = block.starts_with("//!");
        let code = text(path);
        let there = if whole { code == block } else { code.contains(block) };
        assert!(
            !block.is_empty() && there,
            "CONTRIBUTING.md shows of {path} what is not there:\n{block}"
        );
    }
}

#[test]
fn every_integration_test_is_explained() {
    let page = text("tests/README.md");
    let tests = files().iter().filter_map(|file| file.path.strip_prefix("tests/integration/"));
    let tests: Vec<&str> =
        tests.filter(|name| name.ends_with(".rs") && !name.contains('/')).collect();
    assert!(tests.len() > 20, "{tests:?}");
    for name in tests.into_iter().filter(|name| !["lib.rs", "rig.rs"].contains(name)) {
        assert!(page.contains(&format!("| `{name}` | ")), "tests/README.md lacks {name}");
    }
}

#[test]
fn links_lead_somewhere() {
    hold(|file| file.path.ends_with(".md"), 10, broken_links);
}

#[test]
fn the_modules_of_the_pages_exist() {
    let pages = ["ARCHITECTURE.md", "docs/limits.md"];
    hold(|file| pages.contains(&file.path.as_str()), 2, missing_modules);
}

#[test]
fn every_example_is_explained_and_listed() {
    let mut folders: Vec<&str> = files()
        .iter()
        .filter_map(|file| file.path.strip_prefix("examples/")?.split_once('/'))
        .map(|(folder, _)| folder)
        .collect();
    folders.dedup();
    assert!(folders.len() >= 3, "{folders:?}");
    for folder in &folders {
        assert!(
            !text(&format!("examples/{folder}/README.md")).is_empty(),
            "examples/{folder} has no README.md"
        );
        assert!(
            text("README.md").contains(&format!("(examples/{folder})")),
            "README.md does not list examples/{folder}"
        );
    }
    let listed = text("README.md").matches("](examples/").count();
    assert_eq!(listed, folders.len(), "examples that README.md lists");
}

#[test]
fn planted_documents_are_found() {
    assert_eq!(miscounted("| `url/benign.txt` | 1 | all |\n| `x` | 1 |").len(), 1);
    assert!(unmarked("<!-- test: run -->\n```sh\nls\n```\n").is_empty());
    assert_eq!(unmarked("text\n```sh\nls\n```\n").len(), 1);
    assert_eq!(unmarked("<!-- test: run -->\n\n```sh\nls\n```\n").len(), 2);
    let page = |text: &str| File { path: "docs/page.md".into(), text: text.into() };
    assert!(
        broken_links(&page("[a](../README.md#x) [b](https://example.com/x) [c](#here)")).is_empty()
    );
    assert_eq!(broken_links(&page("[a](../NOWHERE.md)")).len(), 1);
}

/// Joins the Rust string literals that a trailing backslash continues on the next line.
fn unfold(text: &str) -> String {
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |whole, part| whole + part.trim_start())
}

/// Returns the messages in a page's headings that occur nowhere in the program.
fn unsaid(page: &str, program: &[String]) -> Vec<String> {
    let mut offences = Vec::new();
    for line in page.lines() {
        let Some(message) = line.strip_prefix("### `").and_then(|rest| rest.strip_suffix('`'))
        else {
            continue;
        };
        if !program.iter().any(|text| text.contains(message)) {
            offences.push(format!("nothing says `{message}`"));
        }
    }
    offences
}

#[test]
fn troubleshooting_quotes_what_the_program_says() {
    let is_said =
        |file: &&File| file.is_rust() && !file.is_test() && file.path.starts_with("gateway/");
    let program: Vec<String> =
        files().iter().filter(is_said).map(|file| unfold(&file.text)).collect();
    assert!(unsaid("### `nobody ever says this`", &program).len() == 1);
    let page = files().iter().find(|file| file.path == "docs/troubleshooting.md").unwrap();
    assert!(page.text.matches("\n### `").count() > 20);
    assert_eq!(unsaid(&page.text, &program), Vec::<String>::new());
}
