//! One item of one server in the merged picture, and what policy says of it for one class of
//! callers.

use std::sync::Arc;

use lockgate_policy::{Annotations, InputSchema, Kind, Target, Verdict};
use lockgate_protocol::name::Slug;
use lockgate_protocol::revision::Era;
use lockgate_telemetry::ToolMetrics;
use lockgate_upstream::{Item, ListKind, Upstream};

use crate::inspect::Inspected;

/// One tool, prompt, resource or template of one server.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) slug: Slug,
    pub(crate) server: Arc<dyn Upstream>,
    /// The exposed name or URI.
    pub(crate) exposed: Arc<str>,
    pub(crate) item: Item,
    pub(crate) audience: Audience,
    /// Where calls are counted; tools only.
    pub(crate) metrics: Option<Arc<ToolMetrics>>,
    /// What its definition is like; tools only.
    pub(crate) inspected: Option<Arc<Inspected>>,
    /// What arguments are held against before the server gets them, where the operator wants that.
    pub(crate) arguments: Option<Arc<InputSchema>>,
    /// The category of a built-in server.
    pub(super) category: Option<Arc<str>>,
    /// What the server says of the tool.
    pub(super) annotations: Annotations,
}

/// To whom a server offers an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    Everybody,
    /// Clients that it can ask things.
    CanBeAsked,
    /// The same of the legacy era alone.
    LegacyCanBeAsked,
}

impl Audience {
    /// Whether it has a client in it: its era, if it can be asked things.
    pub(crate) fn includes(self, asked: Option<Era>) -> bool {
        match self {
            Self::Everybody => true,
            Self::CanBeAsked => asked.is_some(),
            Self::LegacyCanBeAsked => asked == Some(Era::Legacy),
        }
    }
}

/// An entry and what policy says of it.
#[derive(Clone)]
pub(crate) struct ViewEntry {
    pub(crate) entry: Arc<Entry>,
    pub(crate) verdict: Arc<Verdict>,
}

impl Entry {
    /// The entry as policy sees it.
    pub(crate) fn target(&self, kind: Kind) -> Target<'_> {
        Target {
            kind,
            server: &self.slug,
            organisation: organisation_of(&*self.server),
            exposed: &self.exposed,
            own: &self.item.key,
            category: self.category.as_deref(),
            annotations: self.annotations,
        }
    }
}

/// A resource by its URI, listed or not, and what policy says of it.
pub(crate) struct Found {
    pub(crate) server: Arc<dyn Upstream>,
    pub(crate) own: String,
    pub(super) exposed: String,
    pub(super) category: Option<Arc<str>>,
    pub(crate) verdict: Verdict,
}

impl Found {
    pub(crate) fn target(&self, kind: Kind) -> Target<'_> {
        Target {
            kind,
            server: self.server.slug(),
            organisation: organisation_of(&*self.server),
            exposed: &self.exposed,
            own: &self.own,
            category: self.category.as_deref(),
            annotations: Annotations::default(),
        }
    }
}

pub(crate) fn index(kind: ListKind) -> usize {
    kind as usize
}

/// The category of a built-in server is its slug.
pub(crate) fn category(server: &dyn Upstream) -> Option<Arc<str>> {
    match &server.status().peer {
        Some(peer) if peer.transport == "builtin" => Some(server.slug().into()),
        _ => None,
    }
}

/// The name of the organisation that a server belongs to, where it belongs to one.
pub(crate) fn organisation_of(server: &dyn Upstream) -> Option<&str> {
    Some(&**server.organisation()?)
}
