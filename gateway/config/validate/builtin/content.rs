//! `builtin.content`: converts entries to the layer's types. The layer itself checks the entries.

use std::collections::BTreeMap;

use lockgate_tools::content::{
    Argument, ArgumentKind, Body, Config, Message, Prompt, Resource, Role, Template,
};

use super::super::Check;
use crate::raw::builtin::content as raw;
use crate::raw::given::{path_of, text_of, text_or};
use crate::raw::leaf::Text;
use crate::source::node::as_words;

/// Media types by file extension.
const KINDS: [(&str, &str); 16] = [
    ("md", "text/markdown"),
    ("txt", "text/plain"),
    ("html", "text/html"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("toml", "application/toml"),
    ("xml", "application/xml"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("gif", "image/gif"),
    ("svg", "image/svg+xml"),
];

impl Check<'_> {
    pub(super) fn content(&mut self, raw: &raw::Content) -> Config {
        let mut content = Config {
            folder: path_of(&raw.folder),
            file_bytes: raw.file_size.size(),
            check_interval: raw.check_interval.duration(),
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: Vec::new(),
        };
        for (at, entry) in raw.resources.iter().enumerate() {
            content.resources.push(self.content_resource(at, entry));
        }
        for (at, entry) in raw.templates.iter().enumerate() {
            content.templates.push(self.content_template(at, entry));
        }
        for entry in &raw.prompts {
            content.prompts.push(prompt(entry));
        }
        if let Some(folder) = &content.folder
            && !folder.is_dir()
        {
            let path = ["builtin", "content", "folder"];
            let what = format!("there is no such folder{}", self.shown(&path));
            self.error(&path, what, "paths are relative to the file that contains them");
        }
        for problem in content.problems() {
            let mut path = vec!["builtin", "content"];
            path.extend(as_words(&problem.path));
            self.error(&path, problem.message, "docs/tools.md explains the settings");
        }
        content
    }

    fn content_resource(&mut self, at: usize, raw: &raw::Resource) -> Resource {
        let bodies = given_bodies(&raw.text, &raw.base64, &raw.file);
        let body = self.content_body("resources", at, bodies, "set text, base64 or file");
        Resource {
            uri: raw.uri.0.clone(),
            name: raw.name.0.clone(),
            title: text_of(&raw.title),
            description: text_of(&raw.description),
            mime_type: text_or(&raw.mime_type, kind(&body)).to_owned(),
            body,
        }
    }

    fn content_template(&mut self, at: usize, raw: &raw::Template) -> Template {
        let bodies = given_bodies(&raw.text, &None, &raw.file);
        let body = self.content_body("templates", at, bodies, "set text or file");
        let mut values = BTreeMap::new();
        for (name, list) in &raw.values {
            values.insert(name.clone(), list.0.clone());
        }
        Template {
            template: raw.template.0.clone(),
            name: raw.name.0.clone(),
            title: text_of(&raw.title),
            description: text_of(&raw.description),
            mime_type: text_or(&raw.mime_type, kind(&body)).to_owned(),
            body,
            values,
        }
    }

    /// Returns the only given body.
    fn content_body(&mut self, list: &str, at: usize, given: Vec<Body>, hint: &str) -> Body {
        if given.len() != 1 {
            let what = "must have exactly one content key";
            self.error(&["builtin", "content", list, &at.to_string()], what, hint);
        }
        given.into_iter().next().unwrap_or(Body::Text(String::new()))
    }
}

fn given_bodies(text: &Option<Text>, base64: &Option<Text>, file: &Option<Text>) -> Vec<Body> {
    let mut given = Vec::new();
    if let Some(Text(text)) = text {
        given.push(Body::Text(text.clone()));
    }
    if let Some(Text(base64)) = base64 {
        given.push(Body::Base64(base64.split_whitespace().collect()));
    }
    if let Some(Text(file)) = file {
        given.push(Body::File(file.clone()));
    }
    given
}

fn kind(body: &Body) -> &'static str {
    let ending = match body {
        Body::Text(_) => "txt",
        Body::Base64(_) => "",
        Body::File(file) => match file.rsplit_once('.') {
            Some((_, ending)) => ending,
            None => "",
        },
    };
    for (known, kind) in KINDS {
        if ending.eq_ignore_ascii_case(known) {
            return kind;
        }
    }
    "application/octet-stream"
}

fn prompt(raw: &raw::Prompt) -> Prompt {
    let mut prompt = Prompt {
        name: raw.name.0.clone(),
        title: text_of(&raw.title),
        description: text_of(&raw.description),
        arguments: Vec::with_capacity(raw.arguments.len()),
        messages: Vec::with_capacity(raw.messages.len()),
    };
    for entry in &raw.arguments {
        prompt.arguments.push(argument(entry));
    }
    for entry in &raw.messages {
        prompt.messages.push(message(entry));
    }
    prompt
}

fn argument(raw: &raw::Argument) -> Argument {
    Argument {
        name: raw.name.0.clone(),
        title: text_of(&raw.title),
        description: text_of(&raw.description),
        required: raw.required.0,
        default: text_of(&raw.default),
        kind: match raw.kind {
            raw::Kind::Text => {
                ArgumentKind::Text { max_chars: raw.max_chars.size(), multiline: raw.multiline.0 }
            }
            raw::Kind::Integer => ArgumentKind::Integer { min: raw.min, max: raw.max },
            raw::Kind::Number => ArgumentKind::Number,
            raw::Kind::Boolean => ArgumentKind::Boolean,
            raw::Kind::Choice => ArgumentKind::Choice(raw.values.0.clone()),
        },
    }
}

fn message(raw: &raw::Message) -> Message {
    Message {
        role: match raw.role {
            raw::Role::System => Role::System,
            raw::Role::User => Role::User,
            raw::Role::Assistant => Role::Assistant,
        },
        text: raw.text.0.clone(),
    }
}
