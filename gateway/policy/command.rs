//! The `command` rule: checks that a text or an argument vector is one call of a known program with
//! known options. No shell is involved: syntax that a shell would act on is refused, not expanded.
//! The rule starts no process and reads no file, so the process that runs the command must be
//! confined as well.

mod builtin;
mod judge;
mod model;
mod spec;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::path::goes_up;
use crate::{Refusal, no};
use judge::quoted;
use model::Model;

pub use spec::{Form, ModelSpec, Spec, Style};

/// A compiled `command` rule.
#[derive(Debug)]
pub struct Command {
    spec: Spec,
    /// `None` allows any arguments, which is code execution.
    programs: BTreeMap<String, Option<Model>>,
    roots: Vec<String>,
}

/// An allowed call, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// As written in the rule: a name, or a path if the rule contains a path.
    pub program: String,
    pub arguments: Vec<String>,
    /// The subcommands that chose a model, such as `log` for `git`.
    pub subcommands: Vec<String>,
    /// Operands and option values that may name files, as written.
    pub paths: Vec<String>,
}

impl Command {
    /// Compiles a rule.
    ///
    /// # Errors
    /// Returns the mistake in a message for the author of the rule.
    pub fn compile(spec: &Spec) -> Result<Self, String> {
        spec.bounds()?;
        let mut programs = BTreeMap::new();
        for name in &spec.programs {
            let short = spec::short_name(name);
            let own = spec.models.get(name).or_else(|| spec.models.get(short));
            let model = match own.cloned().or_else(|| builtin::model(short)) {
                _ if spec.allow_code_execution.contains(name) => None,
                Some(model) => Some(Model::compile(short, model, 1)?),
                None => {
                    return Err(format!(
                        "`{name}` has no built-in model: define its arguments under `models`"
                    ));
                }
            };
            programs.insert(name.clone(), model);
        }
        let roots = spec.roots.iter().map(|text| root(text)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { spec: spec.clone(), programs, roots })
    }

    /// Checks an argument of a call: text, or a list of words if the rule accepts lists.
    ///
    /// # Errors
    /// The argument has another form, or the command is refused.
    pub(crate) fn check_value(&self, value: &Value) -> Result<Invocation, Refusal> {
        match (value, self.spec.form) {
            (Value::String(text), Form::Text | Form::Either) => self.check(text),
            (Value::Array(items), Form::Argv | Form::Either) => {
                let words = items.iter().map(|item| item.as_str().map(str::to_owned));
                let Some(argv) = words.collect::<Option<Vec<_>>>() else {
                    return no("must be a list of text");
                };
                self.check_argv(&argv, None)
            }
            (_, Form::Text) => no("must be text: one program with its arguments, on one line"),
            (_, Form::Argv) => no("must be a list: the program, then each of its arguments"),
            (_, Form::Either) => no("must be text, or a list of text"),
        }
    }

    /// Checks a command line. Only blanks, quotes and backslashes have a special meaning.
    ///
    /// # Errors
    /// Returns the reason for the refusal and the text to send instead.
    pub fn check(&self, text: &str) -> Result<Invocation, Refusal> {
        self.judge(&self.words(text)?, None)
    }

    /// Splits a command line into words, without checking them.
    ///
    /// # Errors
    /// A shell would act on the line, or it is too long.
    pub fn words(&self, text: &str) -> Result<Vec<String>, Refusal> {
        self.size(text.len())?;
        judge::split(text)
    }

    /// Checks an argument vector, the program first. Relative paths start from `folder`, an
    /// absolute path; without it they must not go up. With it, `..` after a name, which may be a
    /// link, is accepted, so the caller must check where the paths lead.
    ///
    /// # Errors
    /// Returns the reason for the refusal and the words to send instead.
    pub fn check_argv(&self, argv: &[String], folder: Option<&str>) -> Result<Invocation, Refusal> {
        self.size(argv.iter().map(|word| word.len() + 1).sum())?;
        argv.iter().try_for_each(|word| judge::printable(word))?;
        self.judge(argv, folder)
    }

