//! Merged lists. Each page is rendered once per view and revision, and copied into responses
//! unchanged.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use lockgate_protocol::header;
use lockgate_protocol::list::{self, Shown};
use lockgate_protocol::revision::{Era, Revision};
use lockgate_protocol::scan::{self, Keys, Scanner, Span};
use lockgate_upstream::{Item, ListKind};

use crate::catalog::rendered::Pages;
use crate::catalog::{CatalogEntry, View, ViewSearch, index, management};

/// Returns the pages of a list for a client's revision. `asked` includes the items for clients that
/// accept questions.
pub(crate) fn find_pages(
    view: &View,
    search: Option<&ViewSearch>,
    kind: ListKind,
    revision: Revision,
    asked: bool,
    page_items: usize,
) -> Arc<Pages> {
    let search = search.filter(|_| kind == ListKind::Tools);
    let cells = match search {
        Some(search) => &search.pages[usize::from(asked)],
        None => &view.rendered.0[usize::from(asked)][index(kind)],
    };
    Arc::clone(cells[revision.index()].get_or_init(|| {
        let asked = if asked { Some(revision.era()) } else { None };
        let pages = match search {
            Some(search) => render_short(view, search, revision, asked, page_items),
            None => {
                let entries = match kind {
                    ListKind::Tools => view.listed_tools(),
                    _ => &view.items[index(kind)],
                };
                let entries = entries.iter().filter(|entry| entry.audience.includes(asked));
                let entries: Vec<_> = entries.collect();
                render(view, kind, revision, &entries, page_items)
            }
        };
        let mut hasher = blake3::Hasher::new();
        for page in &pages {
            hasher.update(page);
        }
        Arc::new(Pages { mark: format!("{:.16}", hasher.finalize().to_hex()), pages })
    }))
}

/// Returns an item's definition for clients of this revision. Clients disagree on annotations of
/// nested arguments that are repeated in headers, so these are stripped; the gateway itself repeats
/// those arguments.
fn definition(item: &Item, revision: Revision) -> Cow<'_, [u8]> {
    let text = &item.text[..];
    let nested = matches!(&item.headers, Some(headers) if headers.has_nested());
    if !nested || revision < Revision::V2026_07_28 {
        return text.into();
    }
    let Some(schema) = find_input_schema(text) else { return text.into() };
    let before = &text[..schema.range().start];
    let after = &text[schema.range().end..];
    [before, &header::strip_nested(schema.of(text)), after].concat().into()
}

fn find_input_schema(text: &[u8]) -> Option<Span> {
    let mut scanner = Scanner::new(text, scan::MAX_DEPTH).ok()?;
    let (_, members) = scanner.members(Keys::Distinct).ok()?;
    scan::find(&members, text, "inputSchema")
}

fn render(
    view: &View,
    kind: ListKind,
    revision: Revision,
    entries: &[&Arc<CatalogEntry>],
    page_items: usize,
) -> Vec<Bytes> {
    if entries.is_empty() {
        return vec![Bytes::from_static(b"[]")];
    }
    let mut pages = Vec::new();
    for entries in entries.chunks(page_items.max(1)) {
        pages.push(render_page(view, kind, revision, entries));
    }
    pages
}

/// Renders the management tools, and the tools that stay listed beside them.
fn render_short(
    view: &View,
    search: &ViewSearch,
    revision: Revision,
    asked: Option<Era>,
    page_items: usize,
) -> Vec<Bytes> {
    let entries: Vec<_> =
        search.listed.iter().filter(|entry| entry.audience.includes(asked)).collect();
    let mut pages = render(view, ListKind::Tools, revision, &entries, page_items);
    let mut first = vec![b'['];
    for (name, definition) in management::DEFINITIONS {
        if first.len() > 1 {
            first.push(b',');
        }
        let shown = Shown { key: (ListKind::Tools.key(), name), slug: None, revision };
        // The definitions are constants.
        let _ = list::show(&mut first, definition.as_bytes(), &shown);
    }
    if !entries.is_empty() {
        first.push(b',');
    }
    first.extend_from_slice(&pages[0][1..]);
    pages[0] = first.into();
    pages
}

fn render_page(
    view: &View,
    kind: ListKind,
    revision: Revision,
    entries: &[&Arc<CatalogEntry>],
) -> Bytes {
    let mut out = vec![b'['];
    for entry in entries {
        let slug = if view.namespaced { Some(entry.slug.as_str()) } else { None };
        let before = out.len();
        if before > 1 {
            out.push(b',');
        }
        let shown = Shown { key: (kind.key(), view.shown(entry)), slug, revision };
        if list::show(&mut out, &definition(&entry.item, revision), &shown).is_err() {
            // Unreachable: the item was scanned on arrival.
            out.truncate(before);
        }
    }
    out.push(b']');
    Bytes::from(out)
}
