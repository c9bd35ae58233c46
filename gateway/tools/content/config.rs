//! What the `content` server offers, already validated. It reads no file and no environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Resources and prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Files lie below it; needed when a body is one.
    pub folder: Option<PathBuf>,
    /// Largest file that is read.
    pub file_bytes: usize,
    /// How often files that somebody is subscribed to are looked at.
    pub check_interval: Duration,
    pub resources: Vec<Resource>,
    pub templates: Vec<Template>,
    pub prompts: Vec<Prompt>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub uri: String,
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub mime_type: String,
    pub body: Body,
}

/// Resources whose URIs follow a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// RFC 6570, levels 1 to 3.
    pub template: String,
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub mime_type: String,
    /// With `{{variable}}` in it; not base64.
    pub body: Body,
    /// The only values of some variables.
    pub values: BTreeMap<String, Vec<String>>,
}

/// What a resource holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Text(String),
    Base64(String),
    /// A path below the folder, with `/` between its parts.
    File(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub arguments: Vec<Argument>,
    pub messages: Vec<Message>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub required: bool,
    pub default: Option<String>,
    pub kind: Kind,
}

/// What an argument of a prompt may be. On the wire all are text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Text { max_chars: usize, multiline: bool },
    Integer { min: Option<i64>, max: Option<i64> },
    Number,
    Boolean,
    Choice(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub role: Role,
    /// With `{{argument}}`, `{{argument|json}}` or `{{argument|quote}}` in it.
    pub text: String,
}

/// Who speaks. MCP has no system role: such a message is the user's, marked as meant for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    System,
    User,
    Assistant,
}

/// What is wrong with a part of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Below `builtin.content`.
    pub path: Vec<String>,
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.join("."), self.message)
    }
}
