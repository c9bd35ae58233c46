//! Validated settings of the `content` server. Reads no file and no environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Resources and prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The folder of all files; required if a body is a file.
    pub folder: Option<PathBuf>,
    /// Maximum size of a file.
    pub file_bytes: usize,
    /// Polling interval of subscribed files.
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

/// Resources with URIs that follow a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// A URI template (RFC 6570).
    pub template: String,
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub mime_type: String,
    /// Text or file name with placeholders `{{variable}}`; base64 is not supported.
    pub body: Body,
    /// The permitted values of some variables.
    pub values: BTreeMap<String, Vec<String>>,
}

/// The content of a resource.
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
    pub kind: ArgumentKind,
}

/// The type of a prompt's argument. In the protocol, all are strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    Text { max_chars: usize, multiline: bool },
    Integer { min: Option<i64>, max: Option<i64> },
    Number,
    Boolean,
    Choice(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub role: Role,
    /// With placeholders `{{argument}}`, `{{argument|json}}` or `{{argument|quote}}`.
    pub text: String,
}

/// The sender of a message. MCP has no system role: system messages are the user's, annotated for
/// the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    System,
    User,
    Assistant,
}

/// A problem of the configuration.
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
