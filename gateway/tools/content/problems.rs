//! Collects all problems of a configuration, each with the path of its key.

use std::collections::HashSet;

use super::argument;
use super::config::{Argument, ArgumentKind, Config, Problem, Prompt, Role};
use super::words::Words;
use crate::registry::is_valid_name;

/// Maximum number of resources, templates and prompts each.
const MAX_DEFINITIONS: usize = 1000;
/// Maximum number of arguments and messages per prompt, and of values per choice.
const MAX_PARTS: usize = 100;

pub(super) struct Problems<'a> {
    pub(super) config: &'a Config,
    pub(super) all: Vec<Problem>,
}

impl Problems<'_> {
    pub(super) fn say<const N: usize>(&mut self, path: [&str; N], message: impl Into<String>) {
        self.all.push(Problem { path: path.map(str::to_owned).to_vec(), message: message.into() });
    }

    pub(super) fn count(&mut self, list: &str, count: usize) {
        if count > MAX_DEFINITIONS {
            self.say(
                [list],
                format!("has {count} entries, at most {MAX_DEFINITIONS} are possible"),
            );
        }
    }

    pub(super) fn name<const N: usize>(&mut self, path: [&str; N], name: &str) {
        if !is_valid_name(name) {
            self.say(path, "must be 1 to 100 of a-z, A-Z, 0-9, _, - and .");
        }
    }

    pub(super) fn file<const N: usize>(&mut self, path: [&str; N], file: &str) {
        if self.config.folder.is_none() {
            self.say(["folder"], "is required: files are below it");
        }
        for part in file.split('/') {
            if matches!(part, "" | "." | "..") || part.contains(['\\', '\0']) {
                self.say(path, "must be a path below `folder`, such as notes/welcome.md");
                break;
            }
        }
    }

    /// Parses a text. Its placeholders have to be among the known names.
    pub(super) fn words<const N: usize>(
        &mut self,
        path: [&str; N],
        text: &str,
        known: &HashSet<&str>,
    ) -> Option<Words> {
        match Words::parse(text) {
            Ok(words) => {
                if words.names().any(|name| !known.contains(name)) {
                    self.say(path, "has a placeholder that is not declared");
                }
                Some(words)
            }
            Err(why) => {
                self.say(path, why);
                None
            }
        }
    }

    fn argument<'p>(
        &mut self,
        path: impl Fn(&'p str) -> [&'p str; 5],
        declared: &Argument,
        is_new: bool,
    ) {
        self.name(path("name"), &declared.name);
        if !is_new {
            self.say(path("name"), "is the name of another argument");
        }
        if let ArgumentKind::Choice(values) = &declared.kind
            && !(1..=MAX_PARTS).contains(&values.len())
        {
            self.say(path("values"), format!("must be 1 to {MAX_PARTS} values"));
        }
        if let Some(default) = &declared.default
            && argument::read(declared, default).is_err()
        {
            self.say(path("default"), "is not a valid value of the argument");
        }
        if declared.required && declared.default.is_some() {
            self.say(
                path("required"),
                "an argument with a default is never missing; leave one of the two out",
            );
        }
    }

    pub(super) fn prompt(&mut self, at: usize, prompt: &Prompt) -> Vec<Words> {
        let at = at.to_string();
        self.name(["prompts", &at, "name"], &prompt.name);
        if prompt.messages.is_empty() || prompt.messages.len() > MAX_PARTS {
            self.say(["prompts", &at, "messages"], format!("must be 1 to {MAX_PARTS} messages"));
        }
        if prompt.arguments.len() > MAX_PARTS {
            self.say(["prompts", &at, "arguments"], format!("must be at most {MAX_PARTS}"));
        }
        let mut known = HashSet::new();
        for (number, declared) in prompt.arguments.iter().enumerate() {
            let number = number.to_string();
            let is_new = known.insert(declared.name.as_str());
            self.argument(|key| ["prompts", &at, "arguments", &number, key], declared, is_new);
        }
        let mut words = Vec::new();
        let mut spoken = false;
        for (number, message) in prompt.messages.iter().enumerate() {
            let number = number.to_string();
            words.extend(self.words(
                ["prompts", &at, "messages", &number, "text"],
                &message.text,
                &known,
            ));
            if message.role == Role::System && spoken {
                self.say(
                    ["prompts", &at, "messages", &number, "role"],
                    "a system message comes before all others",
                );
            }
            spoken |= message.role != Role::System;
        }
        words
    }
}
