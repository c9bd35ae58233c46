//! The search index of a catalog's tools, built on first use.

use std::sync::{Arc, OnceLock};

use lockgate_search::{Builder, Document, Index};
use serde_json::Value;

use super::entry::CatalogEntry;

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
