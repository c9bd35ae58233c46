//! `builtin.content`: resources and prompts offered by the gateway itself.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::leaf::{List, Seconds, Size, Text, Toggle, Whole};

/// Resources and prompts, served as a separate server.
#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Content {
    /// The folder of all files, relative to this file. Required if an entry uses `file`.
    pub folder: Option<Text>,
    /// Largest file that is read, 1KiB–16MiB.
    pub file_size: Size<0x400, 0x100_0000, 0x10_0000>,
    /// How often files with subscribers are checked for changes, 1–300 s.
    pub check_interval: Seconds<1, 300, 2>,
    /// Resources with a fixed address, at most 1000.
    pub resources: Vec<Resource>,
    /// Resources with a template for their addresses, at most 1000.
    pub templates: Vec<Template>,
    /// Prompts, at most 1000.
    pub prompts: Vec<Prompt>,
}

/// Exactly one of `text`, `base64` and `file` contains its content.
#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(test, schemars(rename = "ContentResource"))]
pub struct Resource {
    /// Absolute, such as `notes://welcome`. Required.
    pub uri: Text,
    /// 1–100 of letters, digits, `_`, `-` and `.`. Required.
    pub name: Text,
    /// The display name.
    pub title: Option<Text>,
    /// A description for models and users.
    pub description: Option<Text>,
    /// Default: by the extension of `file`, `application/octet-stream` for `base64`, else
    /// `text/plain`.
    pub mime_type: Option<Text>,
    /// Its text.
    pub text: Option<Text>,
    /// Its bytes.
    pub base64: Option<Text>,
    /// A file below `folder`; read each time.
    pub file: Option<Text>,
}

/// One of `text` and `file` contains the content of a resource, with `{{variable}}` for the
/// template's variables.
#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(test, schemars(rename = "ContentTemplate"))]
pub struct Template {
    /// A URI template (RFC 6570, levels 1 to 3), such as `notes://{topic}{?lang}`. Required.
    pub template: Text,
    /// 1–100 of letters, digits, `_`, `-` and `.`. Required.
    pub name: Text,
    /// The display name.
    pub title: Option<Text>,
    /// A description for models and users.
    pub description: Option<Text>,
    /// Default: by the extension of `file`, else `text/plain`.
    pub mime_type: Option<Text>,
    /// The text, such as `Everything about {{topic}}.`
    pub text: Option<Text>,
    /// A file below `folder`, such as `notes/{{topic}}.md`; values cannot escape the folder or
    /// select hidden files.
    pub file: Option<Text>,
    /// The only values of a variable, which are offered as completions.
    pub values: BTreeMap<String, List>,
}

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(test, schemars(rename = "ContentPrompt"))]
pub struct Prompt {
    /// 1–100 of letters, digits, `_`, `-` and `.`. Required.
    pub name: Text,
    /// The display name.
    pub title: Option<Text>,
    /// Its purpose.
    pub description: Option<Text>,
    /// Its arguments, at most 100.
    pub arguments: Vec<Argument>,
    /// The messages of the prompt, 1–100.
    pub messages: Vec<Message>,
}

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(test, schemars(rename = "ContentArgument"))]
pub struct Argument {
    /// 1–100 of letters, digits, `_`, `-` and `.`. Required.
    pub name: Text,
    /// The display name.
    pub title: Option<Text>,
    /// A description of the argument.
    pub description: Option<Text>,
    /// `true`: a call without it is rejected.
    pub required: Toggle<false>,
    /// The value when it is not given.
    pub default: Option<Text>,
    /// `text`, `integer`, `number`, `boolean` or `choice`.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Of a `choice`: the possible values, which are offered as completions; 1–100 of them.
    pub values: List,
    /// Of an `integer`: the minimum.
    pub min: Option<i64>,
    /// Of an `integer`: the maximum.
    pub max: Option<i64>,
    /// Of a `text`: maximum number of characters, 1–100000.
    pub max_chars: Whole<1, 100_000, 10_000>,
    /// Of a `text`: `true` allows more than one line.
    pub multiline: Toggle<false>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, schemars(inline))]
pub enum Kind {
    #[default]
    Text,
    Integer,
    Number,
    Boolean,
    Choice,
}

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(test, schemars(rename = "ContentMessage"))]
pub struct Message {
    /// `system`, `user` or `assistant`. MCP has no system role: such messages come first, as the
    /// user's, marked as meant for the model.
    pub role: Role,
    /// With `{{argument}}`, `{{argument|json}}` (as a JSON string) or `{{argument|quote}}` (each
    /// line after `> `). Required.
    pub text: Text,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, schemars(inline))]
pub enum Role {
    System,
    #[default]
    User,
    Assistant,
}
