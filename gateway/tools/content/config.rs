//! Settings of the `content` server. Reads no file and no environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lockgate_text::setting::{List, Seconds, Size, Text, Toggle, Whole};
use lockgate_text::settings;

use crate::file::media_type;

settings! {
    /// Resources and prompts, served as a separate server.
    #[derive(Debug)]
    pub struct Config as "Content" {
        /// The folder of all files, relative to this file. Required if an entry uses `file`.
        pub folder: Option<PathBuf> = Option<Text>,
        /// Largest file that is read, 1KiB–16MiB.
        pub file_size: usize = Size<0x400, 0x100_0000, 0x10_0000>,
        /// How often files with subscribers are checked for changes, 1–300 s.
        pub check_interval: Duration = Seconds<1, 300, 2>,
        /// Resources with a fixed address, at most 1000.
        pub resources: Vec<Resource>,
        /// Resources with a template for their addresses, at most 1000.
        pub templates: Vec<Template>,
        /// Prompts, at most 1000.
        pub prompts: Vec<Prompt>,
    }

    /// Exactly one of `text`, `base64` and `file` contains its content.
    #[derive(Debug)]
    pub struct Resource as "ContentResource" {
        /// Absolute, such as `notes://welcome`. Required.
        pub uri: String = Text,
        /// 1–100 of letters, digits, `_`, `-` and `.`. Required.
        pub name: String = Text,
        /// The display name.
        pub title: Option<String> = Option<Text>,
        /// A description for models and users.
        pub description: Option<String> = Option<Text>,
        /// Default: by the extension of `file`, `application/octet-stream` for `base64`, else
        /// `text/plain`.
        pub mime_type: Option<String> = Option<Text>,
        /// Its text.
        pub text: Option<String> = Option<Text>,
        /// Its bytes.
        pub base64: Option<String> = Option<Text> => without_blanks,
        /// A file below `folder`; read each time.
        pub file: Option<String> = Option<Text>,
    }

    /// One of `text` and `file` contains the content of a resource, with `{{variable}}` for the
    /// template's variables.
    #[derive(Debug)]
    pub struct Template as "ContentTemplate" {
        /// A URI template (RFC 6570, levels 1 to 3), such as `notes://{topic}{?lang}`. Required.
        pub template: String = Text,
        /// 1–100 of letters, digits, `_`, `-` and `.`. Required.
        pub name: String = Text,
        /// The display name.
        pub title: Option<String> = Option<Text>,
        /// A description for models and users.
        pub description: Option<String> = Option<Text>,
        /// Default: by the extension of `file`, else `text/plain`.
        pub mime_type: Option<String> = Option<Text>,
        /// The text, such as `Everything about {{topic}}.`
        pub text: Option<String> = Option<Text>,
        /// A file below `folder`, such as `notes/{{topic}}.md`; values cannot escape the folder or
        /// select hidden files.
        pub file: Option<String> = Option<Text>,
        /// The only values of a variable, which are offered as completions.
        pub values: BTreeMap<String, Vec<String>> = BTreeMap<String, List>,
    }

    #[derive(Debug)]
    pub struct Prompt as "ContentPrompt" {
        /// 1–100 of letters, digits, `_`, `-` and `.`. Required.
        pub name: String = Text,
        /// The display name.
        pub title: Option<String> = Option<Text>,
        /// Its purpose.
        pub description: Option<String> = Option<Text>,
        /// Its arguments, at most 100.
        pub arguments: Vec<Argument>,
        /// The messages of the prompt, 1–100.
        pub messages: Vec<Message>,
    }

    #[derive(Debug)]
    pub struct Argument as "ContentArgument" {
        /// 1–100 of letters, digits, `_`, `-` and `.`. Required.
        pub name: String = Text,
        /// The display name.
        pub title: Option<String> = Option<Text>,
        /// A description of the argument.
        pub description: Option<String> = Option<Text>,
        /// `true`: a call without it is rejected.
        pub required: bool = Toggle<false>,
        /// The value when it is not given.
        pub default: Option<String> = Option<Text>,
        /// `text`, `integer`, `number`, `boolean` or `choice`.
        @serde(rename = "type")
        pub kind: ArgumentKind,
        /// Of a `choice`: the possible values, which are offered as completions; 1–100 of them.
        pub values: Vec<String> = List,
        /// Of an `integer`: the minimum.
        pub min: Option<i64>,
        /// Of an `integer`: the maximum.
        pub max: Option<i64>,
        /// Of a `text`: maximum number of characters, 1–100000.
        pub max_chars: usize = Whole<1, 100_000, 10_000>,
        /// Of a `text`: `true` allows more than one line.
        pub multiline: bool = Toggle<false>,
    }

    /// The type of a prompt's argument. In the protocol, all are strings.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum ArgumentKind { #[default] Text, Integer, Number, Boolean, Choice }

    #[derive(Debug)]
    pub struct Message as "ContentMessage" {
        /// `system`, `user` or `assistant`. MCP has no system role: such messages come first, as
        /// the user's, marked as meant for the model.
        pub role: Role,
        /// With `{{argument}}`, `{{argument|json}}` (as a JSON string) or `{{argument|quote}}`
        /// (each line after `> `). Required.
        pub text: String = Text,
    }

    /// The sender of a message.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum Role { System, #[default] User, Assistant }
}

fn without_blanks(base64: Option<Text>) -> Option<String> {
    base64.map(|Text(text)| text.split_whitespace().collect())
}

impl Resource {
    /// Returns the given media type, or the one that the content implies.
    pub fn mime_type(&self) -> &str {
        let implied = if self.base64.is_some() { "" } else { "a.txt" };
        let implied = media_type(self.file.as_deref().unwrap_or(implied));
        self.mime_type.as_deref().unwrap_or(implied)
    }
}

impl Template {
    pub(super) fn mime_type(&self) -> &str {
        let implied = media_type(self.file.as_deref().unwrap_or("a.txt"));
        self.mime_type.as_deref().unwrap_or(implied)
    }
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
