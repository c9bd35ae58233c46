//! Search in a view: the tools that remain listed, and the visible tools of the indexes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use lockgate_protocol::list;
use lockgate_search::{Part, Query, Vector, find, find_similar};
use serde_json::Value;

use super::entry::CatalogEntry;
use super::rendered::Pages;
use super::tool_index::ToolIndex;

/// Tools from which an index is not built on a thread that serves requests.
const QUICKLY_INDEXED: usize = 100;
/// Numbers of vectors from which they are not compared on such a thread.
const QUICKLY_COMPARED: usize = 1 << 20;

/// How a view's tools are found.
pub(crate) struct ViewSearch {
    /// Whether clients that load definitions on demand get the full list.
    pub(crate) is_auto: bool,
    /// Tools that are listed beside the management tools.
    pub(crate) listed: Vec<Arc<CatalogEntry>>,
    /// Names of tools for hosts only (MCP Apps), which models neither find nor call.
    for_hosts: HashSet<Arc<str>>,
    sources: Vec<Source>,
    /// Pages of the short list, by whether a client accepts questions, and by revision.
    pub(crate) pages: [[OnceLock<Arc<Pages>>; 5]; 2],
}

/// The vector of a query.
#[derive(Clone, Copy)]
pub(crate) struct Similar<'a> {
    /// The number of its source.
    pub(crate) source: u64,
    pub(crate) vector: &'a [f32],
}

struct Source {
    index: Arc<ToolIndex>,
    /// Positions in the view's list, by number in the index; `None` for tools that are not found.
    positions: Vec<Option<usize>>,
}

impl ViewSearch {
    /// Returns the search of these tools of a view, most of which are those of these indexes.
    pub(super) fn new<'a>(
        tools: &[Arc<CatalogEntry>],
        namespaced: bool,
        indexes: impl Iterator<Item = &'a Arc<ToolIndex>>,
        is_auto: bool,
        always: &BTreeSet<String>,
    ) -> Box<Self> {
        let mut listed = Vec::new();
        let mut for_hosts = HashSet::new();
        let mut positions = HashMap::new();
        for (position, entry) in tools.iter().enumerate() {
            let name = entry.shown(namespaced);
            if is_for_hosts(&entry.item.text) {
                for_hosts.insert(Arc::clone(name));
                listed.push(Arc::clone(entry));
                continue;
            }
            if always.contains(&**name) {
                listed.push(Arc::clone(entry));
            }
            positions.insert(Arc::as_ptr(entry), position);
        }
        let mut sources = Vec::new();
        for index in indexes {
            let mut of_index = Vec::with_capacity(index.tools.len());
            for tool in &index.tools {
                of_index.push(positions.remove(&Arc::as_ptr(tool)));
            }
            if of_index.iter().any(Option::is_some) {
                sources.push(Source { index: Arc::clone(index), positions: of_index });
            }
        }
        // Groups, and tools with another name or description here, are found by these.
        let mut changed: Vec<usize> = positions.into_values().collect();
        if !changed.is_empty() {
            changed.sort_unstable();
            let own: Vec<_> =
                changed.iter().map(|position| Arc::clone(&tools[*position])).collect();
            let positions = changed.into_iter().map(Some).collect();
            sources.push(Source { index: ToolIndex::new(&own), positions });
        }
        Box::new(Self { is_auto, listed, for_hosts, sources, pages: Default::default() })
    }

    /// Returns whether a search takes little time; `length` is that of the query's vector.
    pub(crate) fn is_quick(&self, length: usize) -> bool {
        self.sources.iter().all(|source| {
            let tools = source.positions.len();
            (source.index.is_built() || tools <= QUICKLY_INDEXED)
                && tools * length <= QUICKLY_COMPARED
        })
    }

    /// Returns the indexes of the tools.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = &Arc<ToolIndex>> {
        self.sources.iter().map(|source| &source.index)
    }

    /// Returns whether a tool is for hosts only.
    pub(crate) fn is_for_hosts(&self, name: &str) -> bool {
        self.for_hosts.contains(name)
    }

    /// Returns the best of the included tools of the view for a query, and for its vector if those
    /// of all tools are known.
    pub(crate) fn find<'v>(
        &self,
        tools: &'v [Arc<CatalogEntry>],
        (query, similar): (&Query, Option<Similar<'_>>),
        limit: usize,
        includes: &dyn Fn(&CatalogEntry) -> bool,
    ) -> Vec<&'v Arc<CatalogEntry>> {
        let mut filters = Vec::new();
        for source in &self.sources {
            filters.push(move |number: u32| {
                let position = source.positions[number as usize];
                position.is_some_and(|position| includes(&tools[position]))
            });
        }
        let mut parts = Vec::new();
        for (source, includes) in self.sources.iter().zip(&filters) {
            parts.push(Part { index: source.index.get(), includes });
        }
        let vectors = similar.map(|similar| self.vectors(similar.source)).unwrap_or_default();
        let hits = match similar {
            Some(similar) if vectors.len() == parts.len() => {
                find_similar(&parts, query, &vectors, similar.vector, limit)
            }
            _ => find(&parts, query, limit),
        };
        let mut found = Vec::new();
        for hit in hits {
            let position = self.sources[hit.part].positions[hit.document as usize];
            found.extend(position.map(|position| &tools[position]));
        }
        found
    }

    /// Returns the vectors of the tools of each source, without those that are not known.
    fn vectors(&self, source: u64) -> Vec<&[Vector]> {
        self.indexes().filter_map(|index| index.vectors(source)).collect()
    }
}

/// Returns whether a tool is for the host only: `_meta.ui.visibility` without `model`.
fn is_for_hosts(definition: &[u8]) -> bool {
    if memchr::memmem::find(definition, b"visibility").is_none() {
        return false;
    }
    let Some(meta) = list::member(definition, "_meta") else { return false };
    let meta: Value = serde_json::from_slice(meta).unwrap_or(Value::Null);
    let Some(visibility) = meta["ui"]["visibility"].as_array() else { return false };
    !visibility.iter().any(|reader| reader == "model")
}
