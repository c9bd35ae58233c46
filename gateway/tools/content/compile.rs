//! The configuration made ready to answer: templates parsed, gaps known, everything that is wrong
//! with it said at once.

use std::collections::{HashMap, HashSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::argument;
use super::config::{Argument, Body, Config, Kind, Problem, Prompt, Role, Template};
use super::template::{UriTemplate, Values};
use super::words::Words;

/// Most resources, templates and prompts each.
const MOST: usize = 1000;
/// Most arguments and messages of a prompt, and values of a choice.
const PARTS: usize = 100;

pub(super) struct Compiled {
    pub(super) config: Config,
    /// Index of a resource by its URI.
    by_uri: HashMap<String, usize>,
    /// By index in the configuration.
    templates: Vec<(UriTemplate, Option<Words>)>,
    prompts: HashMap<String, (usize, Vec<Words>)>,
}

/// A resource that a URI names.
pub(super) struct Found {
    pub(super) place: Place,
    pub(super) mime_type: String,
}

/// Where its content is.
pub(super) enum Place {
    Text(String),
    Base64(String),
    /// Path below the folder.
    File(String),
}

impl Config {
    /// Everything that is wrong with it.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        Compiled::compile(self).1
    }
}

impl Compiled {
    pub(super) fn new(config: &Config) -> Result<Self, Problem> {
        let (compiled, problems) = Self::compile(config);
        match problems.into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(compiled),
        }
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
                || resource.uri.chars().any(|c| c.is_control() || c == ' ')
            {
                let what = "is no absolute URI such as notes://welcome";
                problems.say(["resources", &number, "uri"], what);
            }
            if self.by_uri.insert(resource.uri.clone(), at).is_some() {
                problems.say(["resources", &number, "uri"], "is the URI of another resource");
            }
            match &resource.body {
                Body::Base64(text) if STANDARD.decode(text).is_err() => {
                    problems.say(["resources", &number, "base64"], "is no base64")
                }
                Body::File(file) => problems.file(["resources", &number, "file"], file),
                Body::Text(_) | Body::Base64(_) => {}
            }
        }
    }

    fn uri_templates(&mut self, problems: &mut Problems<'_>) {
        for (at, template) in problems.config.templates.iter().enumerate() {
            let number = at.to_string();
            problems.name(["templates", &number, "name"], &template.name);
            if problems.config.templates[..at]
                .iter()
                .any(|other| other.template == template.template)
            {
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
            let known: HashSet<&str> = parsed.names().collect();
            if template.values.keys().any(|name| !known.contains(name.as_str())) {
                let what = "names a variable that the template does not have";
                problems.say(["templates", &number, "values"], what);
            }
            let (key, text) = match &template.body {
                Body::Text(text) => ("text", text),
                Body::File(file) => {
                    problems.file(["templates", &number, "file"], file);
                    ("file", file)
                }
                Body::Base64(_) => {
                    let what = "has no gaps to fill; use text or file";
                    problems.say(["templates", &number, "base64"], what);
                    continue;
                }
            };
            let words = problems.words(["templates", &number, key], text, &known);
            self.templates.push((parsed, words));
        }
    }

    /// The resource of a URI.
    pub(super) fn find(&self, uri: &str) -> Option<Found> {
        if let Some(at) = self.by_uri.get(uri) {
            let resource = self.config.resources.get(*at)?;
            let place = match &resource.body {
                Body::Text(text) => Place::Text(text.clone()),
                Body::Base64(text) => Place::Base64(text.clone()),
                Body::File(path) => Place::File(path.clone()),
            };
            return Some(Found { place, mime_type: resource.mime_type.clone() });
        }
        for ((template, words), declared) in self.templates.iter().zip(&self.config.templates) {
            if let Some(values) = template.values(uri)
                && let Some(words) = words
                && let Some(place) = place_of(declared, words, &values)
            {
                return Some(Found { place, mime_type: declared.mime_type.clone() });
            }
        }
        None
    }

    /// The result of `prompts/get`.
    pub(super) fn prompt(&self, name: &str, given: &Map<String, Value>) -> Result<Value, String> {
        let (at, words) =
            self.prompts.get(name).ok_or_else(|| format!("unknown prompt: {name}"))?;
        let prompt = &self.config.prompts[*at];
        let values = read_arguments(prompt, given)?;
        let messages = prompt.messages.iter().zip(words).map(|(message, words)| {
            let text = words.fill(|name| values.get(name).map(String::as_str));
            match message.role {
                Role::User => json!({"role": "user", "content": {"type": "text", "text": text}}),
                Role::Assistant => json!({
                    "role": "assistant",
                    "content": {"type": "text", "text": text},
                }),
                Role::System => json!({
                    "role": "user",
                    "content": {
                        "type": "text",
                        "text": text,
                        "annotations": {"audience": ["assistant"], "priority": 1.0},
                    },
                }),
            }
        });
        let messages: Vec<Value> = messages.collect();
        Ok(match &prompt.description {
            Some(words) => json!({"description": words, "messages": messages}),
            None => json!({"messages": messages}),
        })
    }

    /// Values of a prompt's argument to choose from.
    pub(super) fn prompt_values(&self, name: &str, argument: &str) -> Vec<String> {
        let prompt = self.prompts.get(name).and_then(|(at, _)| self.config.prompts.get(*at));
        let declared = prompt
            .and_then(|prompt| prompt.arguments.iter().find(|declared| declared.name == argument));
        declared.map(argument::values).unwrap_or_default()
    }

    /// Values of a template's variable to choose from.
    pub(super) fn template_values(&self, template: &str, variable: &str) -> Vec<String> {
        let declared = self.config.templates.iter().find(|declared| declared.template == template);
        match declared.and_then(|declared| declared.values.get(variable)) {
            Some(values) => values.clone(),
            None => Vec::new(),
        }
    }
}

