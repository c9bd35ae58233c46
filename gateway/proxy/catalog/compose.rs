//! Items of an endpoint, chosen, renamed and described by the operator or an agent's owner.
//! Policies and records refer to the original.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use lockgate_protocol::name::Naming;
use lockgate_protocol::{list, write};
use lockgate_upstream::{Item, ListKind};

use super::entry::{CatalogEntry, ViewEntry};
use crate::items::Compose;

/// The original of each name and alias, in lower case.
type Names = HashMap<String, String>;

/// Keeps the chosen entries of a list, under their names and descriptions at the endpoint. A name
/// that another visible item has, chosen or not, is not given.
pub(super) fn apply(compose: &Compose, kind: ListKind, naming: Naming, seen: &mut Vec<ViewEntry>) {
    let mut names = Names::new();
    if !kind.has_uris() && !compose.rename.is_empty() {
        names = names_of(seen.iter().map(|seen| &*seen.entry), naming);
    }
    let patterns = match kind {
        ListKind::Tools => &compose.tools,
        ListKind::Prompts => &compose.prompts,
        ListKind::Resources | ListKind::Templates | ListKind::Skills => &compose.resources,
    };
    seen.retain(|seen| {
        let entry = &seen.entry;
        patterns.fit(&[&entry.exposed, &entry.item.key, &original(entry)])
    });
    for seen in seen {
        let original = original(&seen.entry);
        let listed = compose.rename.get(&original).filter(|_| !kind.has_uris());
        let described = compose.describe.get(&original).filter(|_| kind != ListKind::Skills);
        let mut entry = CatalogEntry::clone(&seen.entry);
        if let Some(listed) = listed {
            if is_free(&mut names, listed, &original) {
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

/// Returns the names and aliases of items.
pub(crate) fn names_of<'a>(
    entries: impl Iterator<Item = &'a CatalogEntry>,
    naming: Naming,
) -> Names {
    let mut names = Names::new();
    for entry in entries {
        names.insert(entry.exposed.to_ascii_lowercase(), original(entry));
        for alias in naming.aliases(&entry.slug, &entry.item.key) {
            names.entry(alias.to_ascii_lowercase()).or_insert_with(|| original(entry));
        }
    }
    names
}

/// Returns whether a name is free for an item, which then has it.
pub(crate) fn is_free(names: &mut Names, name: &str, of: &str) -> bool {
    *names.entry(name.to_ascii_lowercase()).or_insert_with(|| of.to_owned()) == *of
}

fn original(entry: &CatalogEntry) -> String {
    format!("{}/{}", entry.slug, entry.item.key)
}
