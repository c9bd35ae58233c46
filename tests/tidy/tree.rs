//! The files of the repository: those that git tracks or, without git, all that it would not
//! ignore.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Names that are skipped when git is not available.
const IGNORED: [&str; 7] =
    [".git", "target", "node_modules", ".venv", "__pycache__", ".cache", ".DS_Store"];

/// A file: its path from the root, separated by `/`, and its text, empty unless UTF-8.
pub struct File {
    pub path: String,
    pub text: String,
}

impl File {
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns whether the file holds only tests. The other crates in `tests/` are programs and
    /// libraries.
    pub fn is_test(&self) -> bool {
        let own = self.path.strip_prefix("tests/").unwrap_or(&self.path);
        if own.strip_prefix("integration/").is_some_and(|file| !file.contains('/')) {
            return true;
        }
        own.split('/').any(|part| part == "tests" || part == "tests.rs")
    }
}

pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

/// Returns every file; each is read once.
pub fn files() -> &'static [File] {
    static FILES: OnceLock<Vec<File>> = OnceLock::new();
    FILES.get_or_init(|| {
        let root = root();
        let mut paths = tracked(&root).unwrap_or_else(|| walked(&root));
        paths.sort();
        let exists = paths.into_iter().filter(|path| root.join(path).is_file());
        exists
            .map(|path| File {
                text: std::fs::read_to_string(root.join(&path)).unwrap_or_default(),
                path,
            })
            .collect()
    })
}

/// Panics with every offence that `rule` finds in the files that `of` selects, or when `of` selects
/// fewer than `at_least` files.
pub fn hold(of: impl Fn(&File) -> bool, at_least: usize, rule: impl Fn(&File) -> Vec<String>) {
    let selected: Vec<&File> = files().iter().filter(|file| of(file)).collect();
    assert!(selected.len() >= at_least, "only {} files were looked at", selected.len());
    let offences: Vec<String> = selected
        .iter()
        .flat_map(|file| rule(file).into_iter().map(|offence| format!("{}: {offence}", file.path)))
        .collect();
    assert!(offences.is_empty(), "{} offences:\n{}", offences.len(), offences.join("\n"));
}

fn tracked(root: &Path) -> Option<Vec<String>> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().ok()?;
    let text = String::from_utf8(listed.stdout).ok()?;
    let paths: Vec<String> =
        text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    (listed.status.success() && !paths.is_empty()).then_some(paths)
}

fn walked(root: &Path) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().filter_map(Result::ok) {
            let (path, name) = (entry.path(), entry.file_name());
            if IGNORED.contains(&name.to_string_lossy().as_ref()) || path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(inside) = path.strip_prefix(root) {
                found.push(inside.to_string_lossy().into_owned());
            }
        }
    }
    found
}

#[test]
fn walking_finds_what_git_tracks() {
    let walked = walked(&root());
    let missed: Vec<&String> =
        files().iter().map(|file| &file.path).filter(|path| !walked.contains(path)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}
