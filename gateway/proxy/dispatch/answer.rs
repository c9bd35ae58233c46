//! Responses of the gateway itself: pages of merged lists, and discovery.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use lockgate_protocol::capabilities::{Offers, add_extensions};
use lockgate_protocol::key::Key;
use lockgate_protocol::list::{self, Shown};
use lockgate_protocol::revision::Revision;
use lockgate_protocol::write::{self, Object};
use lockgate_protocol::{header, meta};
use lockgate_text::json;
use lockgate_upstream::{Item, ListKind};
use serde_json::{Value, json};

use crate::catalog::entry::Pages;
use crate::catalog::{Audience, CatalogEntry, View, ViewSearch, index, tool_index};
use crate::context::RequestContext;
use crate::rescue::RequestError;
use crate::snapshot::Snapshot;
use crate::tokens;
use crate::transport::Text;

/// Limit on joined instructions, in bytes.
const MAX_INSTRUCTIONS: usize = 32 * 1024;
/// Limit on the introduction to a search, in bytes, and on the purpose of each server in it.
const MAX_INTRODUCTION: usize = 2 * 1024;
const MAX_PURPOSE: usize = 120;

/// Writes a page of a merged list: a head and tail around the cached bytes of the items.
pub(super) fn write_page(context: &RequestContext, kind: ListKind) -> Result<Text, RequestError> {
    if kind == ListKind::Tools
        && let Some(embeddings) = &context.snapshot.embeddings
        && let Some(search) = context.search()
    {
        // A search is likely to follow.
        embeddings.fill(search);
    }
    let list = find_pages(context, kind);
    let Some((number, page)) = find_page(context, &list) else {
        return Err(RequestError::stale_cursor());
    };
    let mut head = Vec::with_capacity(256);
    write::result_head(&mut head, context.request.id());
    let mut object = Object::open(&mut head);
    if context.info().is_some() {
        write_cache_hints(&mut object, &context.view);
    }
    if number + 1 < list.pages.len() {
        let plain = format!("{} {}", list.mark, number + 1);
        let method = context.request.method.as_str();
        if let Some(cursor) = tokens::seal_cursor(context, &[method], plain.as_bytes()) {
            object.string("nextCursor", &cursor);
        }
    }
    write_list_meta(&mut object, context);
    object.key(kind.member());
    Ok(Text::Shared(Box::new([head.into(), page.clone(), Bytes::from_static(b"}}")])))
}

/// Returns the requested page and its number, or `None` if the cursor is not of this list.
fn find_page<'a>(context: &RequestContext, list: &'a Pages) -> Option<(usize, &'a Bytes)> {
    let number = match context.request.param(Key::Cursor) {
        None => 0,
        Some(cursor) => read_cursor(context, &list.mark, cursor)?,
    };
    Some((number, list.pages.get(number)?))
}

fn read_cursor(context: &RequestContext, mark: &str, cursor: &[u8]) -> Option<usize> {
    let plain = tokens::open_cursor(context, &[context.request.method.as_str()], cursor)?;
    let (of, number) = std::str::from_utf8(&plain).ok()?.split_once(' ')?;
    if of != mark { None } else { number.parse().ok() }
}

fn write_cache_hints(object: &mut Object<'_>, view: &View) {
    object.raw("resultType", b"\"complete\"");
    write::number(object.key("ttlMs"), view.keep_ms);
    object.raw("cacheScope", b"\"private\"");
}

/// Writes the server info, if results have it, and the degraded servers.
fn write_list_meta(object: &mut Object<'_>, context: &RequestContext) {
    let missing = !context.view.degraded.is_empty();
    let info = context.info();
    if info.is_none() && !missing {
        return;
    }
    let mut inner = Object::open(object.key("_meta"));
    if let Some(info) = info {
        inner.raw(meta::SERVER_INFO, info);
    }
    if missing {
        inner.raw(meta::DEGRADED, json!(context.view.degraded).to_string().as_bytes());
    }
    inner.close();
}