    /// Returns the names of the allowed programs as written in the rule.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.programs.keys().map(String::as_str)
    }

    fn size(&self, bytes: usize) -> Result<(), Refusal> {
        let most = self.spec.max_bytes;
        if bytes > most {
            return no(format!("the command has {bytes} bytes; at most {most} are allowed"));
        }
        Ok(())
    }

    fn judge(&self, argv: &[String], folder: Option<&str>) -> Result<Invocation, Refusal> {
        let Some((name, arguments)) = argv.split_first().filter(|(name, _)| !name.is_empty())
        else {
            return no("the command is empty; begin with the name of a program");
        };
        let found = arguments.len();
        let most = self.spec.max_arguments;
        if found > most {
            return no(format!("the command has {found} arguments; at most {most} are allowed"));
        }
        let Some(model) = self.programs.get(name) else { return Err(self.unknown(name)) };
        let (paths, subcommands) = match model {
            Some(model) => judge::arguments(model, arguments)?,
            None => Default::default(),
        };
        for path in &paths {
            locate(path, folder, &self.roots)?;
        }
        let arguments = arguments.to_vec();
        Ok(Invocation { program: name.clone(), arguments, subcommands, paths })
    }

    fn unknown(&self, name: &str) -> Refusal {
        let names = Vec::from_iter(self.programs()).join(", ");
        let shown = quoted(name);
        Refusal(if name.contains('/') {
            format!("{shown} is a path, not the name of a program; allowed are: {names}")
        } else if name.contains('=') {
            format!(
                "{shown} looks like a variable; the command must begin with the name of a program: \
                    {names}"
            )
        } else {
            format!("the program {shown} is not allowed; allowed are: {names}")
        })
    }
}

// Textual checks that the paths in a command stay inside the rule's roots. Links are not resolved
// here: the process that opens a path has to hold it by descriptor.

/// Normalises a root for comparisons: absolute, without `.`, `..` and double slashes.
fn root(text: &str) -> Result<String, String> {
    let rooted = if text.starts_with('/') && !goes_up(text) { join("/", text) } else { None };
    rooted.ok_or_else(|| format!("roots: `{text}` must be an absolute path without `..`"))
}

/// Resolves `path` from `folder` to an absolute path inside a root. Without a folder, a relative
/// path that does not go up is returned unchanged.
fn locate(path: &str, folder: Option<&str>, roots: &[String]) -> Result<String, Refusal> {
    let shown = quoted(path);
    if !path.starts_with('/') && folder.is_none() {
        // A revision such as `a..b` is not a path that goes up.
        if goes_up(path) {
            return no(format!("{shown} goes up with `..`; {}", advice(roots)));
        }
        return Ok(path.to_owned());
    }
    // With a known folder, the caller resolves links in the file system.
    if folder.is_none() && goes_up_behind_a_name(path) {
        return no(format!(
            "{shown} has `..` after a name, which may be a link: write the resolved path"
        ));
    }
    let Some(full) = join(folder.unwrap_or("/"), path) else {
        return no(format!("{shown} goes up beyond the root folder; {}", advice(roots)));
    };
    if roots.iter().any(|root| Path::new(&full).starts_with(root)) {
        return Ok(full);
    }
    no(format!("{shown} is outside of the folders that may be used; {}", advice(roots)))
}

fn advice(roots: &[String]) -> String {
    match roots {
        [] => "use a relative path below the working folder".to_owned(),
        roots => format!("allowed folders are: {}", roots.join(", ")),
    }
}

fn goes_up_behind_a_name(path: &str) -> bool {
    let mut has_name = false;
    for part in path.split('/') {
        match part {
            ".." if has_name => return true,
            "" | "." | ".." => {}
            _ => has_name = true,
        }
    }
    false
}

/// Joins and normalises two paths; returns `None` if the result is above `/`.
pub fn join(folder: &str, path: &str) -> Option<String> {
    let base = if path.starts_with('/') { "" } else { folder };
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(format!("/{}", parts.join("/")))
}

#[cfg(test)]
mod tests;
