//! The compiled configuration: templates are parsed, and all problems are reported at once.

use std::collections::{HashMap, HashSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::argument;
use super::argument::Words;
use super::config::{Argument, ArgumentKind, Config, Problem, Prompt, Resource, Role, Template};
use super::template::{UriTemplate, Values};
use crate::registry::is_valid_name;
use crate::tool::first_chars;

pub(super) struct Compiled {
    pub(super) config: Config,
    /// Index of a resource by its URI.
    by_uri: HashMap<String, usize>,
    /// In the order of the configuration.
    templates: Vec<(UriTemplate, Option<Words>)>,
    prompts: HashMap<String, (usize, Vec<Words>)>,
}

pub(super) struct FoundContent {
    pub(super) place: ContentPlace,
    pub(super) mime_type: String,
}

/// The location of the content.
pub(super) enum ContentPlace {
    Text(String),
    Base64(String),
    /// Path below the folder.
    File(String),
}

impl Config {
    /// Returns all problems of the configuration.
    pub fn problems(&self) -> Vec<Problem> {
        Compiled::compile(self).1
    }
}

impl Compiled {
    pub(super) fn new(config: &Config) -> Result<Self, Problem> {
        let (compiled, problems) = Self::compile(config);
        problems.into_iter().next().map_or(Ok(compiled), Err)
    }

    fn compile(config: &Config) -> (Self, Vec<Problem>) {
        let mut compiled = Self {
            config: config.clone(),
            by_uri: HashMap::new(),
            templates: Vec::new(),
            prompts: HashMap::new(),
        };
        let mut problems = Problems { config, all: Vec::new() };
        compiled.resources(&mut problems);
        compiled.uri_templates(&mut problems);
        for (at, prompt) in config.prompts.iter().enumerate() {
            let words = problems.prompt(at, prompt);
            if compiled.prompts.insert(prompt.name.clone(), (at, words)).is_some() {
                problems.say(["prompts", &at.to_string(), "name"], "is the name of another prompt");
            }
        }
        (compiled, problems.all)
    }

    fn resources(&mut self, problems: &mut Problems<'_>) {
        problems.count("resources", problems.config.resources.len());
        problems.count("templates", problems.config.templates.len());
        problems.count("prompts", problems.config.prompts.len());
        for (at, resource) in problems.config.resources.iter().enumerate() {
            let number = at.to_string();
            problems.name(["resources", &number, "name"], &resource.name);
            if url::Url::parse(&resource.uri).is_err()
                || resource.uri.contains(|c: char| c.is_control() || c == ' ')
            {
                let what = "is not an absolute URI such as notes://welcome";
                problems.say(["resources", &number, "uri"], what);
            }
            if self.by_uri.insert(resource.uri.clone(), at).is_some() {
                problems.say(["resources", &number, "uri"], "is the URI of another resource");
            }
            let Resource { text, base64, file, .. } = resource;
            if [text, base64, file].into_iter().flatten().count() != 1 {
                let what = "must have exactly one of `text`, `base64` and `file`";
                problems.say(["resources", &number], what);
            }
            if base64.as_ref().is_some_and(|text| STANDARD.decode(text).is_err()) {
                problems.say(["resources", &number, "base64"], "is not base64");
            }
            if let Some(file) = file {
                problems.file(["resources", &number, "file"], file);
            }
        }
    }

    fn uri_templates(&mut self, problems: &mut Problems<'_>) {
        let mut seen = HashSet::new();
        for (at, template) in problems.config.templates.iter().enumerate() {
            let number = at.to_string();
            problems.name(["templates", &number, "name"], &template.name);
            if !seen.insert(&template.template) {
                let what = "is the template of another entry";
                problems.say(["templates", &number, "template"], what);
            }
            let parsed = match UriTemplate::parse(&template.template) {
                Ok(parsed) => parsed,
                Err(words) => {
                    problems.say(["templates", &number, "template"], words);
                    continue;
                }
            };
            let known = parsed.names();
            if template.values.keys().any(|name| !known.contains(name.as_str())) {
                let what = "names a variable that the template does not have";
                problems.say(["templates", &number, "values"], what);
            }
            let (key, text) = match (&template.text, &template.file) {
                (Some(text), None) => ("text", text),
                (None, Some(file)) => {
                    problems.file(["templates", &number, "file"], file);
                    ("file", file)
                }
                _ => {
                    let what = "must have exactly one of `text` and `file`";
                    problems.say(["templates", &number], what);
                    continue;
                }
            };
            let words = problems.words(["templates", &number, key], text, &known);
            self.templates.push((parsed, words));
        }
    }

    pub(super) fn find(&self, uri: &str) -> Option<FoundContent> {
        if let Some(at) = self.by_uri.get(uri) {
            let resource = self.config.resources.get(*at)?;
            let place = match (&resource.text, &resource.base64, &resource.file) {
                (Some(text), ..) => ContentPlace::Text(text.clone()),
                (_, Some(text), _) => ContentPlace::Base64(text.clone()),
                (_, _, file) => ContentPlace::File(file.clone()?),
            };
            return Some(FoundContent { place, mime_type: resource.mime_type().to_owned() });
        }
        for ((template, words), declared) in self.templates.iter().zip(&self.config.templates) {
            if let Some(values) = template.values(uri)
                && let Some(words) = words
                && let Some(place) = place_of(declared, words, &values)
            {
                return Some(FoundContent { place, mime_type: declared.mime_type().to_owned() });
            }
        }
        None
    }

    /// Returns the result of `prompts/get`.
    pub(super) fn prompt(&self, name: &str, given: &Map<String, Value>) -> Result<Value, String> {
        let Some((at, words)) = self.prompts.get(name) else {
            return Err(format!("unknown prompt: {name}"));
        };
        let prompt = &self.config.prompts[*at];
        let values = read_arguments(prompt, given)?;
        let messages = prompt.messages.iter().zip(words).map(|(message, words)| {
            let text = words.fill(|name| Some(values.get(name)?.as_str()));
            write_message(message.role, &text)
        });
        let messages: Value = messages.collect();
        Ok(match &prompt.description {
            Some(words) => json!({"description": words, "messages": messages}),
            None => json!({"messages": messages}),
        })
    }

    /// Returns completions of a prompt's argument.
    pub(super) fn prompt_values(&self, name: &str, argument: &str) -> Vec<String> {
        let Some((at, _)) = self.prompts.get(name) else { return Vec::new() };
        let mut arguments = self.config.prompts[*at].arguments.iter();
        let declared = arguments.find(|declared| declared.name == argument);
        declared.map(argument::values).unwrap_or_default()
    }

    /// Returns completions of a template's variable.
    pub(super) fn template_values(&self, template: &str, variable: &str) -> Vec<String> {
        let declared = self.config.templates.iter().filter(|known| known.template == template);
        let mut values = declared.filter_map(|declared| declared.values.get(variable));
        values.next().cloned().unwrap_or_default()
    }
}

/// Returns the content of a template for these values; `None` if a value is not permitted.
fn place_of(declared: &Template, words: &Words, values: &Values) -> Option<ContentPlace> {
    let is_file = declared.file.is_some();
    for (name, value) in values {
        if let Some(list) = declared.values.get(name)
            && !list.contains(value)
        {
            return None;
        }
        if is_file && !is_plain_path(value) {
            return None;
        }
    }
    let text = words.fill(|name| Some(values.get(name)?.as_str()));
    Some(if is_file { ContentPlace::File(text) } else { ContentPlace::Text(text) })
}

fn write_message(role: Role, text: &str) -> Value {
    match role {
        Role::User => json!({"role": "user", "content": {"type": "text", "text": text}}),
        Role::Assistant => json!({"role": "assistant", "content": {"type": "text", "text": text}}),
        Role::System => json!({
            "role": "user",
            "content": {
                "type": "text",
                "text": text,
                "annotations": {"audience": ["assistant"], "priority": 1.0},
            },
        }),
    }
}

fn describe_unknown(prompt: &Prompt, name: &str) -> String {
    let known: Vec<_> = prompt.arguments.iter().map(|declared| declared.name.as_str()).collect();
    let name = first_chars(name, 60);
    format!("unknown argument {name:?}: this prompt takes {}", known.join(", "))
}

/// Validates the arguments of a prompt, and returns them by name.
fn read_arguments<'a>(
    prompt: &'a Prompt,
    given: &Map<String, Value>,
) -> Result<HashMap<&'a str, String>, String> {
    for name in given.keys() {
        if !prompt.arguments.iter().any(|declared| declared.name == *name) {
            return Err(describe_unknown(prompt, name));
        }
    }
    let mut values: HashMap<&str, String> = HashMap::new();
    for declared in &prompt.arguments {
        let value = match given.get(&declared.name) {
            Some(Value::String(text)) => Some(text.as_str()),
            Some(_) => {
                return Err(format!(
                    "the argument `{}` must be a string, like all arguments of prompts",
                    declared.name
                ));
            }
            None => declared.default.as_deref(),
        };
        match value {
            Some(value) => {
                values.insert(&declared.name, argument::read(declared, value)?);
            }
            None if declared.required => {
                return Err(format!("the argument `{}` is missing", declared.name));
            }
            None => {}
        }
    }
    Ok(values)
}

/// Returns whether a value may be part of a path: it neither leads upwards nor to hidden files.
fn is_plain_path(value: &str) -> bool {
    let mut parts = value.split('/');
    parts.all(|part| !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', '\0']))
}

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
        let mut parts = file.split('/');
        if parts.any(|part| matches!(part, "" | "." | "..") || part.contains(['\\', '\0'])) {
            self.say(path, "must be a path below `folder`, such as notes/welcome.md");
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
        if declared.kind == ArgumentKind::Choice
            && !(1..=MAX_PARTS).contains(&declared.values.len())
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
