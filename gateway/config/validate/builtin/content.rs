//! `builtin.content`: from what was written to what is served. What is wrong with an entry is for
//! the layer to say.

use lockgate_tools::content::{
    Argument, Body, Config, Kind, Message, Prompt, Resource, Role, Template,
};

use super::super::Check;
use crate::raw::builtin::content as raw;
use crate::raw::leaf::Text;

/// Kinds of files by their ending.
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
        let folder = raw.folder.as_ref().map(|folder| folder.0.clone().into());
        let mut content = Config {
            folder,
            file_bytes: raw.file_size.size(),
            check_interval: raw.check_interval.duration(),
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: raw.prompts.iter().map(prompt).collect(),
        };
        for (at, entry) in raw.resources.iter().enumerate() {
            content.resources.push(self.content_resource(at, entry));
        }
        for (at, entry) in raw.templates.iter().enumerate() {
            content.templates.push(self.content_template(at, entry));
        }
        if content.folder.as_ref().is_some_and(|folder| !folder.is_dir()) {
            let path = ["builtin", "content", "folder"];
            let what = format!("there is no such folder{}", self.shown(&path));
            self.error(&path, what, "a relative path starts at the file that names it");
        }
        for problem in content.problems() {
            let mut path = vec!["builtin", "content"];
            path.extend(problem.path.iter().map(String::as_str));
            self.error(&path, problem.message, "docs/tools.md explains the settings");
        }
        content
    }

    fn content_resource(&mut self, at: usize, raw: &raw::Resource) -> Resource {
        let text = raw.text.as_ref().map(|text| Body::Text(text.0.clone()));
        let base64 = raw.base64.as_ref();
        let base64 = base64.map(|text| Body::Base64(text.0.split_whitespace().collect()));
        let file = raw.file.as_ref().map(|file| Body::File(file.0.clone()));
        let body = self.content_body("resources", at, [text, base64, file]);
        Resource {
            uri: raw.uri.0.clone(),
            name: raw.name.0.clone(),
            title: owned(&raw.title),
            description: owned(&raw.description),
            mime_type: owned(&raw.mime_type).unwrap_or_else(|| kind(&body)),
            body,
        }
    }

    fn content_template(&mut self, at: usize, raw: &raw::Template) -> Template {
        let bodies = [
            raw.text.as_ref().map(|text| Body::Text(text.0.clone())),
            raw.file.as_ref().map(|file| Body::File(file.0.clone())),
        ];
        let body = self.content_body("templates", at, bodies);
        let values = raw.values.iter().map(|(name, list)| (name.clone(), list.0.clone()));
        Template {
            template: raw.template.0.clone(),
            name: raw.name.0.clone(),
            title: owned(&raw.title),
            description: owned(&raw.description),
            mime_type: owned(&raw.mime_type).unwrap_or_else(|| kind(&body)),
            body,
            values: values.collect(),
        }
    }

    /// The one that is given.
    fn content_body<const N: usize>(
        &mut self,
        list: &str,
        at: usize,
        bodies: [Option<Body>; N],
    ) -> Body {
        let mut given = bodies.into_iter().flatten();
        let first = given.next();
        let second = given.next();
        if first.is_none() || second.is_some() {
            let hint = if N == 3 { "give text, base64 or file" } else { "give text or file" };
            let what = "must say in exactly one way what it holds";
            self.error(&["builtin", "content", list, &at.to_string()], what, hint);
        }
        first.unwrap_or(Body::Text(String::new()))
    }
}

fn owned(text: &Option<Text>) -> Option<String> {
    text.as_ref().map(|text| text.0.clone())
}

fn kind(body: &Body) -> String {
    let ending = match body {
        Body::Text(_) => "txt",
        Body::Base64(_) => "",
        Body::File(file) => file.rsplit_once('.').map_or("", |(_, ending)| ending),
    };
    let found = KINDS.iter().find(|(known, _)| ending.eq_ignore_ascii_case(known));
    found.map_or("application/octet-stream", |(_, kind)| kind).to_owned()
}

fn prompt(raw: &raw::Prompt) -> Prompt {
    let arguments = raw.arguments.iter().map(|raw| Argument {
        name: raw.name.0.clone(),
        title: owned(&raw.title),
        description: owned(&raw.description),
        required: raw.required.0,
        default: owned(&raw.default),
        kind: match raw.kind {
            raw::Kind::Text => {
                Kind::Text { max_chars: raw.max_chars.size(), multiline: raw.multiline.0 }
            }
            raw::Kind::Integer => Kind::Integer { min: raw.min, max: raw.max },
            raw::Kind::Number => Kind::Number,
            raw::Kind::Boolean => Kind::Boolean,
            raw::Kind::Choice => Kind::Choice(raw.values.0.clone()),
        },
    });
    let messages = raw.messages.iter().map(|raw| Message {
        role: match raw.role {
            raw::Role::System => Role::System,
            raw::Role::User => Role::User,
            raw::Role::Assistant => Role::Assistant,
        },
        text: raw.text.0.clone(),
    });
    Prompt {
        name: raw.name.0.clone(),
        title: owned(&raw.title),
        description: owned(&raw.description),
        arguments: arguments.collect(),
        messages: messages.collect(),
    }
}
