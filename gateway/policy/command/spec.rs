//! The `command` rule as written in a policy file.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The programs with a built-in model.
pub(super) const NAMES: [&str; 16] = [
    "cat", "echo", "find", "git", "grep", "head", "ls", "node", "npm", "pnpm", "pwd", "sort",
    "tail", "uniq", "wc", "yarn",
];
/// Length limit of each list of a rule.
pub(super) const MAX_ITEMS: usize = 1000;
pub(super) const MAX_BYTES: usize = 128 * 1024;
pub(super) const MAX_ARGUMENTS: usize = 4096;

/// The programs that may be called, and their arguments. Everything else is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// The form of the command. A list is refused unless this key allows it: a server that joins a
    /// list to text passes it to a shell, which interprets more of it than this rule does.
    pub form: Form,
    /// Programs that may be called: by name, or by an absolute path, which must be sent exactly. By
    /// default those that have a model: cat, echo, find, git, grep, head, ls, node, npm, pnpm, pwd,
    /// sort, tail, uniq, wc, yarn. Of node, npm, pnpm and yarn only the version may be queried.
    pub programs: Vec<String>,
    /// Models of further programs, by program; they replace built-in models.
    pub models: BTreeMap<String, ModelSpec>,
    /// Programs of the list that may be called with any arguments. THIS IS CODE EXECUTION: a
    /// program such as node runs any code that the caller sends, limited only by the confinement of
    /// the process.
    pub allow_code_execution: Vec<String>,
    /// Absolute folders that absolute paths in a command must lie in. Without any, only relative
    /// paths that do not go up are allowed.
    pub roots: Vec<String>,
    /// Maximum size of a command in bytes.
    #[cfg_attr(test, schemars(range(min = 1, max = 131_072)))]
    pub max_bytes: usize,
    /// Maximum number of arguments of a command.
    #[cfg_attr(test, schemars(range(min = 1, max = 4096)))]
    pub max_arguments: usize,
}

/// The form of a command in an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// One line of text. Syntax with a special meaning in any shell is refused.
    #[default]
    Text,
    /// A list of words, the program first. Words may contain anything: only for servers that start
    /// the program with exactly this list.
    Argv,
    /// Either of them.
    Either,
}

/// The allowed arguments of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ModelSpec {
    /// The style of the arguments. `gnu`: short options in clusters, long options with
    /// `--name=value` or `--name value`; `--` ends the options. `words`: every option is a separate
    /// word, as in find; `--` is not allowed. `plain`: there are no options, every argument is an
    /// operand.
    pub style: Style,
    /// Words that the arguments must begin with, literally: `[-c, core.fsmonitor=false]`. Only the
    /// rest is checked.
    pub begins_with: Vec<String>,
    /// Options that may be used, in full: `-l`, `--all`. With a value: `-n=number`,
    /// `--include=text`; with an optional value that is never a separate word:
    /// `--color?=always|never`; with a value unless it is the last argument: `--merged~=path`;
    /// digits alone, as in `head -5`: `-#`. A value is `text`, `path`, `number`, `count` (with sign
    /// and unit), `format` or `fields` (as git has them, without what starts gpg), or one of words
    /// with `|` between them.
    pub flags: Vec<String>,
    /// The operands (arguments that are not options), in order: `text` or `path`; `path?` is
    /// optional, `path...` repeats.
    pub operands: Vec<String>,
    /// Options, one of which is required.
    pub need: Vec<String>,
    /// Options, one of which is required for any operand.
    pub operands_need: Vec<String>,
    /// Options that replace the first operand, as `-e` replaces grep's pattern.
    pub first_operand_unless: Vec<String>,
    /// The first operand chooses one of these.
    pub subcommands: BTreeMap<String, ModelSpec>,
}

lockgate_text::settings! {
    /// The argument style of a program.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum Style { #[default] Gnu, Words, Plain }
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            form: Form::default(),
            programs: words(&NAMES),
            models: BTreeMap::new(),
            allow_code_execution: Vec::new(),
            roots: Vec::new(),
            max_bytes: 8192,
            max_arguments: 256,
        }
    }
}

impl Spec {
    /// Checks the rule except for its models.
    pub(super) fn bounds(&self) -> Result<(), String> {
        let lists = [
            ("programs", self.programs.len()),
            ("models", self.models.len()),
            ("allow_code_execution", self.allow_code_execution.len()),
            ("roots", self.roots.len()),
        ];
        for (name, length) in lists {
            if length > MAX_ITEMS {
                return Err(format!("{name}: at most {MAX_ITEMS} items"));
            }
        }
        if !(1..=MAX_BYTES).contains(&self.max_bytes) {
            return Err(format!("max_bytes: must be from 1 to {MAX_BYTES}"));
        }
        if !(1..=MAX_ARGUMENTS).contains(&self.max_arguments) {
            return Err(format!("max_arguments: must be from 1 to {MAX_ARGUMENTS}"));
        }
        if let Some(name) = self.programs.iter().find(|name| !is_program(name)) {
            return Err(format!(
                "programs: {name:?} must be the name of a program, or its absolute path"
            ));
        }
        let mut unbound = self.allow_code_execution.iter();
        if let Some(name) = unbound.find(|name| !self.programs.contains(name)) {
            return Err(format!("allow_code_execution: `{name}` is not in `programs`"));
        }
        for name in self.models.keys() {
            let mut programs = self.programs.iter();
            if !programs.any(|program| program == name || short_name(program) == name) {
                return Err(format!("models: `{name}` is not in `programs`"));
            }
        }
        Ok(())
    }
}

/// Returns whether this is the name or the absolute path of a program.
fn is_program(name: &str) -> bool {
    let is_whole = !name.contains('/') || name.starts_with('/') && !name.ends_with('/');
    let is_plain = !name.contains(|c: char| c.is_whitespace() || c.is_control());
    !name.is_empty() && !name.starts_with('-') && is_whole && is_plain
}

/// Returns the name of a program without its folders.
pub(super) fn short_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Creates a model from options, separated by white space, and operands.
pub(super) fn gnu(flags: &str, operands: &[&str]) -> ModelSpec {
    let flags = flags.split_whitespace().map(str::to_owned).collect();
    ModelSpec { flags, operands: words(operands), ..ModelSpec::default() }
}

pub(super) fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}
