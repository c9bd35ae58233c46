//! Items of a composed endpoint: chosen, renamed and described by the operator. Policies and
//! records refer to the original.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use lockgate_protocol::{list, write};
use lockgate_upstream::{Item, ListKind};

use super::entry::{CatalogEntry, ViewEntry};
use crate::config::Compose;

/// Keeps the chosen entries of a list, under their names and descriptions at the endpoint.
pub(super) fn apply(compose: &Compose, kind: ListKind, seen: &mut Vec<ViewEntry>) {
    let patterns = match kind {
        ListKind::Tools => &compose.tools,
        ListKind::Prompts => &compose.prompts,
        ListKind::Resources | ListKind::Templates | ListKind::Skills => &compose.resources,
    };
    seen.retain(|seen| {
        let entry = &seen.entry;
        patterns.fit(&[&entry.exposed, &entry.item.key, &original(entry)])
    });
    let mut names = HashSet::new();
    for seen in &*seen {
        names.insert(seen.entry.exposed.to_ascii_lowercase());
    }
    for seen in seen {
        let original = original(&seen.entry);
        let listed = compose.rename.get(&original).filter(|_| !kind.has_uris());
        let described = compose.describe.get(&original).filter(|_| kind != ListKind::Skills);
        let mut entry = CatalogEntry::clone(&seen.entry);
        if let Some(listed) = listed {
            if names.insert(listed.to_ascii_lowercase()) {
                entry.listed = Some(listed.as_str().into());
            } else {
                tracing::warn!(tool = original, listed, "not renamed, because the name is taken");
            }
        }
        if let Some(text) = described
            && let Some(text) =
                list::with_member(&entry.item.text, "description", &write::quoted(text))
        {
            entry.item = Item { text: Bytes::from(text), ..entry.item };
        }
        if listed.is_some() || described.is_some() {
            seen.entry = Arc::new(entry);
        }
    }
}

fn original(entry: &CatalogEntry) -> String {
    format!("{}/{}", entry.slug, entry.item.key)
}
