//! Responses of the gateway itself: pages of merged lists, and discovery.

use bytes::Bytes;
use lockgate_protocol::capabilities::{Offers, add_extensions};
use lockgate_protocol::key::Key;
use lockgate_protocol::meta;
use lockgate_protocol::revision::{Era, Revision};
use lockgate_protocol::scan;
use lockgate_protocol::sealed::Purpose;
use lockgate_protocol::write::{self, Object};
use lockgate_upstream::ListKind;
use serde_json::{Value, json};

use crate::catalog::rendered::Pages;
use crate::catalog::{View, ViewSearch, index};
use crate::context::RequestContext;
use crate::rescue::RequestError;
use crate::search::first_sentence;
use crate::snapshot::Snapshot;
use crate::transport::Text;
use crate::{list, unix_time};

/// Lifetime of a cursor, in seconds.
const CURSOR_LIFE: u64 = 3600;
/// Limit on joined instructions, in bytes.
const MAX_INSTRUCTIONS: usize = 32 * 1024;
/// Limit on the introduction to a search, in bytes, and on the purpose of each server in it.
const MAX_INTRODUCTION: usize = 2 * 1024;
const MAX_PURPOSE: usize = 120;

/// Writes a page of a merged list: a head and tail around the cached bytes of the items.
pub(super) fn write_page(context: &RequestContext, kind: ListKind) -> Result<Text, RequestError> {
    let limits = &context.snapshot.config.limits;
    if kind == ListKind::Tools
        && let Some(embeddings) = &context.snapshot.embeddings
        && let Some(search) = context.search()
    {
        // A search is likely to follow.
        embeddings.fill(search);
    }
    let list = list::find_pages(
        &context.view,
        context.search(),
        kind,
        context.revision,
        context.can_be_asked(),
        limits.page_items,
    );
    let Some((number, page)) = find_page(context, &list) else {
        return Err(RequestError::invalid(
            "the cursor is no longer valid; restart without a cursor",
        ));
    };
    let mut head = Vec::with_capacity(256);
    write::result_head(&mut head, context.request.id());
    let mut object = Object::open(&mut head);
    if context.era() == Era::Modern {
        write_cache_hints(&mut object, &context.view);
    }
    if number + 1 < list.pages.len() {
        let plain = format!("{} {}", list.mark, number + 1);
        let expires = unix_time::now() + CURSOR_LIFE;
        let sealer = &context.snapshot.sealer;
        if let Ok(cursor) =
            sealer.seal(Purpose::Cursor, &cursor_binding(context), expires, plain.as_bytes())
        {
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

/// Returns the binding of a cursor to its caller, endpoint and list.
fn cursor_binding(context: &RequestContext) -> [&[u8]; 4] {
    let bind = context.bind();
    [bind[0], bind[1], bind[2], context.request.method.as_str().as_bytes()]
}

fn read_cursor(context: &RequestContext, mark: &str, cursor: &[u8]) -> Option<usize> {
    let token = scan::as_str(cursor)?;
    let binding = cursor_binding(context);
    let sealer = &context.snapshot.sealer;
    let plain = sealer.open(Purpose::Cursor, &binding, unix_time::now(), &token).ok()?;
    let (of, number) = std::str::from_utf8(&plain).ok()?.split_once(' ')?;
    if of != mark {
        return None;
    }
    number.parse().ok()
}

fn write_cache_hints(object: &mut Object<'_>, view: &View) {
    object.raw("resultType", b"\"complete\"");
    write::number(object.key("ttlMs"), view.keep_ms);
    object.raw("cacheScope", b"\"private\"");
}

/// Writes the server info (modern era) and the degraded servers.
fn write_list_meta(object: &mut Object<'_>, context: &RequestContext) {
    let missing = !context.view.degraded.is_empty();
    let modern = context.era() == Era::Modern;
    if !modern && !missing {
        return;
    }
    let mut inner = Object::open(object.key("_meta"));
    if modern {
        inner.raw(meta::SERVER_INFO, &context.snapshot.info);
    }
    if missing {
        inner.raw(meta::DEGRADED, list_degraded(&context.view).to_string().as_bytes());
    }
    inner.close();
}

fn list_degraded(view: &View) -> Value {
    let mut all = Vec::with_capacity(view.degraded.len());
    for one in &view.degraded {
        all.push(json!({
            "server": one.server,
            "state": one.state,
            "since": one.since,
            "reason": one.reason,
        }));
    }
    all.into()
}

pub(super) fn write_discovery(context: &RequestContext) -> Text {
    let versions: Vec<_> =
        Revision::OFFERED.into_iter().map(|revision| revision.as_str()).collect();
    let mut capabilities = Offers::modern(context.view.offers);
    add_extensions(&mut capabilities, &context.view.extensions);
    let info = serde_json::from_slice(&context.snapshot.info).unwrap_or(Value::Null);
    let mut result = json!({
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": capabilities,
        "ttlMs": context.view.keep_ms,
        "cacheScope": "private",
        "_meta": {meta::SERVER_INFO: info},
    });
    if !context.view.degraded.is_empty() {
        result["_meta"][meta::DEGRADED] = list_degraded(&context.view);
    }
    if let Some(text) = join_instructions(&context.snapshot, &context.view, context.search()) {
        result["instructions"] = text.into();
    }
    Text::Whole(write::result(context.request.id(), result.to_string().as_bytes()).into())
}

/// Joins the servers' instructions under headings. Texts that would exceed the limit are left out.
pub(crate) fn join_instructions(
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
        let purpose = text.map_or(String::new(), |(_, text)| first_sentence(text, MAX_PURPOSE));
        let line = format!("\n- {slug}{}{purpose}", if purpose.is_empty() { "" } else { ": " });
        if all.len() - start + line.len() > MAX_INTRODUCTION {
            all.push_str("\n- …");
            break;
        }
        all.push_str(&line);
    }
}