pub(super) fn write_discovery(context: &RequestContext) -> Text {
    let versions: Vec<_> =
        Revision::OFFERED.into_iter().map(|revision| revision.as_str()).collect();
    let mut capabilities = Offers::modern(context.view.offers);
    add_extensions(&mut capabilities, &context.view.extensions);
    let info = json::from_slice(&context.snapshot.info).unwrap_or(Value::Null);
    let mut result = json!({
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": capabilities,
        "ttlMs": context.view.keep_ms,
        "cacheScope": "private",
        "_meta": {meta::SERVER_INFO: info},
    });
    if !context.view.degraded.is_empty() {
        result["_meta"][meta::DEGRADED] = json!(context.view.degraded);
    }
    if let Some(text) = join_instructions(&context.snapshot, &context.view, context.search()) {
        result["instructions"] = text.into();
    }
    Text::Whole(write::result(context.request.id(), result.to_string().as_bytes()).into())
}

/// Joins the servers' instructions under headings. Texts that would exceed the limit are left out.
pub fn join_instructions(
    snapshot: &Snapshot,
    view: &View,
    search: Option<&ViewSearch>,
) -> Option<String> {
    let mut all = snapshot.config.instructions.clone().unwrap_or_default();
    if search.is_some() {
        introduce_search(&mut all, view);
        return Some(all);
    }
    for (slug, text) in &view.instructions {
        if all.len() + text.len() > MAX_INSTRUCTIONS {
            continue;
        }
        if !view.namespaced {
            return Some(if all.is_empty() {
                text.to_string()
            } else {
                format!("{all}\n\n{text}")
            });
        }
        if !all.is_empty() {
            all.push_str("\n\n");
        }
        all.push_str(&format!("# {slug}\n{text}"));
    }
    if all.is_empty() { None } else { Some(all) }
}

/// Appends the number of tools, and the servers with their purpose.
fn introduce_search(all: &mut String, view: &View) {
    if !all.is_empty() {
        all.push_str("\n\n");
    }
    let start = all.len();
    let tools = view.items[index(ListKind::Tools)].len();
    all.push_str(&format!("Use find_tools to find one of {tools} tools of these servers:"));
    for slug in view.servers.keys() {
        let text = view.instructions.iter().find(|(other, _)| other == slug);
        let purpose =
            text.map_or(String::new(), |(_, text)| tool_index::first_sentence(text, MAX_PURPOSE));
        let line = format!("\n- {slug}{}{purpose}", if purpose.is_empty() { "" } else { ": " });
        if all.len() - start + line.len() > MAX_INTRODUCTION {
            all.push_str("\n- …");
            break;
        }
        all.push_str(&line);
    }
}

/// Returns the pages of a list for a client's revision and audience.
fn find_pages(context: &RequestContext, kind: ListKind) -> Arc<Pages> {
    let view = &*context.view;
    let revision = context.revision;
    let client = context.audience();
    let page_items = context.snapshot.config.limits.page_items;
    let search = context.search().filter(|_| kind == ListKind::Tools);
    let cells = match search {
        Some(search) => &search.pages,
        None => &view.rendered.0[index(kind)],
    };
    Arc::clone(cells[client as usize][revision.index()].get_or_init(|| {
        let pages = match search {
            Some(search) => render_short(view, search, revision, client, page_items),
            None => {
                let entries = match kind {
                    ListKind::Tools => view.listed_tools(),
                    _ => &view.items[index(kind)],
                };
                let entries = entries.iter().filter(|entry| entry.audience.includes(client));
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
    let Some(schema) = list::member(text, "inputSchema") else { return text.into() };
    let stripped = list::with_member(text, "inputSchema", &header::strip_nested(schema));
    stripped.map_or(text.into(), Cow::Owned)
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
    let pages = entries.chunks(page_items.max(1));
    pages.map(|entries| render_page(view, kind, revision, entries)).collect()
}

/// Renders the management tools, and the tools that stay listed beside them.
fn render_short(
    view: &View,
    search: &ViewSearch,
    revision: Revision,
    client: Audience,
    page_items: usize,
) -> Vec<Bytes> {
    let entries: Vec<_> =
        search.listed.iter().filter(|entry| entry.audience.includes(client)).collect();
    let mut pages = render(view, ListKind::Tools, revision, &entries, page_items);
    let mut first = vec![b'['];
    for (name, definition) in tool_index::DEFINITIONS {
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
