//! What is asked for: one tool, prompt or resource of one server, or a completion for one of them.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Deserialize;

/// What kind of thing a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Tool,
    Prompt,
    /// A resource or a template of resources.
    Resource,
    /// Values for the arguments of a prompt.
    PromptCompletion,
    /// Values for the variables of a resource template.
    ResourceCompletion,
}

impl Kind {
    /// How conditions and messages name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::PromptCompletion | Self::ResourceCompletion => "completion",
        }
    }

    /// What a completion is for.
    pub(crate) fn completed(self) -> Option<Self> {
        match self {
            Self::PromptCompletion => Some(Self::Prompt),
            Self::ResourceCompletion => Some(Self::Resource),
            Self::Tool | Self::Prompt | Self::Resource => None,
        }
    }
}

/// One thing that may be asked for.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub kind: Kind,
    /// The slug of its server.
    pub server: &'a str,
    /// The organisation that its server belongs to; `None` for the operator's. Policies do not look
    /// at it, but what they count of servers is counted by it.
    pub organisation: Option<&'a str>,
    /// Its name or URI at `/mcp`.
    pub exposed: &'a str,
    /// Its name or URI at its server.
    pub own: &'a str,
    /// The category of a built-in server (`file`, `shell`, `web`, …); `None` for every other
    /// server.
    pub category: Option<&'a str>,
    pub annotations: Annotations,
}

/// What a tool's server says of it. What it does not say is as the specification has it: it may
/// change things, and destroy some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "snake_case")]
pub struct Annotations {
    pub read_only: bool,
    pub destructive: bool,
    pub idempotent: bool,
    pub open_world: bool,
}

impl Default for Annotations {
    fn default() -> Self {
        Self { read_only: false, destructive: true, idempotent: false, open_world: true }
    }
}

impl Annotations {
    /// What the definition of a tool (JSON text) claims. What it does not say, or says wrongly, is
    /// as the specification has it.
    #[must_use]
    pub fn of_tool(definition: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Definition {
            annotations: Claims,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Claims {
            read_only_hint: Option<bool>,
            destructive_hint: Option<bool>,
            idempotent_hint: Option<bool>,
            open_world_hint: Option<bool>,
        }
        let default = Self::default();
        let Ok(Definition { annotations: claims }) = serde_json::from_slice(definition) else {
            return default;
        };
        let read_only = claims.read_only_hint.unwrap_or(default.read_only);
        Self {
            read_only,
            // What only reads destroys nothing: the hint means something for other tools alone.
            destructive: !read_only && claims.destructive_hint.unwrap_or(default.destructive),
            idempotent: claims.idempotent_hint.unwrap_or(default.idempotent),
            open_world: claims.open_world_hint.unwrap_or(default.open_world),
        }
    }
}

impl Target<'_> {
    /// Every way to write it in a pattern, each once; a pattern that fits one of them fits.
    pub(crate) fn spellings(&self) -> Vec<Cow<'_, str>> {
        let mut all =
            vec![Cow::Borrowed(self.exposed), Cow::Owned(format!("{}/{}", self.server, self.own))];
        let third = match self.kind {
            Kind::Resource | Kind::ResourceCompletion => Cow::Borrowed(self.own),
            _ => Cow::Owned(format!("{}__{}", self.server, self.own)),
        };
        if third != self.exposed {
            all.push(third);
        }
        all
    }
}
