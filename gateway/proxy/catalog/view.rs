//! The part of the catalog that a class of callers sees at an endpoint. Names are looked up, never
//! parsed.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use ahash::AHashMap;
use lockgate_policy::{Policy, TargetKind};
use lockgate_protocol::capabilities::Offers;
use lockgate_protocol::name::Slug;
use lockgate_protocol::uri::{self, Form};
use lockgate_upstream::{ListKind, ServerId, Upstream};
use serde_json::{Map, Value};

use crate::catalog::entry::{
    Audience, CatalogEntry, FoundResource, ListMarks, Rendered, ViewEntry, category, index,
    unlisted_target,
};
use crate::catalog::groups::Groups;
use crate::catalog::template;
use crate::catalog::template::Steps;
use crate::catalog::tool_index::ViewSearch;
use crate::items::Compose;
use crate::rights::CallerRights;

/// Memory per entry in bytes, beside its name and text: its slots in the tables of names and lists.
const ENTRY_WEIGHT: usize = 512;
/// Memory per tool of a search index in bytes, rounded up from a measurement of 5,000 tools.
const INDEX_WEIGHT: usize = 1200;
/// Memory of an empty view in bytes.
const VIEW_WEIGHT: usize = 4 * 1024;

/// A server with lists that may be missing or out of date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Degraded {
    pub(crate) server: String,
    pub(crate) state: &'static str,
    /// RFC 3339.
    pub(crate) since: String,
    pub(crate) reason: String,
    /// The offered features: all of them until the server has been listed.
    pub(super) offers: Offers,
}

impl Degraded {
    /// Returns whether a list may lack entries of this server, or show them out of date.
    fn concerns(&self, kind: ListKind) -> bool {
        match kind {
            ListKind::Tools => self.offers.tools,
            ListKind::Prompts => self.offers.prompts,
            _ => self.offers.resources,
        }
    }
}

/// The catalog at an endpoint, filtered by policy.
pub(crate) struct View {
    /// Whether names and URIs carry the server's slug.
    pub(crate) namespaced: bool,
    pub(crate) servers: BTreeMap<Slug, Arc<dyn Upstream>>,
    pub(crate) items: [Vec<Arc<CatalogEntry>>; ListKind::COUNT],
    /// Tools and prompts by name, including aliases.
    pub(super) names: [AHashMap<Box<str>, ViewEntry>; 2],
    /// Servers of resources that keep their own URI (`http`, `https`).
    pub(super) web: HashMap<Box<str>, Slug>,
    /// Whether calls may contain or select other calls: because of `search` or `groups`.
    pub(crate) unwraps: bool,
    /// Whether any tool maps arguments to headers.
    pub(crate) has_param_headers: bool,
    /// Tools of several servers that appear as one.
    pub(crate) groups: Option<Box<Groups>>,
    /// Limits the resources of an endpoint with chosen items.
    pub(super) compose: Option<Arc<Compose>>,
    /// Quarantined skills, with all files below them.
    pub(super) quarantined_skills: Vec<Arc<CatalogEntry>>,
    pub(crate) offers: Offers,
    /// Extensions that servers declare, which the gateway forwards.
    pub(crate) extensions: Map<String, Value>,
    pub(crate) instructions: Vec<(Slug, Arc<str>)>,
    pub(crate) degraded: Vec<Degraded>,
    /// Search in place of a full list of tools.
    pub(crate) search: Option<Box<ViewSearch>>,
    /// Shortest cache lifetime of the servers' lists, in milliseconds.
    pub(crate) keep_ms: u64,
    pub(crate) rendered: Rendered,
    pub(super) marks: [OnceLock<ListMarks>; Audience::COUNT],
    /// The policy and rights of the class of callers that share the view.
    pub(super) policy: Arc<Policy>,
    pub(super) rights: CallerRights,
}

impl View {
    pub(crate) fn tool(&self, name: &str) -> Option<&ViewEntry> {
        self.names[0].get(name)
    }

    pub(crate) fn prompt(&self, name: &str) -> Option<&ViewEntry> {
        self.names[1].get(name)
    }

