//! Policy files and the cases that test them: found, read with places, and checked on their own.
//! What a policy means is up to the policy layer; this says where the mistakes are that it finds. A
//! policy whose form is wrong hides nothing of the others: of it the name alone is looked at.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use lockgate_policy::cases::Cases;
use lockgate_policy::file::{Effect, File, Policy as Written, What, Who};
use lockgate_policy::{Config, Document, Entry, Policy};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::problem::{Place, Problem, Problems, Report};
use crate::source::layer::Layer;
use crate::source::node::{Node, Value};
use crate::source::{self, reason};

/// Most policy files.
const FILES: usize = 1000;
/// Most names that are told of one folder.
const MISTAKES: usize = 10;

/// Policy files that were read, with their places.
#[derive(Default)]
pub struct Read {
    files: Vec<Source>,
    /// The form of something is wrong, which is reported: what was read is not all, and only good
    /// for further mistakes.
    pub damaged: bool,
}

struct Source {
    document: Document,
    /// The file as it was written.
    node: Node,
    /// Where in the file the policies of the document are.
    places: Vec<usize>,
}

impl Read {
    pub fn documents(&self) -> Vec<Document> {
        self.files.iter().map(|file| file.document.clone()).collect()
    }

    /// A mistake of the policy layer at its place: of the file, of the policy in it, and of the key
    /// in that.
    pub fn problem(
        &self,
        at: (usize, usize),
        path: &[String],
        what: &str,
        hint: &str,
    ) -> Option<Problem> {
        let (place, key) = self.place(at, path)?;
        Some(Problem::error(place, key, what).hint(hint))
    }

    /// The same for what is no mistake.
    pub fn warning(
        &self,
        at: (usize, usize),
        path: &[String],
        what: &str,
        hint: &str,
    ) -> Option<Problem> {
        let (place, key) = self.place(at, path)?;
        Some(Problem::warning(place, key, what).hint(hint))
    }

    fn place(&self, (file, at): (usize, usize), path: &[String]) -> Option<(Place, String)> {
        let Source { node, places, .. } = self.files.get(file)?;
        let at = places.get(at)?;
        let full: Vec<String> =
            ["policies".to_owned(), at.to_string()].into_iter().chain(path.to_vec()).collect();
        // What is missing is pointed at where it should be.
        let place = (1..=full.len())
            .rev()
            .find_map(|n| node.place_of(&full[..n]))
            .unwrap_or(Place::Nowhere);
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
    let read = read(&all, cwd, &mut problems);
    let config = Config { documents: read.documents(), ..Config::default() };
    for mistake in Policy::compile(&config).err().into_iter().flatten() {
        let problem =
            mistake.at.and_then(|at| read.problem(at, &mistake.path, &mistake.what, &mistake.hint));
        problems.push(match problem {
            Some(problem) => problem,
            None => Problem::error(Place::Nowhere, mistake.path.join("."), mistake.what),
        });
    }
    problems.finish().map(|_| config)
}

/// The cases of one file.
///
/// # Errors
/// Every mistake in it.
pub fn cases(path: &Path, cwd: &Path) -> Result<Cases, Report> {
    let mut problems = Problems::default();
    let cases = form::<Cases>(&cwd.join(path), cwd, true, &mut problems);
    problems.finish()?;
    cases.and_then(|form| form.left).ok_or_else(|| Report { problems: Vec::new() })
}

fn unreadable_folder(error: &std::io::Error) -> String {
    format!("the folder cannot be read: {}", reason(error))
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
    let pattern =
        globset::Glob::new(pattern).map_err(|error| error.kind().to_string())?.compile_matcher();
    let dots = last.starts_with('.') && folder != path;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| unreadable_folder(&error))? {
        let entry = entry.map_err(|error| unreadable_folder(&error))?;
        let name = entry.file_name();
        // Names with a dot are drafts, and locks of editors, unless the pattern begins with one.
        let dotted = name.as_encoded_bytes().starts_with(b".");
        if pattern.is_match(&name) && (dots || !dotted) {
            found.push(entry.path());
        }
        if found.len() > FILES {
            return Err(format!("there are more than {FILES} files"));
        }
    }
    found.sort();
    // To leave one out could be to leave out what it denies.
    let mistakes: Vec<String> =
        found.iter().filter_map(|path| unreachable(path)).take(MISTAKES).collect();
    match (mistakes.is_empty(), found.is_empty()) {
        (false, _) => Err(mistakes.join("; ")),
        (_, true) => Err("there is no file that fits".into()),
        _ => Ok(found),
    }
}

