//! Policy files and the cases that test them: found, read with places, and checked on their own. What a policy means is
//! up to the policy layer; this says where the mistakes are that it finds.

use std::path::{Path, PathBuf};

use lockgate_policy::cases::Cases;
use lockgate_policy::file::File;
use lockgate_policy::{Config, Document, Entry, Policy};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::problem::{Place, Problem, Problems, Report};
use crate::source::layer::Layer;
use crate::source::node::{Node, Value};
use crate::source::{self, reason};

/// Most policy files.
const FILES: usize = 1000;

/// Policy files that were read, with their places.
#[derive(Default)]
pub struct Read(Vec<(Document, Node)>);

impl Read {
    pub fn documents(&self) -> Vec<Document> {
        self.0.iter().map(|(document, _)| document.clone()).collect()
    }

    /// A mistake of the policy layer at its place: of the file, of the policy in it, and of the key in that.
    pub fn problem(&self, at: (usize, usize), path: &[String], what: &str, hint: &str) -> Option<Problem> {
        let (place, key) = self.place(at, path)?;
        Some(Problem::error(place, key, what).hint(hint))
    }

    /// The same for what is no mistake.
    pub fn warning(&self, at: (usize, usize), path: &[String], what: &str, hint: &str) -> Option<Problem> {
        let (place, key) = self.place(at, path)?;
        Some(Problem::warning(place, key, what).hint(hint))
    }

    fn place(&self, (file, at): (usize, usize), path: &[String]) -> Option<(Place, String)> {
        let (_, node) = self.0.get(file)?;
        let full: Vec<String> = ["policies".to_owned(), at.to_string()].into_iter().chain(path.to_vec()).collect();
        // What is missing is pointed at where it should be.
        let place = (1..=full.len()).rev().find_map(|n| node.place_of(&full[..n])).unwrap_or(Place::Nowhere);
        Some((place, full.join(".")))
    }
}

/// The policies of some files and folders alone, for the command line.
///
/// # Errors
/// Every mistake in them.
pub fn load(paths: &[PathBuf], cwd: &Path) -> Result<Config, Report> {
    let mut problems = Problems::default();
    let mut all = Vec::new();
    for path in paths {
        match files(&cwd.join(path)) {
            Ok(found) => all.extend(found),
            Err(what) => problems.push(Problem::error(Place::file(path), "", what)),
        }
    }
    all.sort();
    all.dedup();
    let read = read(&all, cwd, &mut problems).unwrap_or_default();
    let config = Config { documents: read.documents(), ..Config::default() };
    for mistake in Policy::compile(&config).err().into_iter().flatten() {
        let problem = mistake.at.and_then(|at| read.problem(at, &mistake.path, &mistake.what, &mistake.hint));
        let general = || Problem::error(Place::Nowhere, mistake.path.join("."), mistake.what.clone());
        problems.push(problem.unwrap_or_else(general));
    }
    problems.finish().map(|_| config)
}

/// The cases of one file.
///
/// # Errors
/// Every mistake in it.
pub fn cases(path: &Path, cwd: &Path) -> Result<Cases, Report> {
    let mut problems = Problems::default();
    let cases = one::<Cases>(&cwd.join(path), cwd, true, &mut problems);
    problems.finish()?;
    cases.map(|(cases, _)| cases).ok_or_else(|| Report { problems: Vec::new() })
}

/// The files that a name stands for: itself, those of a folder, or those that fit a pattern.
#[allow(clippy::disallowed_methods, reason = "lists folders that the operator named")]
pub fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    if path.is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    let last = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (folder, pattern) = match path.is_dir() {
        true => (path, "*.{yaml,yml}"),
        false if last.contains(['*', '?', '[', '{']) => (path.parent().unwrap_or(path), last),
        false => return Err("there is no such file or folder".into()),
    };
    let pattern = globset::Glob::new(pattern).map_err(|error| error.kind().to_string())?.compile_matcher();
    let entries =
        std::fs::read_dir(folder).map_err(|error| format!("the folder cannot be read: {}", reason(&error)))?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let fits = |path: &PathBuf| path.file_name().is_some_and(|name| pattern.is_match(name)) && path.is_file();
    let found: Vec<PathBuf> = paths.filter(fits).take(FILES + 1).collect();
    match found.len() {
        0 => Err("there is no policy file".into()),
        n if n > FILES => Err(format!("there are more than {FILES} policy files")),
        _ => Ok(found),
    }
}

/// Reads policy files; `None` when something is wrong with one of them.
pub fn read(files: &[PathBuf], cwd: &Path, problems: &mut Problems) -> Option<Read> {
    let read: Vec<_> = files.iter().map(|path| document(path, cwd, problems)).collect();
    read.into_iter().collect::<Option<Vec<_>>>().map(Read)
}

fn document(path: &Path, cwd: &Path, problems: &mut Problems) -> Option<(Document, Node)> {
    let (file, node) = one::<File>(path, cwd, false, problems)?;
    let entries = file.policies.into_iter().enumerate().map(|(at, policy)| {
        let keys = ["policies".to_owned(), at.to_string()];
        let line = match node.get(&keys).map(|node| &node.place) {
            Some(Place::File { line, .. }) => *line,
            _ => 0,
        };
        let source = node.get(&keys).map_or(Json::Null, json);
        Entry { policy, line, source }
    });
    let name = source::display_path(path, cwd).display().to_string();
    Some((Document { name, policies: entries.collect() }, node))
}

/// One file as a type; `None` when something is wrong with it, which is reported.
fn one<T: DeserializeOwned>(path: &Path, cwd: &Path, nulls: bool, problems: &mut Problems) -> Option<(T, Node)> {
    let node = match source::read_file(path, cwd, false) {
        Ok(node) => node,
        Err(problem) => {
            problems.push(problem);
            return None;
        }
    };
    let mut empty = Vec::new();
    if !nulls {
        unsaid(&node, &mut Vec::new(), &mut empty);
    }
    let unsaid = !empty.is_empty();
    for (place, key) in empty {
        let hint = "give it a value, or take it out; JSON's null in a schema is `type: \"null\"`";
        problems.push(Problem::error(place, key, "has no value").hint(hint));
    }
    let mut layer = Layer::new(node);
    let whole = layer.check_as::<T>(problems);
    let fine = !unsaid && layer.damaged.is_empty();
    whole.filter(|_| fine).map(|whole| (whole, layer.root))
}

/// Keys without a value: whoever wrote `who:` and nothing behind it did not mean everybody.
fn unsaid(node: &Node, path: &mut Vec<String>, found: &mut Vec<(Place, String)>) {
    match &node.value {
        Value::Map(map) => {
            for (key, entry) in map {
                path.push(key.clone());
                match entry.node.value {
                    Value::Null => found.push((entry.place.clone(), path.join("."))),
                    _ => unsaid(&entry.node, path, found),
                }
                path.pop();
            }
        }
        Value::List(items) => {
            for (at, item) in items.iter().enumerate() {
                path.push(at.to_string());
                unsaid(item, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

fn json(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::Integer(value) => serde_json::Number::from_i128(*value).map_or(Json::Null, Json::Number),
        Value::Float(value) => (*value).into(),
        Value::Text(text) => text.as_str().into(),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(map) => Json::Object(map.iter().map(|(key, entry)| (key.clone(), json(&entry.node))).collect()),
    }
}
