//! The target of a request: a tool, prompt or resource of a server, or a completion for one.

use std::borrow::Cow;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

/// The kind of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetKind {
    Tool,
    Prompt,
    /// A resource or a resource template.
    Resource,
    /// Values for the arguments of a prompt.
    PromptCompletion,
    /// Values for the variables of a resource template.
    ResourceCompletion,
}

impl TargetKind {
    /// Returns the name of the kind in conditions and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::PromptCompletion | Self::ResourceCompletion => "completion",
        }
    }

    /// Returns the kind of the completed item.
    pub(crate) fn completed(self) -> Option<Self> {
        match self {
            Self::PromptCompletion => Some(Self::Prompt),
            Self::ResourceCompletion => Some(Self::Resource),
            Self::Tool | Self::Prompt | Self::Resource => None,
        }
    }
}

/// The target of a request.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub kind: TargetKind,
    /// The slug of the server.
    pub server: &'a str,
    /// The organisation that owns the server; `None` for servers of the operator. Policies do not
    /// match on it, but rates by server count by it.
    pub organisation: Option<&'a str>,
    /// The name or URI at `/mcp`.
    pub exposed: &'a str,
    /// The name or URI at the server.
    pub own: &'a str,
    /// The category of a built-in server (`file`, `shell`, `web`, …); `None` for every other
    /// server.
    pub category: Option<&'a str>,
    pub annotations: Annotations,
}

/// The annotations that a server declares for a tool. Missing ones have the defaults of the
/// specification: the tool may change and destroy things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
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
    /// Reads the annotations of a tool's definition (JSON text). A missing or invalid annotation
    /// has the default of the specification.
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
            // The hint applies only to tools that are not read-only.
            destructive: !read_only && claims.destructive_hint.unwrap_or(default.destructive),
            idempotent: claims.idempotent_hint.unwrap_or(default.idempotent),
            open_world: claims.open_world_hint.unwrap_or(default.open_world),
        }
    }
}

impl Target<'_> {
    /// Returns the spellings of the target in patterns, without duplicates.
    pub(crate) fn spellings(&self) -> Vec<Cow<'_, str>> {
        let mut all =
            vec![Cow::Borrowed(self.exposed), Cow::Owned(format!("{}/{}", self.server, self.own))];
        let third = match self.kind {
            TargetKind::Resource | TargetKind::ResourceCompletion => Cow::Borrowed(self.own),
            _ => Cow::Owned(format!("{}__{}", self.server, self.own)),
        };
        if third != self.exposed {
            all.push(third);
        }
        all
    }
}
