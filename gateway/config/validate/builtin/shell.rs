//! `builtin.shell`: compiles its rule, and checks folders and variables. Programs are looked up at
//! the server's start, not here.

use std::path::{Component, Path, PathBuf};

use lockgate_policy::command::Command;
use lockgate_tools::{Shell, ShellRoot};

use super::super::Check;
use crate::expand::is_variable_name;
use crate::source::node::{Node, Value};

const MAX_ROOTS: usize = 64;
/// Variables that select executed programs or loaded code.
const REFUSED: [&str; 9] = [
    "PATH",
    "ENV",
    "BASH_ENV",
    "IFS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "SSH_ASKPASS",
    "GCONV_PATH",
    "LOCPATH",
];
const REFUSED_BEGINNINGS: [&str; 4] = ["LD_", "DYLD_", "GIT_", "npm_config_"];

impl Check<'_> {
    pub(super) fn shell(&mut self, given: &Shell) -> Shell {
        let shell = Shell { roots: self.shell_roots(&given.roots), ..given.clone() };
        self.shell_folders("search", &shell.search);
        self.shell_folders("read", &shell.read);
        for name in shell.environment.keys() {
            self.shell_variable(&["builtin", "shell", "environment", name], name);
        }
        for (at, name) in shell.caller_environment.iter().enumerate() {
            self.shell_variable(&["builtin", "shell", "caller_environment", &at.to_string()], name);
        }
        if shell.timeout > shell.max_timeout {
            let what = "must not be more than `max_timeout`";
            let hint = "raise `max_timeout`, or lower this";
            self.error(&["builtin", "shell", "timeout"], what, hint);
        }
        if let Err(words) = Command::compile(&shell.rule()) {
            let key = ["builtin", "shell"];
            // The message quotes values, which may come from a reference to a secret.
            let words = match self.layers.get(&key) {
                Some(node) if !referenced(node) => words,
                _ => "has an invalid program, model or root".into(),
            };
            self.error(&key, words, "docs/tools.md explains the settings");
        }
        shell
    }

    fn shell_roots(&mut self, given: &[ShellRoot]) -> Vec<ShellRoot> {
        if given.is_empty() || given.len() > MAX_ROOTS {
            let what = format!("requires 1 to {MAX_ROOTS} folders");
            self.error(
                &["builtin", "shell", "roots"],
                what,
                "such as: roots: [{ path: ./project }]",
            );
        }
        let mut roots = Vec::new();
        for (at, root) in given.iter().enumerate() {
            let at = at.to_string();
            let key = ["builtin", "shell", "roots", &at, "path"];
            let mut path = root.path.clone();
            // The configuration file's folder may have been named through `..`, but the rule
            // requires plain folders.
            if goes_up(&path)
                && let Ok(plain) = path.canonicalize()
            {
                path = plain;
            }
            if !path.is_absolute() || goes_up(&path) {
                self.error(
                    &key,
                    "must be the path of a folder, without `..`",
                    "it may be relative to the configuration file",
                );
                continue;
            }
            if !path.is_dir() {
                self.warning(
                    &key,
                    "there is no such folder",
                    "create it; until then the server fails",
                );
            }
            roots.push(ShellRoot { path, write: root.write });
        }
        roots
    }

    fn shell_folders(&mut self, name: &str, folders: &[PathBuf]) {
        let key = ["builtin", "shell", name];
        for (at, path) in folders.iter().enumerate() {
            if !path.is_absolute() || path.as_os_str().as_encoded_bytes().contains(&b':') {
                let what = "must be an absolute path without `:`";
                self.item_error(&key, at, what, "such as /opt/tools/bin");
            }
        }
    }

    /// Checks the name of a variable for programs.
    fn shell_variable(&mut self, key: &[&str], name: &str) {
        if !is_variable_name(name) {
            self.error(key, "is not a variable name", "use letters, digits and _");
        } else if REFUSED.contains(&name)
            || REFUSED_BEGINNINGS.iter().any(|begin| name.starts_with(begin))
        {
            let what = "would change which code programs run or load";
            self.error(key, what, "remove it; use `search` for the folders of programs");
        }
    }
}

fn goes_up(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}

/// Returns whether a value at or below this node came from a reference. Recursion is bounded by the
/// configuration's maximum nesting.
fn referenced(node: &Node) -> bool {
    node.reference.is_some()
        || match &node.value {
            Value::List(list) => list.iter().any(referenced),
            Value::Map(map) => map.values().any(|entry| referenced(&entry.node)),
            _ => false,
        }
}
