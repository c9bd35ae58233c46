//! The tools of a catalog as they are found: their index of words, their vectors, and the tools
//! with which clients find and call them, in place of a long list.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use blake3::Hash;
use lockgate_protocol::list;
use lockgate_search::{Builder, Document, Index, Part, Query, Vector, find, find_similar};
use lockgate_text::json;
use serde_json::Value;

use crate::catalog::entry::{CatalogEntry, RenderedList};
use crate::config::{CALL, DESCRIBE, FIND};

/// Bytes of a text for a vector.
pub(crate) const MAX_TEXT: usize = 1024;
/// Names of parameters in the text of a tool for its vector.
const MAX_PARAMETERS: usize = 16;

/// All tools of a catalog, in list order, visible or not, or those that a view changes.
#[derive(Default)]
pub(crate) struct ToolIndex {
    pub(crate) tools: Vec<Arc<CatalogEntry>>,
    index: OnceLock<Index>,
    /// Whether the computation of vectors runs, or has ended.
    is_filling: AtomicBool,
    /// The number of a source of vectors, and its vectors of all tools, by number.
    vectors: OnceLock<(u64, Vec<Vector>)>,
}

impl ToolIndex {
    pub(super) fn new(tools: &[Arc<CatalogEntry>]) -> Arc<Self> {
        Arc::new(Self { tools: tools.to_vec(), ..Self::default() })
    }

    pub(super) fn is_built(&self) -> bool {
        self.index.get().is_some()
    }

    pub(super) fn get(&self) -> &Index {
        self.index.get_or_init(|| {
            let mut builder = Builder::default();
            for entry in &self.tools {
                let definition = json::from_slice(&entry.item.text).unwrap_or(Value::Null);
                builder.add(&make_document(entry, &definition));
            }
            builder.finish()
        })
    }

    /// Returns whether the tools are those of an organisation's servers.
    pub(crate) fn is_of_organisation(&self) -> bool {
        self.tools.first().is_some_and(|tool| tool.server.organisation().is_some())
    }

    /// Returns the text of each tool for its vector, with its hash.
    pub(crate) fn describe_tools(&self) -> Vec<(Hash, String)> {
        let texts = self.tools.iter().map(|entry| {
            let definition = json::from_slice(&entry.item.text).unwrap_or(Value::Null);
            let text = describe(&make_document(entry, &definition));
            (blake3::hash(text.as_bytes()), text)
        });
        texts.collect()
    }

    /// Returns whether the caller is to compute the vectors.
    pub(crate) fn begin_filling(&self) -> bool {
        !self.is_filling.swap(true, Ordering::Relaxed)
    }

    /// Lets another attempt begin.
    pub(crate) fn retry_filling(&self) {
        self.is_filling.store(false, Ordering::Relaxed);
    }

    pub(crate) fn set_vectors(&self, source: u64, vectors: Vec<Vector>) {
        if vectors.len() == self.tools.len() {
            let _ = self.vectors.set((source, vectors));
        }
    }

    /// Returns the vectors of all tools, if they are known and of this source.
    pub(super) fn vectors(&self, source: u64) -> Option<&[Vector]> {
        let (known, vectors) = self.vectors.get()?;
        if *known == source { Some(vectors) } else { None }
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
        name: entry.listed.as_ref().unwrap_or(&entry.item.key),
        title,
        server: &entry.slug,
        description: text(&definition["description"]),
        parameters,
    }
}

