//! `include`: further files of the configuration. Each is read and checked on its own, with its own
//! folder for relative paths. Contradictions between files are mistakes, reported with both places.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::{Loading, is_definition, same};
use crate::policies;
use crate::problem::{Problems, ValuePlace};
use crate::source::display_path;
use crate::source::forms::is_at_or_below;
use crate::source::layer::{items, listed, unreadable};
use crate::source::node::{Node, Value};

/// Maximum number of files of a configuration.
const MAX_FILES: usize = 64;
/// Lists that are concatenated over all files.
const ADDED: [&str; 5] = ["import", "include", "policy.files", "policy.*.allow", "policy.*.deny"];

#[derive(Default)]
struct Included {
    layers: Vec<Node>,
    /// Every canonical file path, with the place that names it.
    seen: BTreeMap<PathBuf, ValuePlace>,
    /// The chain of includes that leads to the current file.
    chain: Vec<PathBuf>,
}

impl Loading<'_> {
    /// Reads a file with all its includes, as a single layer.
    pub(super) fn file_with_includes(&mut self, path: &Path) -> Node {
        let mut included = Included::default();
        self.include(path, ValuePlace::Nowhere, &mut included);
        let mut layers = included.layers.into_iter();
        let Some(mut all) = layers.next() else { return unreadable() };
        for layer in layers {
            let is_damaged = all.is_damaged || layer.is_damaged;
            merge(&mut all, &layer, &mut Vec::new(), &mut self.problems);
            all.is_damaged = is_damaged;
        }
        all
    }

    fn include(&mut self, path: &Path, named_at: ValuePlace, included: &mut Included) {
        let known = canonical(path);
        included.seen.insert(known.clone(), named_at);
        let base = path.parent().unwrap_or(path).to_path_buf();
        let layer = match self.read(path, false) {
            Some(mut node) => {
                self.find_lost(&mut node);
                self.layer(node, &base, false)
            }
            None => unreadable(),
        };
        let named = self.named_files(&layer, path);
        included.layers.push(layer);
        included.chain.push(known);
        for (file, place) in named {
            if let Some(what) = self.refuse(&file, &place, included) {
                self.problems.error(place, "include", what, "include each file once");
            } else if included.seen.len() >= MAX_FILES {
                let what = format!("a configuration has at most {MAX_FILES} files");
                self.problems.error(place, "include", what, "merge some of them");
                break;
            } else {
                self.include(&file, place, included);
            }
        }
        included.chain.pop();
    }

    /// Returns the files that `include` of a file refers to, each with its place.
    fn named_files(&mut self, root: &Node, path: &Path) -> Vec<(PathBuf, ValuePlace)> {
        let path = plain(path);
        let base = path.parent().unwrap_or(&path);
        let mut files = Vec::new();
        for (name, place, is_secret) in listed(root.find_usable(&["include"])) {
            let whole = plain(&base.join(&name));
            let found = if whole.starts_with(base) {
                policies::files(&whole).and_then(|found| within(base, found))
            } else {
                Err("is outside the folder of the including file".to_string())
            };
            match found {
                Ok(found) => {
                    // A pattern may also match its own file.
                    let others = found.into_iter().filter(|file| *file != path || *file == whole);
                    files.extend(others.map(|file| (file, place.clone())));
                }
                Err(what) => {
                    let shown = if is_secret { String::new() } else { format!("`{name}`: ") };
                    let hint = "use a file, a folder, or a pattern such as teams/*.yaml, in or \
                        below the folder of the including file";
                    self.problems.error(place, "include", format!("{shown}{what}"), hint);
                }
            }
        }
        files
    }

    /// Returns why a file must not be included here, if so.
    fn refuse(&self, file: &Path, place: &ValuePlace, included: &Included) -> Option<String> {
        let known = file.canonicalize().ok()?;
        let cwd = &self.sources.cwd;
        if let Some(at) = included.chain.iter().position(|open| *open == known) {
            let mut names: Vec<_> =
                included.chain[at..].iter().map(|open| name_of(open, cwd)).collect();
            names.push(name_of(&known, cwd));
            return Some(format!("the files include each other: {}", names.join(" → ")));
        }
        let first = included.seen.get(&known)?;
        let shown = name_of(file, cwd);
        if first == place {
            Some(format!("{shown} is included twice here"))
        } else {
            Some(format!("{shown} is included twice; the other place is {first}"))
        }
    }
}

/// Returns the files, unless a symbolic link leads out of the folder.
fn within(base: &Path, files: Vec<PathBuf>) -> Result<Vec<PathBuf>, String> {
    let base = canonical(base);
    match files.iter().find(|file| file.canonicalize().is_ok_and(|file| !file.starts_with(&base))) {
        Some(_) => Err("is a link out of the folder of the including file".into()),
        None => Ok(files),
    }
}

/// Returns the canonical path, or `path` if it does not exist.
fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

fn name_of(file: &Path, cwd: &Path) -> String {
    let shown = file.strip_prefix(canonical(cwd)).unwrap_or(file);
    display_path(shown, cwd).display().to_string()
}

/// Returns the path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components().filter(|part| *part != Component::CurDir) {
        match part {
            Component::ParentDir => _ = plain.pop(),
            part => plain.push(part),
        }
    }
    plain
}

/// Merges another file into `into`. Contradictions are reported, and `into` wins.
fn merge(into: &mut Node, from: &Node, path: &mut Vec<String>, problems: &mut Problems) {
    if from.is_damaged || matches!(from.value, Value::Null) {
        return;
    }
    if into.is_damaged || matches!(into.value, Value::Null) {
        *into = from.clone();
        return;
    }
    let is_server = path.len() == 2 && path[0] == "servers";
    if is_server && is_definition(into) && is_definition(from) && !same(into, from) {
        return differ(into, from, "another server with this name is defined", path, problems);
    }
    if ADDED.iter().any(|key| is_at_or_below(path, key)) {
        let mut all = items(Some(into));
        all.extend(items(Some(from)));
        into.value = Value::List(all);
        return;
    }
    if let (Value::Map(known), Value::Map(new)) = (&mut into.value, &from.value) {
        for (key, from) in new {
            path.push(key.clone());
            match known.get_mut(key) {
                Some(known) => merge(known, from, path, problems),
                None => _ = known.insert(key.clone(), from.clone()),
            }
            path.pop();
        }
    } else if into.to_figment() != from.to_figment() {
        differ(into, from, "a different value is set", path, problems);
    }
}

fn differ(into: &Node, from: &Node, what: &str, path: &[String], problems: &mut Problems) {
    let key = path.join(".");
    let hint = match path {
        [servers, _] if servers == "servers" => "rename one of them",
        _ => "keep it in one of the files",
    };
    let what = format!("{what} at {}", into.place);
    problems.error(from.place.clone(), key, what, hint);
}
