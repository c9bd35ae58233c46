//! Merged lists: each page is written once for each view and revision, and copied into answers as it is.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use lockgate_protocol::list::{self, Shown};
use lockgate_protocol::revision::Revision;
use lockgate_upstream::ListKind;

use crate::catalog::{View, index};

/// The pages of a view's lists, written when they are first asked for.
#[derive(Default)]
pub(crate) struct Rendered([[[OnceLock<Arc<Pages>>; 5]; 4]; 2]);

/// One list as clients of one revision see it.
pub(crate) struct Pages {
    /// The same for the same list, also after a rebuild: cursors stay good as long as nothing has changed.
    pub(crate) mark: String,
    /// JSON text of an array each.
    pub(crate) pages: Vec<Bytes>,
}

/// The pages of one list for clients of one revision that can be asked things or not.
pub(crate) fn pages(view: &View, kind: ListKind, revision: Revision, asked: bool, page_items: usize) -> Arc<Pages> {
    let cell = &view.rendered.0[usize::from(asked)][index(kind)][revision.index()];
    Arc::clone(cell.get_or_init(|| {
        let pages = render(view, kind, revision, asked, page_items);
        let mut hasher = blake3::Hasher::new();
        for page in &pages {
            hasher.update(page);
        }
        Arc::new(Pages { mark: hasher.finalize().to_hex().chars().take(16).collect(), pages })
    }))
}

fn render(view: &View, kind: ListKind, revision: Revision, asked: bool, page_items: usize) -> Vec<Bytes> {
    let entries: Vec<_> = view.entries(kind, asked).collect();
    if entries.is_empty() {
        return vec![Bytes::from_static(b"[]")];
    }
    let page = |entries: &[&Arc<crate::catalog::Entry>]| {
        let mut out = vec![b'['];
        for entry in entries {
            let slug = view.namespaced.then_some(entry.slug.as_str());
            let before = out.len();
            if before > 1 {
                out.push(b',');
            }
            let shown = Shown { key: (kind.key(), view.shown(entry)), slug, revision };
            if list::show(&mut out, &entry.item.text, &shown).is_err() {
                out.truncate(before); // the item was scanned when it came in, so this does not happen
            }
        }
        out.push(b']');
        Bytes::from(out)
    };
    entries.chunks(page_items.max(1)).map(page).collect()
}
