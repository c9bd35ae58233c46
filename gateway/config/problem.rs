//! Mistakes and warnings, with place and hint. They never contain a configured value that may be a
//! secret: values are quoted through `Node::shown`, which hides values from references.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use lockgate_text::setting::HINT;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// Maximum number of listed problems in a report; further problems are only counted.
pub const MAX_LISTED_PROBLEMS: usize = 200;

/// The place of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValuePlace {
    /// A file's display path, with line and column from 1; 0 means the whole file or line.
    File { path: Arc<PathBuf>, line: usize, column: usize },
    /// An environment variable.
    Variable(String),
    /// A command-line flag, such as `--listen`.
    Flag(&'static str),
    /// No place: a default, or a missing value.
    Nowhere,
}

impl ValuePlace {
    /// Returns the place of a whole file.
    pub fn file(path: &Path) -> Self {
        Self::File { path: Arc::new(path.to_path_buf()), line: 0, column: 0 }
    }
}

impl fmt::Display for ValuePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line: 0, .. } => write!(f, "{}", path.display()),
            Self::File { path, line, column: 0 } => write!(f, "{}:{line}", path.display()),
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::Variable(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Nowhere => f.write_str("configuration"),
        }
    }
}

/// Serialises as `{file, line, column | variable | flag}`.
impl Serialize for ValuePlace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::File { path, line, column } => {
                map.serialize_entry("file", &path.display().to_string())?;
                if *line > 0 {
                    map.serialize_entry("line", line)?;
                }
                if *column > 0 {
                    map.serialize_entry("column", column)?;
                }
            }
            Self::Variable(name) => map.serialize_entry("variable", name)?,
            Self::Flag(name) => map.serialize_entry("flag", name)?,
            Self::Nowhere => {}
        }
        map.end()
    }
}

/// The severity of a problem: only errors prevent the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
}

/// A mistake or warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub severity: Severity,
    #[serde(flatten)]
    pub place: ValuePlace,
    /// Path of the key, such as `servers.github.timeout`; empty for a whole file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    #[serde(rename = "message")]
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    pub fn error(place: ValuePlace, key: impl Into<String>, what: impl Into<String>) -> Self {
        Self { severity: Severity::Error, place, key: key.into(), what: what.into(), hint: None }
    }

    pub fn warning(place: ValuePlace, key: impl Into<String>, what: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(place, key, what) }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        write!(f, "{}: ", self.place)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)?;
        if let Some(hint) = &self.hint {
            write!(f, " — {hint}")?;
        }
        Ok(())
    }
}

/// All problems, errors first, then by place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    pub problems: Vec<Problem>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Report {}

/// A collector of problems, bounded by [`MAX_LISTED_PROBLEMS`].
#[derive(Default)]
pub struct Problems {
    list: Vec<Problem>,
    unlisted: usize,
}

impl Problems {
    pub fn push(&mut self, problem: Problem) {
        if self.list.contains(&problem) {
            return;
        }
        if self.list.len() < MAX_LISTED_PROBLEMS {
            self.list.push(problem);
        } else {
            self.unlisted += usize::from(problem.severity == Severity::Error);
        }
    }

    pub fn error(
        &mut self,
        place: ValuePlace,
        key: impl Into<String>,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.push(Problem::error(place, key, what).hint(hint));
    }

    pub fn warning(
        &mut self,
        place: ValuePlace,
        key: impl Into<String>,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.push(Problem::warning(place, key, what).hint(hint));
    }

    /// Returns the number of errors so far.
    pub fn errors(&self) -> usize {
        let listed = self.list.iter().filter(|problem| problem.severity == Severity::Error);
        listed.count() + self.unlisted
    }

    /// Returns the value, or reports the mistake.
    pub fn value_of<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.push(problem)).ok()
    }

    /// Returns the warnings, or the report if it contains an error.
    pub fn finish(mut self) -> Result<Vec<Problem>, Report> {
        let has_errors = self.errors() > 0;
        self.list
            .sort_by(|a, b| (a.severity, &a.place, &a.key).cmp(&(b.severity, &b.place, &b.key)));
        if self.unlisted > 0 {
            let more = format!("{} more mistakes are not listed", self.unlisted);
            self.list.push(Problem::error(ValuePlace::Nowhere, "", more));
        }
        if has_errors { Err(Report { problems: self.list }) } else { Ok(self.list) }
    }
}
