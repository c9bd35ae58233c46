//! Items of the merged catalog, policy's verdict on them for a class of callers, and the pages of
//! their lists.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use lockgate_policy::{Annotations, InputSchema, Target, TargetKind, Verdict};
use lockgate_protocol::list;
use lockgate_protocol::method::Method;
use lockgate_protocol::name::Slug;
use lockgate_protocol::revision::Era;
use lockgate_telemetry::ToolMetrics;
use lockgate_upstream::{Item, ListKind, ServerId, Upstream};

use crate::inspect::Inspected;

#[derive(Clone)]
pub(crate) struct CatalogEntry {
    pub(crate) slug: Slug,
    pub(crate) server: Arc<dyn Upstream>,
    pub(crate) exposed: Arc<str>,
    /// The name at a composed endpoint, if it differs.
    pub(crate) listed: Option<Arc<str>>,
    pub(crate) item: Item,
    pub(crate) audience: Audience,
    /// Call metrics; tools only.
    pub(crate) metrics: Option<Arc<ToolMetrics>>,
    /// Findings about the definition; tools and skills only.
    pub(crate) inspected: Option<Arc<Inspected>>,
    /// Schema for validating arguments before the server gets them, if the operator enables it.
    pub(crate) arguments: Option<Arc<InputSchema>>,
    pub(super) category: Option<Arc<str>>,
    pub(super) annotations: Annotations,
}

/// The clients to which a server offers an item; each variant is a part of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Audience {
    Everybody,
    /// Clients that the server can ask questions.
    CanBeAsked,
    /// Legacy clients that the server can ask questions.
    LegacyCanBeAsked,
}

impl Audience {
    pub(crate) const COUNT: usize = 3;

    /// Returns the narrowest audience of a client.
    pub fn of(is_interactive: bool, has_session: bool) -> Self {
        match (is_interactive, has_session) {
            (false, _) => Self::Everybody,
            (true, false) => Self::CanBeAsked,
            (true, true) => Self::LegacyCanBeAsked,
        }
    }

    /// Returns whether clients of a narrower or the same audience are included.
    pub(crate) fn includes(self, client: Self) -> bool {
        self <= client
    }
}

#[derive(Clone)]
pub(crate) struct ViewEntry {
    pub(crate) entry: Arc<CatalogEntry>,
    pub(crate) verdict: Arc<Verdict>,
}

impl CatalogEntry {
    pub(crate) fn target(&self, kind: TargetKind) -> Target<'_> {
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

    /// Returns whether a resource is this skill, its folder, or below it. Ignores case, because a
    /// server may.
    pub(crate) fn covers(&self, server: &dyn Upstream, own: &str) -> bool {
        let root = list::skill_root(&self.item.key).unwrap_or(&self.item.key);
        let root = root.strip_suffix('/').unwrap_or(root);
        let Some((folder, rest)) = own.split_at_checked(root.len()) else { return false };
        folder.eq_ignore_ascii_case(root)
            && (rest.is_empty() || rest.starts_with('/'))
            && ServerId::of(&*self.server).names(server)
    }

    /// Returns the name or URI at an endpoint.
    pub(super) fn shown(&self, namespaced: bool) -> &Arc<str> {
        self.listed.as_ref().unwrap_or(if namespaced { &self.exposed } else { &self.item.key })
    }

    pub(super) fn holds(&self, file: &Self) -> bool {
        self.covers(&*file.server, &file.item.key)
    }
}

/// A resource found by URI, listed or not, and policy's verdict on it.
pub struct FoundResource {
    pub(crate) server: Arc<dyn Upstream>,
    pub(crate) own: String,
    pub(super) exposed: String,
    pub(super) category: Option<Arc<str>>,
    pub(crate) verdict: Verdict,
}

impl FoundResource {
    pub(crate) fn target(&self, kind: TargetKind) -> Target<'_> {
        let category = self.category.as_deref();
        unlisted_target(kind, &*self.server, (&self.exposed, &self.own), category)
    }
}

/// Returns the target for an item that need not be listed, by its exposed and its own name.
pub(crate) fn unlisted_target<'a>(
    kind: TargetKind,
    server: &'a dyn Upstream,
    (exposed, own): (&'a str, &'a str),
    category: Option<&'a str>,
) -> Target<'a> {
    Target {
        kind,
        server: server.slug(),
        organisation: organisation_of(server),
        exposed,
        own,
        category,
        annotations: Annotations::default(),
    }
}

pub(crate) fn index(kind: ListKind) -> usize {
    kind as usize
}

/// Returns the category of a built-in server, which is its slug.
pub(crate) fn category(server: &dyn Upstream) -> Option<Arc<str>> {
    let status = server.status();
    let peer = status.peer.as_ref().filter(|peer| peer.transport == "builtin");
    peer.map(|_| server.slug().into())
}

/// Returns whether the server is connected with a legacy revision.
pub(crate) fn is_legacy(server: &dyn Upstream) -> bool {
    matches!(&server.status().peer, Some(peer) if peer.era == Era::Legacy)
}

pub(crate) fn organisation_of(server: &dyn Upstream) -> Option<&str> {
    Some(&**server.organisation()?)
}

// Compact marks of the lists that a client was last notified of, to detect changes without keeping
// the view alive.

/// A hash for each list of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListMarks(pub(super) [u64; ListKind::COUNT]);

impl ListMarks {
    /// Returns the lists to notify clients of: those that differ, and those that servers announced.
    /// Changes of templates and skills count as changes of resources.
    pub fn changes(self, after: Self, announced: &[ListKind]) -> Vec<ListKind> {
        let mut lists = Vec::new();
        for kind in ListKind::ALL {
            let differs = self.0[index(kind)] != after.0[index(kind)];
            let told = kind.announced_as();
            if (differs || announced.contains(&kind)) && !lists.contains(&told) {
                lists.push(told);
            }
        }
        lists
    }

    /// Returns the marks of a caller without a view.
    pub fn none() -> Self {
        Self([0; ListKind::COUNT])
    }
}

/// The notifications of changed lists.
pub const CHANGES: [Method; 3] =
    [Method::ToolsChanged, Method::PromptsChanged, Method::ResourcesChanged];

/// Returns the position in [`CHANGES`] of a list. Templates and skills count as resources.
pub fn index_of_change(kind: ListKind) -> usize {
    match kind {
        ListKind::Tools => 0,
        ListKind::Prompts => 1,
        _ => 2,
    }
}

/// The pages of a list by audience and revision, serialised on first use.
pub(crate) type RenderedList = [[OnceLock<Arc<Pages>>; 5]; Audience::COUNT];

/// The pages of a view's lists.
#[derive(Default)]
pub(crate) struct Rendered(pub(crate) [RenderedList; ListKind::COUNT]);

/// A list as clients of one revision see it.
pub(crate) struct Pages {
    /// Identifies the content, also across rebuilds, so that cursors stay valid until the list
    /// changes.
    pub(crate) mark: String,
    /// JSON text of an array each.
    pub(crate) pages: Vec<Bytes>,
}
