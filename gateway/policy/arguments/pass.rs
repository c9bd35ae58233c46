//! The state of an evaluation of a call's arguments: the edits so far, and the time spent.

use serde_json::Value;

use super::edit::Edit;
use crate::command::Command;
use crate::path::Path;
use crate::sql::{Effort, Sql};
use crate::target::TargetKind;
use crate::url::Url;
use crate::{Refusal, Target, file, no};

/// Words in the names of tools that list folders. Such a name has at least one of them, and no
/// words other than these and [`OBJECTS`]. Many servers mark such tools in no other way.
const LISTING: [&str; 11] =
    ["dir", "find", "get", "glob", "list", "ls", "search", "show", "stat", "tree", "view"];
const OBJECTS: [&str; 14] = [
    "content",
    "contents",
    "directories",
    "directory",
    "entries",
    "file",
    "files",
    "folder",
    "folders",
    "info",
    "path",
    "recursive",
    "sizes",
    "with",
];

/// The state of the rules for a call.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    pub(crate) edits: Vec<Edit>,
    pub(super) effort: Effort,
    /// Whether the call changes nothing, judging by the target's kind, annotations or name.
    pub(super) reads: bool,
}

impl Pass {
    /// Creates the state for a call of a target.
    pub(crate) fn of(target: &Target<'_>) -> Self {
        let reads = target.kind != TargetKind::Tool
            || target.annotations.read_only
            || is_name_of_listing(target.own);
        Self { reads, ..Self::default() }
    }

    /// Creates a state for rules with discarded edits, under the same time limit.
    pub(crate) fn aside(&self) -> Self {
        Self { edits: Vec::new(), effort: self.effort.clone(), reads: self.reads }
    }
}

/// Returns whether a name is that of a listing tool: `list_directory_with_sizes`, `directoryTree`.
/// A noun alone (`file`) may be a tool that takes an action as an argument.
fn is_name_of_listing(name: &str) -> bool {
    let mut lists = false;
    for word in name.split(|c: char| !c.is_ascii_alphanumeric()).flat_map(parts_of_word) {
        if is_among(word, &LISTING) {
            lists = true;
        } else if !is_among(word, &OBJECTS) {
            return false;
        }
    }
    lists && name.is_ascii()
}

fn is_among(word: &str, words: &[&str]) -> bool {
    words.iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// Splits a word before each capital.
fn parts_of_word(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let inner = rest.get(1..)?;
        let end = inner.find(|c: char| c.is_ascii_uppercase()).map_or(rest.len(), |at| at + 1);
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part)
    })
}

// Rules for the structure of an argument: a command, a path, an SQL statement or a URL.

/// The alternative to a rule that refuses everything.
const FORBID: &str = ", or write `forbid: true` to refuse the argument";

#[derive(Debug)]
pub(crate) enum Structural {
    Command(Box<Command>),
    Path(Box<Path>),
    Sql(Box<Sql>),
    Url(Box<Url>),
}

/// A mistake in the rules of an argument: the key of the rule, empty if it concerns all of them,
/// and a message.
pub(super) type Misrule = (&'static str, String);

/// Adds the key of the rule to an error.
pub(super) fn under<T>(key: &'static str, compiled: Result<T, String>) -> Result<T, Misrule> {
    compiled.map_err(|words| (key, words))
}

/// Compiles the rules of an argument. Errors carry the key of the rule.
pub(super) fn compile(spec: &file::Argument) -> Result<Vec<Structural>, Misrule> {
    let mut rules = Vec::new();
    if let Some(spec) = &spec.command {
        if spec.programs.is_empty() {
            return Err(("command", format!("allows no program: name them in `programs`{FORBID}")));
        }
        let rule = under("command", Command::compile(spec))?;
        rules.push(Structural::Command(Box::new(rule)));
    }
    if let Some(spec) = &spec.path {
        let rule = under("path", Path::compile(spec))?;
        rules.push(Structural::Path(Box::new(rule)));
    }
    if let Some(spec) = &spec.sql {
        let rule = under("sql", Sql::compile(spec))?;
        rules.push(Structural::Sql(Box::new(rule)));
    }
    if let Some(spec) = &spec.url {
        if spec.hosts.is_empty() && spec.addresses.is_empty() && !spec.any_host {
            return Err(("url", format!("allows no host: name them in `hosts`{FORBID}")));
        }
        let rule = under("url", Url::compile(spec))?;
        rules.push(Structural::Url(Box::new(rule)));
    }
    Ok(rules)
}

impl Structural {
    /// Checks a value. Returns the value to forward in its place, if that differs.
    pub(crate) fn check(&self, value: &Value, pass: &Pass) -> Result<Option<Value>, Refusal> {
        let other = match self {
            Self::Command(rule) => {
                rule.check_value(value)?;
                None
            }
            Self::Path(rule) => rule.check_argument(text(value)?, pass.reads)?,
            Self::Sql(rule) => {
                let sent = text(value)?;
                let checked = rule.check_within(sent, &pass.effort)?.text;
                (checked != sent).then_some(checked)
            }
            Self::Url(rule) => {
                rule.check(text(value)?)?;
                None
            }
        };
        Ok(other.map(Value::from))
    }
}

fn text(value: &Value) -> Result<&str, Refusal> {
    match value {
        Value::String(text) => Ok(text),
        _ => no("must be text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_lists_by_its_name_changes_nothing() {
        for name in
            ["list_directory", "list_directory_with_sizes", "directoryTree", "ls", "get-file-info"]
        {
            assert!(is_name_of_listing(name), "{name}");
        }
        for name in [
            "list_and_delete",
            "find_replace",
            "move_file",
            "get_or_create",
            "listx",
            "file",
            "folder_path",
            "_",
            "list_l\u{f6}schen",
        ] {
            assert!(!is_name_of_listing(name), "{name}");
        }
    }
}
