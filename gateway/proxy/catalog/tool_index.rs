//! The tools of a catalog as they are found: their index of words, and their vectors.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use blake3::Hash;
use lockgate_search::{Builder, Document, Index, Vector};
use parking_lot::Mutex;
use serde_json::Value;

use super::entry::CatalogEntry;

/// Bytes of a text for a vector.
pub(crate) const MAX_TEXT: usize = 1024;
/// Names of parameters in the text of a tool for its vector.
const MAX_PARAMETERS: usize = 16;

/// All tools of a catalog, in list order, visible or not, or those that a view changes.
#[derive(Default)]
pub(crate) struct ToolIndex {
    pub(crate) tools: Vec<Arc<CatalogEntry>>,
    index: OnceLock<Index>,
    filling: Mutex<Filling>,
    /// The number of a source of vectors, and its vectors of all tools, by number.
    vectors: OnceLock<(u64, Vec<Vector>)>,
}

/// The state of the computation of vectors.
#[derive(Default)]
enum Filling {
    #[default]
    Wanted,
    /// It runs, or has ended.
    Begun,
    WantedFrom(Instant),
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
                let definition = serde_json::from_slice(&entry.item.text).unwrap_or(Value::Null);
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
        let mut texts = Vec::with_capacity(self.tools.len());
        for entry in &self.tools {
            let definition = serde_json::from_slice(&entry.item.text).unwrap_or(Value::Null);
            let text = describe(&make_document(entry, &definition));
            texts.push((blake3::hash(text.as_bytes()), text));
        }
        texts
    }

    /// Returns whether the caller is to compute the vectors.
    pub(crate) fn begin_filling(&self) -> bool {
        let mut filling = self.filling.lock();
        let begins = match *filling {
            Filling::Wanted => true,
            Filling::Begun => false,
            Filling::WantedFrom(time) => Instant::now() >= time,
        };
        if begins {
            *filling = Filling::Begun;
        }
        begins
    }

    /// Lets another attempt begin later.
    pub(crate) fn retry_filling(&self, time: Instant) {
        *self.filling.lock() = Filling::WantedFrom(time);
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