/// Returns the text of a tool for its vector, the most telling parts first.
fn describe(document: &Document<'_>) -> String {
    let mut text = format!("{} {}", document.server, document.name);
    for part in [document.title, document.description] {
        if !part.is_empty() {
            text.push_str(". ");
            text.push_str(part);
        }
    }
    for (name, _) in document.parameters.iter().take(MAX_PARAMETERS) {
        text.push(' ');
        text.push_str(name);
    }
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    text
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// Tools from which an index is not built on a thread that serves requests.
const QUICKLY_INDEXED: usize = 100;
/// Numbers of vectors from which they are not compared on such a thread.
const QUICKLY_COMPARED: usize = 1 << 20;

/// How a view's tools are found.
pub struct ViewSearch {
    /// Whether clients that load definitions on demand get the full list.
    pub is_auto: bool,
    /// Tools that are listed beside the management tools.
    pub(crate) listed: Vec<Arc<CatalogEntry>>,
    /// Names of tools for hosts only (MCP Apps), which models neither find nor call.
    for_hosts: HashSet<Arc<str>>,
    sources: Vec<Source>,
    /// Pages of the short list.
    pub(crate) pages: RenderedList,
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
            let of_index = index.tools.iter().map(|tool| positions.remove(&Arc::as_ptr(tool)));
            let of_index: Vec<_> = of_index.collect();
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
        let parts = self.sources.iter().zip(&filters);
        let parts: Vec<_> =
            parts.map(|(source, includes)| Part { index: source.index.get(), includes }).collect();
        let vectors = similar.map(|similar| self.vectors(similar.source)).unwrap_or_default();
        let hits = match similar {
            Some(similar) if vectors.len() == parts.len() => {
                find_similar(&parts, query, &vectors, similar.vector, limit)
            }
            _ => find(&parts, query, limit),
        };
        let hits = hits.into_iter();
        let positions =
            hits.filter_map(|hit| self.sources[hit.part].positions[hit.document as usize]);
        positions.map(|position| &tools[position]).collect()
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
    let meta: Value = json::from_slice(meta).unwrap_or(Value::Null);
    let Some(visibility) = meta["ui"]["visibility"].as_array() else { return false };
    !visibility.iter().any(|reader| reader == "model")
}

/// Tools returned by a search: at most, and by default.
pub(crate) const MAX_FOUND: u64 = 25;
pub(crate) const FOUND: u64 = 5;
/// Tools described at once.
pub(crate) const MAX_DESCRIBED: usize = 20;

/// Definitions by name. The limits above stand in them as well.
pub(crate) const DEFINITIONS: [(&str, &str); 3] = [
    (
        FIND,
        concat!(
            r#"{"name":"find_tools","description":"Finds tools by their purpose. Returns "#,
            r#"names, arguments and a line about each. Call a tool that you find with "#,
            r#"call_tool.","inputSchema":{"type":"object","#,
            r#""properties":{"query":{"type":"string","maxLength":4096,"#,
            r#""description":"The task, in a few words"},"server":{"type":"string","#,
            r#""description":"Only tools of this server"},"limit":{"type":"integer","#,
            r#""minimum":1,"maximum":25,"default":5}},"required":["query"],"#,
            r#""additionalProperties":false},"annotations":{"readOnlyHint":true}}"#,
        ),
    ),
    (
        DESCRIBE,
        concat!(
            r#"{"name":"describe_tools","description":"Returns the full definitions of "#,
            r#"tools.","inputSchema":{"type":"object","#,
            r#""properties":{"names":{"type":"array","items":{"type":"string"},"#,
            r#""minItems":1,"maxItems":20}},"required":["names"],"#,
            r#""additionalProperties":false},"annotations":{"readOnlyHint":true}}"#,
        ),
    ),
    (
        CALL,
        concat!(
            r#"{"name":"call_tool","description":"Calls a tool that find_tools "#,
            r#"returned.","inputSchema":{"type":"object","#,
            r#""properties":{"name":{"type":"string"},"arguments":{"type":"object","#,
            r#""description":"The tool's arguments"}},"required":["name"],"#,
            r#""additionalProperties":false}}"#,
        ),
    ),
];

/// Returns the first sentence of a text on one line, of at most so many bytes.
pub(crate) fn first_sentence(text: &str, most: usize) -> String {
    let line = text.trim().lines().next().unwrap_or("");
    let end = line.find(". ").map_or(line.len(), |at| at + 1);
    let sentence = &line[..end];
    let cut = sentence.floor_char_boundary(most);
    if cut < sentence.len() { format!("{}…", &sentence[..cut]) } else { sentence.to_owned() }
}