    /// Returns the name or URI of an entry at this endpoint.
    pub(crate) fn shown<'a>(&self, entry: &'a CatalogEntry) -> &'a Arc<str> {
        entry.shown(self.namespaced)
    }

    /// Returns the name or URI of an entry in records: that of `/mcp`, or at a server's endpoint
    /// the server's own.
    pub(crate) fn recorded<'a>(&self, entry: &'a CatalogEntry) -> &'a Arc<str> {
        if self.namespaced { &entry.exposed } else { &entry.item.key }
    }

    /// Returns whether a listed tool is of a server, or of a group, of this name.
    pub(crate) fn is_of(&self, entry: &CatalogEntry, server: &str) -> bool {
        let groups = self.groups.as_ref();
        match groups.and_then(|groups| groups.tool(self.shown(entry))) {
            Some(group) => group.is_of(server),
            None => *entry.slug == *server,
        }
    }

    /// Returns the tools as listed: those of a group are one.
    pub(crate) fn listed_tools(&self) -> &[Arc<CatalogEntry>] {
        match &self.groups {
            Some(groups) => &groups.listed,
            None => &self.items[index(ListKind::Tools)],
        }
    }

    /// Returns a list's entries for clients of an audience.
    pub(crate) fn entries(
        &self,
        kind: ListKind,
        client: Audience,
    ) -> impl Iterator<Item = &Arc<CatalogEntry>> {
        self.items[index(kind)].iter().filter(move |entry| entry.audience.includes(client))
    }

    /// Returns the server if it is visible here.
    pub(crate) fn server(&self, id: &ServerId) -> Option<&Arc<dyn Upstream>> {
        let server = self.servers.get(&*id.slug)?;
        if id.names(&**server) { Some(server) } else { None }
    }

    /// Returns whether a server's list has visible entries, or is empty for now.
    pub(crate) fn lists_of(&self, id: &ServerId, kind: ListKind) -> bool {
        let Some(server) = self.server(id) else { return false };
        let slug = &*id.slug;
        ListKind::ALL.iter().any(|one| one.announced_as() == kind && self.has_entries(slug, *one))
            || server.catalog().items(kind).is_empty()
    }

    /// Returns whether a resource is below a listed skill.
    pub(crate) fn has_skill_of(&self, server: &dyn Upstream, own: &str) -> bool {
        self.items[index(ListKind::Skills)].iter().any(|skill| skill.covers(server, own))
    }

    fn has_entries(&self, slug: &str, kind: ListKind) -> bool {
        self.items[index(kind)].iter().any(|entry| entry.slug.as_str() == slug)
    }

    /// Returns the marks of the lists of clients of an audience.
    pub(crate) fn marks(&self, client: Audience) -> ListMarks {
        *self.marks[client as usize]
            .get_or_init(|| ListMarks(ListKind::ALL.map(|kind| self.mark(kind, client))))
    }

    fn mark(&self, kind: ListKind, client: Audience) -> u64 {
        let mut hasher = blake3::Hasher::new();
        if kind == ListKind::Tools && self.search.is_some() {
            hasher.update(b"search");
        }
        // The degraded servers and their states are part of a list; reasons and times are not.
        for degraded in &self.degraded {
            if !degraded.concerns(kind) {
                continue;
            }
            for part in [&degraded.server, degraded.state] {
                hasher.update(&part.len().to_le_bytes());
                hasher.update(part.as_bytes());
            }
        }
        for entry in self.entries(kind, client) {
            for part in [self.shown(entry).as_bytes(), &entry.item.text] {
                hasher.update(&part.len().to_le_bytes());
                hasher.update(part);
            }
        }
        let mut mark = [0; 8];
        hasher.finalize_xof().fill(&mut mark);
        u64::from_le_bytes(mark)
    }

    /// Estimates the view's memory beside the catalog, in bytes: slots in several tables for each
    /// entry, and the entry's text once more in the serialised pages.
    pub(super) fn weight(&self) -> usize {
        let mut weight = VIEW_WEIGHT;
        for entry in self.items.iter().flatten() {
            weight += ENTRY_WEIGHT + 4 * entry.exposed.len() + entry.item.text.len();
        }
        if self.search.is_some() {
            weight += INDEX_WEIGHT * self.items[index(ListKind::Tools)].len();
        }
        weight
    }
}

impl View {
    /// Finds the server and its own URI behind a client's URI, listed or not.
    pub(crate) fn resource(&self, uri: &str, kind: TargetKind) -> Option<FoundResource> {
        self.resource_within(uri, kind, &mut Steps::of_request())
    }

    /// Like [`Self::resource`], with a budget for many URIs.
    pub(crate) fn resource_within(
        &self,
        uri: &str,
        kind: TargetKind,
        steps: &mut Steps,
    ) -> Option<FoundResource> {
        let (slug, own) = if self.namespaced {
            match uri::own(uri) {
                Some((slug, own)) => {
                    (self.servers.get_key_value(slug)?.0.clone(), own.into_owned())
                }
                None => (self.web.get(uri)?.clone(), uri.to_owned()),
            }
        } else {
            (self.servers.keys().next()?.clone(), uri.to_owned())
        };
        uri::validate(&own, uri::MAX_URI).ok()?;
        // Servers accept many spellings, but policies are checked against a single spelling.
        let is_known = match uri::form(&own) {
            Form::Canonical => true,
            Form::Expanded => self.describes_within(uri, steps),
            Form::Other => self.lists(uri),
        };
        if !is_known {
            return None;
        }
        let server = self.servers.get(&slug)?;
        if self.quarantined_skills.iter().any(|skill| skill.covers(&**server, &own)) {
            return None;
        }
        let exposed = uri::expose(&slug, &own).into_owned();
        if let Some(compose) = &self.compose
            && !compose.resources.fit(&[&exposed, &own, &format!("{slug}/{own}")])
        {
            return None;
        }
        let category = category(&**server);
        let target = unlisted_target(kind, &**server, (&exposed, &own), category.as_deref());
        let subject = self.rights.subject();
        let verdict =
            self.policy.verdict(&self.rights.class, &self.rights.question(&subject, &target));
        if !verdict.is_visible() {
            return None;
        }
        Some(FoundResource { server: Arc::clone(server), own, exposed, category, verdict })
    }

    /// Returns whether a resource or a template with this URI is listed.
    pub(crate) fn lists(&self, uri: &str) -> bool {
        for kind in [ListKind::Resources, ListKind::Templates] {
            for entry in &self.items[index(kind)] {
                if **self.shown(entry) == *uri {
                    return true;
                }
            }
        }
        false
    }

    /// Returns whether a resource with this URI is listed, or a listed template expands to the URI.
    pub(crate) fn describes(&self, uri: &str) -> bool {
        self.describes_within(uri, &mut Steps::of_request())
    }

    /// Like [`Self::describes`], with a budget for many URIs. Returns `false` once it is used up.
    pub(crate) fn describes_within(&self, uri: &str, steps: &mut Steps) -> bool {
        let mut templates = self.items[index(ListKind::Templates)].iter();
        self.lists(uri) || templates.any(|entry| template::describes(self.shown(entry), uri, steps))
    }
}
