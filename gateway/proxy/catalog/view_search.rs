//! Search in a view: the tools that remain listed, and the visible tools of the indexes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use lockgate_protocol::list;
use lockgate_search::{Builder, Document, Index, Part, Query, find};
use serde_json::Value;

use super::entry::CatalogEntry;
use super::rendered::Pages;

/// Tools from which an index is not built on a thread that serves requests.
const QUICKLY_INDEXED: usize = 100;

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

struct Source {
    index: Arc<ToolIndex>,
    /// Positions in the view's list, by number in the index; `None` for tools that are not found.
    positions: Vec<Option<usize>>,
}

impl ViewSearch {
    /// Returns the search of these tools of a view, which come from these catalogs.
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
            positions.insert((&*entry.slug, &*entry.item.key), (position, entry));
        }
        let mut sources = Vec::new();
        for index in indexes {
            let mut of_index = Vec::with_capacity(index.tools.len());
            for tool in &index.tools {
                let found = positions.get(&(&*tool.slug, &*tool.item.key));
                let same = found.filter(|(_, entry)| Arc::ptr_eq(&entry.server, &tool.server));
                of_index.push(same.map(|(position, _)| *position));
            }
            sources.push(Source { index: Arc::clone(index), positions: of_index });
        }
        Box::new(Self { is_auto, listed, for_hosts, sources, pages: Default::default() })
    }

    /// Returns whether a search takes little time.
    pub(crate) fn is_quick(&self) -> bool {
        let mut sources = self.sources.iter();
        sources.all(|source| source.index.is_built() || source.positions.len() <= QUICKLY_INDEXED)
    }

    /// Returns whether a tool is for hosts only.
    pub(crate) fn is_for_hosts(&self, name: &str) -> bool {
        self.for_hosts.contains(name)
    }

    /// Returns the best of the included tools of the view for a query.
    pub(crate) fn find<'v>(
        &self,
        tools: &'v [Arc<CatalogEntry>],
        query: &Query,
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
        let mut found = Vec::new();
        for hit in find(&parts, query, limit) {
            let position = self.sources[hit.part].positions[hit.document as usize];
            found.extend(position.map(|position| &tools[position]));
        }
        found
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

/// All tools of a catalog, in list order, visible or not.
#[derive(Default)]
pub(crate) struct ToolIndex {
    pub(super) tools: Vec<Arc<CatalogEntry>>,
    index: OnceLock<Index>,
}

impl ToolIndex {
    pub(super) fn new(tools: &[Arc<CatalogEntry>]) -> Arc<Self> {
        Arc::new(Self { tools: tools.to_vec(), index: OnceLock::new() })
    }

    pub(super) fn is_built(&self) -> bool {
        self.index.get().is_some()
    }

    pub(super) fn get(&self) -> &Index {
        self.index.get_or_init(|| {
            let mut builder = Builder::default();
            for entry in &self.tools {
                let definition = serde_json::from_slice(&entry.item.text).unwrap_or(Value::Null);
                builder.add(&make_document(entry, &definition));
            }
            builder.finish()
        })
    }
}

fn make_document<'a>(entry: &'a CatalogEntry, definition: &'a Value) -> Document<'a> {
    let mut parameters = Vec::new();
    let properties = definition["inputSchema"]["properties"].as_object();
    for (name, schema) in properties.into_iter().flatten() {
        parameters.push((name.as_str(), text(&schema["description"])));
    }
    let title = match text(&definition["title"]) {
        "" => text(&definition["annotations"]["title"]),
        title => title,
    };
    Document {
        name: &entry.item.key,
        title,
        server: &entry.slug,
        description: text(&definition["description"]),
        parameters,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}
