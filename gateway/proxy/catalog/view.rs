//! The part of the catalog that one class of callers sees at one endpoint. A name is looked up
//! here, never taken apart.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use lockgate_policy::Policy;
use lockgate_protocol::capabilities::Offers;
use lockgate_protocol::name::Slug;
use lockgate_protocol::revision::Era;
use lockgate_upstream::{ListKind, ServerId, Upstream};
use serde_json::{Map, Value};

use super::entry::{Entry, ViewEntry, index};
use super::mark::ListMarks;
use super::rendered::Rendered;
use crate::rights::CallerRights;

/// What an entry takes in a view, beside its name and text: its place in the tables of names and
/// lists.
const ENTRY_WEIGHT: usize = 512;
/// What a view takes without any entry.
const VIEW_WEIGHT: usize = 4 * 1024;

/// A server that a client should know to be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Degraded {
    pub(crate) server: String,
    pub(crate) state: &'static str,
    /// RFC 3339.
    pub(crate) since: String,
    pub(crate) reason: String,
    /// What it offers; everything, as long as it has never been asked.
    pub(super) offers: Offers,
}

impl Degraded {
    /// Whether something may be missing of a list, or be out of date in it.
    fn concerns(&self, kind: ListKind) -> bool {
        match kind {
            ListKind::Tools => self.offers.tools,
            ListKind::Prompts => self.offers.prompts,
            ListKind::Resources | ListKind::Templates => self.offers.resources,
        }
    }
}

/// What one endpoint shows: the catalog under its policy and names.
pub(crate) struct View {
    /// Names and URIs carry the server's slug.
    pub(crate) namespaced: bool,
    pub(crate) servers: BTreeMap<Slug, Arc<dyn Upstream>>,
    pub(crate) items: [Vec<Arc<Entry>>; 4],
    /// Tools and prompts by the name that clients use, other spellings included.
    pub(super) names: [HashMap<Box<str>, ViewEntry>; 2],
    /// Servers by resources that keep their own URI (`http`, `https`).
    pub(super) web: HashMap<Box<str>, Slug>,
    pub(crate) offers: Offers,
    /// What servers declare that the gateway need not understand.
    pub(crate) extensions: Map<String, Value>,
    pub(crate) instructions: Vec<(Slug, Arc<str>)>,
    pub(crate) degraded: Vec<Degraded>,
    /// How long its lists keep, in milliseconds: as long as those of the server whose keep
    /// shortest.
    pub(crate) keep_ms: u64,
    pub(crate) rendered: Rendered,
    pub(super) marks: [OnceLock<ListMarks>; 2],
    /// Whose view it is: of everybody in the same class.
    pub(super) policy: Arc<Policy>,
    pub(super) rights: CallerRights,
}

impl View {
    /// The tool that clients call by this name.
    pub(crate) fn tool(&self, name: &str) -> Option<&ViewEntry> {
        self.names[0].get(name)
    }

    pub(crate) fn prompt(&self, name: &str) -> Option<&ViewEntry> {
        self.names[1].get(name)
    }

    /// What a client sees of an item: its name or URI here.
    pub(crate) fn shown<'a>(&self, entry: &'a Entry) -> &'a Arc<str> {
        if self.namespaced { &entry.exposed } else { &entry.item.key }
    }

    /// The entries of a list for a client: its era, if it can be asked things.
    pub(crate) fn entries(
        &self,
        kind: ListKind,
        asked: Option<Era>,
    ) -> impl Iterator<Item = &Arc<Entry>> {
        self.items[index(kind)].iter().filter(move |entry| entry.audience.includes(asked))
    }

    /// The server, if it is seen here.
    pub(crate) fn server(&self, id: &ServerId) -> Option<&Arc<dyn Upstream>> {
        let server = self.servers.get(&*id.slug)?;
        if id.names(&**server) { Some(server) } else { None }
    }

    /// Whether a list of a server shows here: it has an entry, or may have one later.
    pub(crate) fn lists_of(&self, id: &ServerId, kind: ListKind) -> bool {
        let Some(server) = self.server(id) else { return false };
        let slug = &*id.slug;
        self.has_entries(slug, kind)
            || kind == ListKind::Resources && self.has_entries(slug, ListKind::Templates)
            || server.catalog().items(kind).is_empty()
    }

    fn has_entries(&self, slug: &str, kind: ListKind) -> bool {
        self.items[index(kind)].iter().any(|entry| entry.slug.as_str() == slug)
    }

    /// Of the lists as clients see them that can be asked things, or not.
    pub(crate) fn marks(&self, asked: bool) -> ListMarks {
        *self.marks[usize::from(asked)]
            .get_or_init(|| ListMarks(ListKind::ALL.map(|kind| self.mark(kind, asked))))
    }

    fn mark(&self, kind: ListKind, asked: bool) -> u64 {
        let asked = if asked { Some(Era::Legacy) } else { None };
        let mut hasher = blake3::Hasher::new();
        // What a list says of servers that are missing is a part of it, but for the time.
        for degraded in &self.degraded {
            if !degraded.concerns(kind) {
                continue;
            }
            for part in [&degraded.server, degraded.state] {
                hasher.update(&part.len().to_le_bytes());
                hasher.update(part.as_bytes());
            }
        }
        for entry in self.entries(kind, asked) {
            for part in [entry.exposed.as_bytes(), &entry.item.text] {
                hasher.update(&part.len().to_le_bytes());
                hasher.update(part);
            }
        }
        let mut mark = [0; 8];
        hasher.finalize_xof().fill(&mut mark);
        u64::from_le_bytes(mark)
    }

    /// What it takes beside the catalog, in bytes, about: a place in several tables for each entry,
    /// and its text once more in the pages of a list.
    pub(super) fn weight(&self) -> usize {
        let mut weight = VIEW_WEIGHT;
        for entry in self.items.iter().flatten() {
            weight += ENTRY_WEIGHT + 4 * entry.exposed.len() + entry.item.text.len();
        }
        weight
    }
}
