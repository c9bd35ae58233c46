//! Policy files and their test cases: found, read with places, and checked for form. The policy
//! layer checks their meaning, and this module adds the places of its mistakes. A malformed policy
//! does not hide mistakes in others; only its name is used.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use globset::GlobMatcher;
use lockgate_policy::cases::Cases;
use lockgate_policy::file::{File, Policy as Written};
use lockgate_policy::{Config, Document, Policy, PolicyEntry, PolicyError};

use crate::problem::{Problem, Problems, Report, ValuePlace};
use crate::source::layer::{check_as, items};
use crate::source::node::Node;
use crate::source::{self, reason};

/// Maximum number of policy files.
const MAX_POLICY_FILES: usize = 1000;
/// Maximum number of names reported for a folder.
const MAX_REPORTED_NAMES: usize = 10;

/// Policy files that were read, with their places.
pub struct Read {
    files: Vec<Source>,
}

struct Source {
    document: Document,
    node: Node,
    /// Indices in the file of the document's policies.
    places: Vec<usize>,
}

impl Read {
    pub fn documents(&self) -> Vec<Document> {
        self.files.iter().map(|file| file.document.clone()).collect()
    }

    /// Returns the place and the whole key of a part of a policy. `at` are the indices of the file
    /// and of its policy, `path` is the key in the policy.
    pub fn locate(
        &self,
        (file, at): (usize, usize),
        path: &[impl AsRef<str>],
    ) -> Option<(ValuePlace, String)> {
        let Source { node, places, .. } = self.files.get(file)?;
        let at = places.get(at)?;
        let mut full = vec!["policies".to_owned(), at.to_string()];
        full.extend(path.iter().map(|part| part.as_ref().to_owned()));
        Some((node.nearest_place(&full), full.join(".")))
    }
}

/// Loads the policies of these files and folders only, for the command line.
///
/// # Errors
/// Every mistake in them.
pub fn load(paths: &[PathBuf], cwd: &Path) -> Result<Config, Report> {
    let mut problems = Problems::default();
    let mut all = Vec::new();
    for path in paths {
        let found = files(&cwd.join(path));
        let found = found.map_err(|what| Problem::error(ValuePlace::file(path), "", what));
        all.extend(problems.value_of(found).into_iter().flatten());
    }
    all.sort();
    all.dedup();
    let read = read(&all, cwd, &mut problems);
    let config = Config { documents: read.documents(), ..Config::default() };
    for PolicyError { at, path, what, hint } in Policy::compile(&config).err().unwrap_or_default() {
        match at.and_then(|at| read.locate(at, &path)) {
            Some((place, key)) => problems.error(place, key, what, hint),
            None => problems.push(Problem::error(ValuePlace::Nowhere, path.join("."), what)),
        }
    }
    problems.finish()?;
    Ok(config)
}

/// Reads the cases of a file.
///
/// # Errors
/// Every mistake in it.
pub fn cases(path: &Path, cwd: &Path) -> Result<Cases, Report> {
    let mut problems = Problems::default();
    let node = problems.value_of(source::read_file(&cwd.join(path), cwd, false));
    let cases = node.and_then(|mut node| {
        check_as::<Cases>(&mut node, "`lockgate schema --cases`", &mut problems)
    });
    problems.finish()?;
    cases.ok_or(Report { problems: Vec::new() })
}

/// Returns the files for a name: the file itself, a folder's files, or the matches of a pattern.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    if path.is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    let last = last_name(path).to_str().unwrap_or("");
    let (folder, pattern) = if path.is_dir() {
        (path, "*.{yaml,yml}")
    } else if last.contains(['*', '?', '[', '{']) {
        (path.parent().unwrap_or(path), last)
    } else {
        return Err("there is no such file or folder".into());
    };
    let pattern = globset::Glob::new(pattern).map_err(|error| error.kind().to_string())?;
    let dots = last.starts_with('.') && folder != path;
    let mut found = list(folder, &pattern.compile_matcher(), dots)
        .map_err(|error| format!("the folder cannot be read: {}", reason(&error)))?;
    if found.len() > MAX_POLICY_FILES {
        return Err(format!("there are more than {MAX_POLICY_FILES} files"));
    }
    found.sort();
    // Skipping a file could skip its denies.
    let mistakes = found.iter().filter_map(|path| unreachable(path));
    let mistakes: Vec<_> = mistakes.take(MAX_REPORTED_NAMES).collect();
    match (mistakes.is_empty(), found.is_empty()) {
        (false, _) => Err(mistakes.join("; ")),
        (_, true) => Err("no file matches".into()),
        _ => Ok(found),
    }
}

/// Returns the files in a folder that match a pattern, at most one more than the maximum.
#[allow(clippy::disallowed_methods, reason = "lists folders that the operator named")]
fn list(folder: &Path, pattern: &GlobMatcher, dots: bool) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        // Drafts and editors' locks begin with a dot, unless the pattern does too.
        let dotted = name.as_encoded_bytes().starts_with(b".");
        if pattern.is_match(&name) && (dots || !dotted) {
            found.push(entry.path());
        }
        if found.len() > MAX_POLICY_FILES {
            break;
        }
    }
    Ok(found)
}

fn last_name(path: &Path) -> &OsStr {
    path.file_name().unwrap_or(OsStr::new(""))
}

/// Returns why a path is not a readable file, if so.
#[allow(
    clippy::disallowed_methods,
    reason = "looks at what is in a folder that the operator named"
)]
fn unreachable(path: &Path) -> Option<String> {
    let name = last_name(path).display();
    match std::fs::metadata(path) {
        Ok(data) if data.is_file() => None,
        Ok(_) => Some(format!("`{name}` is not a file")),
        Err(error) if error.kind() == ErrorKind::NotFound && path.is_symlink() => {
            Some(format!("`{name}` is a broken link"))
        }
        Err(error) => Some(format!("`{name}` cannot be read: {}", reason(&error))),
    }
}

/// Reads policy files, including the usable parts of files with mistakes.
pub fn read(files: &[PathBuf], cwd: &Path, problems: &mut Problems) -> Read {
    Read { files: files.iter().filter_map(|path| read_source(path, cwd, problems)).collect() }
}

fn read_source(path: &Path, cwd: &Path, problems: &mut Problems) -> Option<Source> {
    let mut node = problems.value_of(source::read_file(path, cwd, false))?;
    let hint = "set a value, or remove it; JSON's null in a schema is `type: \"null\"`";
    node.refuse_keys_without_value(hint, problems);
    let file = check_as::<File>(&mut node, "`lockgate schema --policy`", problems);
    let mut left = file.map_or(Vec::new(), |file| file.policies).into_iter();
    let mut policies = Vec::new();
    let mut places = Vec::new();
    for (at, item) in items(node.get(&["policies"])).into_iter().enumerate() {
        let policy = if item.is_damaged { None } else { left.next() };
        let is_whole = !node.has_damage(&["policies", &at.to_string()]);
        let policy = match (policy, item.text_at(&["name"])) {
            (Some(policy), _) if is_whole => policy,
            // Reserves the name of a malformed policy. Never in force.
            (_, Some(name)) => Written::deny(name),
            (_, None) => continue,
        };
        let line = match &item.place {
            ValuePlace::File { line, .. } => *line,
            _ => 0,
        };
        policies.push(PolicyEntry { policy, line, source: item.to_json() });
        places.push(at);
    }
    let name = source::display_path(path, cwd).display().to_string();
    Some(Source { document: Document { name, policies }, node, places })
}