/// Where the content of a template is for these values; nothing when one of them is not listed.
fn place_of(declared: &Template, words: &Words, values: &Values) -> Option<Place> {
    for (name, value) in values {
        if declared.values.get(name).is_some_and(|list| !list.contains(value)) {
            return None;
        }
    }
    let is_file = matches!(declared.body, Body::File(_));
    if is_file && !values.values().all(|value| is_plain_path(value)) {
        return None;
    }
    let text = words.fill(|name| values.get(name).map(String::as_str));
    Some(if is_file { Place::File(text) } else { Place::Text(text) })
}

/// The values of a prompt's arguments, by their names.
fn read_arguments<'a>(
    prompt: &'a Prompt,
    given: &Map<String, Value>,
) -> Result<HashMap<&'a str, String>, String> {
    if let Some(name) = given.keys().find(|key| !prompt.arguments.iter().any(|a| a.name == **key)) {
        let known: Vec<&str> = prompt.arguments.iter().map(|one| one.name.as_str()).collect();
        let name: String = name.chars().take(60).collect();
        return Err(format!("unknown argument {name:?}: this prompt takes {}", known.join(", ")));
    }
    let mut values: HashMap<&str, String> = HashMap::new();
    for declared in &prompt.arguments {
        let value = match given.get(&declared.name) {
            Some(Value::String(text)) => Some(text.as_str()),
            Some(_) => {
                return Err(format!(
                    "the argument `{}` must be a string, as all arguments of prompts",
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

/// Whether a value may be a part of a path: it goes down, and not to what is hidden.
fn is_plain_path(value: &str) -> bool {
    value
        .split('/')
        .all(|part| !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', '\0']))
}

/// Collects what is wrong.
struct Problems<'a> {
    config: &'a Config,
    all: Vec<Problem>,
}

impl Problems<'_> {
    fn say<const N: usize>(&mut self, path: [&str; N], message: impl Into<String>) {
        self.all.push(Problem { path: path.map(str::to_owned).to_vec(), message: message.into() });
    }

    fn count(&mut self, list: &str, count: usize) {
        if count > MOST {
            self.say([list], format!("has {count} entries, at most {MOST} are possible"));
        }
    }

    fn name<const N: usize>(&mut self, path: [&str; N], name: &str) {
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
        if !(1..=100).contains(&name.len()) || !plain {
            self.say(path, "must be 1 to 100 of a-z, A-Z, 0-9, _, - and .");
        }
    }

    fn file<const N: usize>(&mut self, path: [&str; N], file: &str) {
        if self.config.folder.is_none() {
            self.say(["folder"], "must be given, since a file is named: files lie below it");
        }
        for part in file.split('/') {
            if matches!(part, "" | "." | "..") || part.contains(['\\', '\0']) {
                self.say(path, "must be a path below `folder`, such as notes/welcome.md");
                break;
            }
        }
    }

    /// The text's gaps, all of which must have these names.
    fn words<const N: usize>(
        &mut self,
        path: [&str; N],
        text: &str,
        known: &HashSet<&str>,
    ) -> Option<Words> {
        match Words::parse(text) {
            Ok(words) => {
                if words.names().any(|name| !known.contains(name)) {
                    self.say(path, "has a gap for something that is not declared");
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
        if let Kind::Choice(values) = &declared.kind
            && !(1..=PARTS).contains(&values.len())
        {
            self.say(path("values"), format!("must be 1 to {PARTS} values"));
        }
        if let Some(default) = &declared.default
            && argument::read(declared, default).is_err()
        {
            self.say(path("default"), "is not what the argument may be");
        }
        if declared.required && declared.default.is_some() {
            self.say(
                path("required"),
                "an argument with a default is never missing; leave one of the two out",
            );
        }
    }

    fn prompt(&mut self, at: usize, prompt: &Prompt) -> Vec<Words> {
        let at = at.to_string();
        self.name(["prompts", &at, "name"], &prompt.name);
        if prompt.messages.is_empty() || prompt.messages.len() > PARTS {
            self.say(["prompts", &at, "messages"], format!("must be 1 to {PARTS} messages"));
        }
        if prompt.arguments.len() > PARTS {
            self.say(["prompts", &at, "arguments"], format!("must be at most {PARTS}"));
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