/// Why a name is not that of a file, if it is not.
#[allow(
    clippy::disallowed_methods,
    reason = "looks at what is in a folder that the operator named"
)]
fn unreachable(path: &Path) -> Option<String> {
    let name = path.file_name().unwrap_or_default().display();
    match std::fs::metadata(path) {
        Ok(data) if data.is_file() => None,
        Ok(_) => Some(format!("`{name}` is no file")),
        Err(error) if error.kind() == ErrorKind::NotFound && path.is_symlink() => {
            Some(format!("`{name}` is a link to what is not there"))
        }
        Err(error) => Some(format!("`{name}` cannot be read: {}", reason(&error))),
    }
}

/// Reads policy files, and of those with mistakes what is still worth a look.
pub fn read(files: &[PathBuf], cwd: &Path, problems: &mut Problems) -> Read {
    let mut read = Read::default();
    for path in files {
        let Some(form) = form::<File>(path, cwd, false, problems) else {
            read.damaged = true;
            continue;
        };
        read.damaged |= !form.damaged.is_empty();
        let name = source::display_path(path, cwd).display().to_string();
        read.files.push(form.source(name));
    }
    read
}

/// One file as a type.
struct Form<T> {
    node: Node,
    /// What is left of it without what is wrong.
    left: Option<T>,
    /// The paths of what is wrong. What is left lacks them, as far as they were in its way.
    damaged: Vec<Vec<String>>,
    gone: Vec<Vec<String>>,
}

impl Form<File> {
    fn source(self, name: String) -> Source {
        let Self { node, left, damaged, gone } = self;
        let mut left = left.map(|file| file.policies).unwrap_or_default().into_iter();
        let all = match node.get(&["policies"]).map(|node| &node.value) {
            Some(Value::List(items)) => items.len(),
            _ => 0,
        };
        let mut policies = Vec::new();
        let mut places = Vec::new();
        for at in 0..all {
            let keys = ["policies".to_owned(), at.to_string()];
            let policy = if gone.contains(&keys.to_vec()) { None } else { left.next() };
            let whole =
                !damaged.iter().any(|path| path.starts_with(&keys) || keys.starts_with(path));
            let Some(item) = node.get(&keys) else { continue };
            let policy = match policy {
                Some(policy) if whole => policy,
                _ => match item.get(&["name"]).and_then(Node::as_text) {
                    Some(name) => stand_in(name),
                    None => continue,
                },
            };
            let line = match &item.place {
                Place::File { line, .. } => *line,
                _ => 0,
            };
            policies.push(Entry { policy, line, source: json(item) });
            places.push(at);
        }
        Source { document: Document { name, policies }, node, places }
    }
}

/// Stands for a policy whose form is wrong: nobody else may have its name. It is never in force.
fn stand_in(name: &str) -> Written {
    Written {
        name: name.to_owned(),
        effect: Effect::Deny,
        description: None,
        dry_run: false,
        who: Who::default(),
        what: What::default(),
        when: None,
        arguments: Default::default(),
        other_arguments: None,
        rate: None,
        response: None,
        approval: None,
    }
}

/// One file as a type; `None` when it cannot be read. Whatever is wrong is reported.
fn form<T: DeserializeOwned>(
    path: &Path,
    cwd: &Path,
    cases: bool,
    problems: &mut Problems,
) -> Option<Form<T>> {
    let node = match source::read_file(path, cwd, false) {
        Ok(node) => node,
        Err(problem) => {
            problems.push(problem);
            return None;
        }
    };
    // An argument of a case may be null.
    let empty = if cases { Vec::new() } else { node.find_keys_without_value() };
    let mut layer = Layer::new(node.clone());
    let mut damaged = Vec::new();
    for (place, key) in empty {
        let hint = "give it a value, or take it out; JSON's null in a schema is `type: \"null\"`";
        problems.push(Problem::error(place, key.join("."), "has no value").hint(hint));
        damaged.push(key);
    }
    let reference = if cases { "`lockgate schema --cases`" } else { "`lockgate schema --policy`" };
    let left = layer.check_as::<T>(reference, problems);
    damaged.extend(layer.damaged.iter().cloned());
    Some(Form { node, left, damaged, gone: layer.damaged })
}

fn json(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::Integer(value) => {
            serde_json::Number::from_i128(*value).map_or(Json::Null, Json::Number)
        }
        Value::Float(value) => (*value).into(),
        Value::Text(text) => text.as_str().into(),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(map) => {
            Json::Object(map.iter().map(|(key, entry)| (key.clone(), json(&entry.node))).collect())
        }
    }
}
