//! Expands references in values: `${VAR}`, `${VAR:-default}`, `${file:PATH}`, and `file:PATH` as a
//! whole secret. `$${` stands for `${`. Expanded text is never expanded again, and its node is
//! marked so that it is never shown.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::problem::Problems;
use crate::source::forms::{Form, has_form};
use crate::source::node::{Node, Value};
use crate::source::{read_bytes, reason};

/// Maximum bytes of an expanded value, and of a referenced file.
const VALUE_BYTES: usize = 64 * 1024;

pub struct Expand<'a> {
    pub env: &'a BTreeMap<String, String>,
    /// The base folder of relative paths.
    pub base: &'a Path,
    /// Whether to accept the variables of editors: `${env:NAME}`, `${userHome}`,
    /// `${workspaceFolder}`.
    pub editor: bool,
    /// Files that values were read from.
    pub files: Vec<PathBuf>,
}

impl Expand<'_> {
    /// Expands every value below `root`. Values that fail are reported.
    pub fn expand_values(&mut self, root: &mut Node, problems: &mut Problems) {
        root.visit_mut(&mut Vec::new(), &mut |path, node| {
            let Value::Text(text) = &node.value else { return };
            match self.expand(text, path) {
                Ok((expanded, is_reference)) => {
                    node.reference = is_reference.then(|| text.clone());
                    node.value = Value::Text(self.anchored(expanded, path));
                }
                Err((what, hint)) => {
                    problems.error(node.place.clone(), path.join("."), what, hint);
                    node.is_damaged = true;
                }
            }
        });
    }

    fn expand(&mut self, text: &str, path: &[String]) -> Result<(String, bool), (String, String)> {
        if let Some(file) = text.strip_prefix("file:")
            && has_form(path, Form::File)
        {
            let file = file.strip_prefix("//").unwrap_or(file);
            return Ok((self.file(file)?, true));
        }
        if has_form(path, Form::File) && imitates_reference(text) {
            let hint = "write ${NAME} for a variable, file:PATH for a file, or ${file:PATH} for a \
                file beside other text";
            return Err(("looks like a reference but is not valid".into(), hint.into()));
        }
        let mut out = String::new();
        let mut rest = text;
        let mut referenced = false;
        while let Some((before, after)) = rest.split_once("${") {
            if let Some(escaped) = before.strip_suffix('$') {
                out.push_str(escaped);
                out.push_str("${");
                rest = after;
                continue;
            }
            out.push_str(before);
            let Some((inside, tail)) = after.split_once('}') else {
                let hint = "write ${NAME}, or $${ for the two characters";
                return Err(("a `${` is not closed".into(), hint.into()));
            };
            out.push_str(&self.reference(inside)?);
            referenced = true;
            rest = tail;
        }
        out.push_str(rest);
        if out.len() > VALUE_BYTES {
            let hint = "keep large text out of the configuration";
            return Err(("is longer than 64 KiB".into(), hint.into()));
        }
        Ok((out, referenced))
    }

    fn reference(&mut self, inside: &str) -> Result<String, (String, String)> {
        if let Some(file) = inside.strip_prefix("file:") {
            return self.file(file);
        }
        if self.editor
            && let Some(value) = self.editor_variable(inside)
        {
            return value;
        }
        let (name, default) =
            inside.split_once(":-").map_or((inside, None), |(name, default)| (name, Some(default)));
        if !is_variable_name(name) {
            let what = format!("`${{{}}}` is not a reference", inside.escape_debug());
            return Err((what, "write ${NAME}, ${NAME:-default} or ${file:PATH}".to_string()));
        }
        match (self.env.get(name), default) {
            (Some(value), None) => Ok(value.clone()),
            (Some(value), Some(_)) if !value.is_empty() => Ok(value.clone()),
            (_, Some(default)) => Ok(default.to_string()),
            (None, None) => Err((
                format!("the environment variable {name} is not set"),
                format!("set it, or add a default: ${{{name}:-…}}"),
            )),
        }
    }

    fn editor_variable(&self, inside: &str) -> Option<Result<String, (String, String)>> {
        if let Some(name) = inside.strip_prefix("env:") {
            return Some(Ok(self.variable_or_nothing(name)));
        }
        Some(match inside {
            "userHome" => Ok(self.variable_or_nothing("HOME")),
            "workspaceFolder" => Ok(workspace(self.base).display().to_string()),
            "pathSeparator" | "/" => Ok(std::path::MAIN_SEPARATOR.to_string()),
            _ if inside.contains(':') && !inside.contains(":-") => {
                let inside = inside.escape_debug();
                let what = format!("`${{{inside}}}` is a prompt that only the editor can show");
                Err((what, "write ${NAME} and set that environment variable".to_string()))
            }
            _ => return None,
        })
    }

    fn variable_or_nothing(&self, name: &str) -> String {
        self.env.get(name).cloned().unwrap_or_default()
    }

    fn file(&mut self, name: &str) -> Result<String, (String, String)> {
        let path = self.base.join(name);
        let text = read_value(&path).map_err(|why| {
            let what = format!("the file {} cannot be used: {why}", name.escape_debug());
            (what, "use a file that contains only the value".to_string())
        })?;
        self.files.push(path);
        Ok(text.trim_end_matches(['\r', '\n']).to_string())
    }

    /// Makes relative paths, and commands with a slash, absolute, starting from their file's
    /// folder.
    fn anchored(&self, text: String, path: &[String]) -> String {
        let is_command = has_form(path, Form::Program) && text.contains('/');
        if text.is_empty() || !(is_command || has_form(path, Form::Path)) {
            return text;
        }
        match (text.strip_prefix("~/"), self.env.get("HOME")) {
            (Some(rest), Some(home)) => Path::new(home).join(rest).display().to_string(),
            _ => self.base.join(text).components().collect::<PathBuf>().display().to_string(),
        }
    }
}

/// Returns whether a secret has another program's reference syntax, which would be taken literally:
/// `$NAME`, `env:NAME`, and `file:PATH` behind `Bearer `.
fn imitates_reference(text: &str) -> bool {
    let value = text.split_once(' ').map_or(text, |(_, value)| value).trim_start();
    let has_prefix = ["env:", "file:", "FILE:", "File:"].iter().any(|it| value.starts_with(it));
    let is_shell = value.strip_prefix('$').is_some_and(|name| {
        let mut bytes = name.bytes();
        is_variable_name(name) && bytes.all(|b| !b.is_ascii_lowercase())
    });
    has_prefix || is_shell
}

fn read_value(path: &Path) -> Result<String, String> {
    let bytes = read_bytes(path, VALUE_BYTES as u64).map_err(|error| reason(&error))?;
    if bytes.len() > VALUE_BYTES {
        return Err("it is larger than 64 KiB".into());
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".into())
}

/// Returns the workspace folder of an editor, which contains `.vscode` or `.cursor`.
pub fn workspace(base: &Path) -> &Path {
    match base.parent() {
        Some(parent) if base.ends_with(".vscode") || base.ends_with(".cursor") => parent,
        _ => base,
    }
}

pub fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
