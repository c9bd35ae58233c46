//! Reads all pages of all lists of a server into a catalog, within limits.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use lockgate_egress::Policy;
use lockgate_protocol::jsonrpc::{Outcome, Response};
use lockgate_protocol::key::Key;
use lockgate_protocol::list::{self, Omissions, Raw, short};
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use lockgate_protocol::scan::{self, Keys, Member, Scanner, Span};
use lockgate_protocol::strings::{self, StringRole};
use lockgate_protocol::write::Object;
use lockgate_text::json;
use url::{Host, Url};

use crate::catalog::{Catalog, Item, ListHold, ListKind, NoRoom};
use crate::config::Limits;
use crate::connection::{Ask, Connection};
use crate::failure::{self, Result, UpstreamError};

/// Longest key of an item, in bytes.
const MAX_KEY: usize = 8 * 1024;

/// The error of lists that exceed the gateway's memory for lists.
pub(crate) const NO_LIST_MEMORY: &str = "not enough memory for its lists";

fn method(kind: ListKind) -> Method {
    match kind {
        ListKind::Tools => Method::ToolsList,
        ListKind::Prompts => Method::PromptsList,
        ListKind::Resources => Method::ResourcesList,
        ListKind::Templates => Method::TemplatesList,
        ListKind::Skills => Method::SkillsList,
    }
}

/// Reads all lists that the server declared. A list that it refuses is empty and mentioned in
/// `omitted`.
///
/// # Errors
/// The transport failed, or the server sent something that is not a list.
pub(crate) async fn read(
    connection: &Connection,
    limits: &Limits,
    capabilities: &[u8],
    mut memory: ListHold,
) -> Result<Catalog> {
    let offers = connection.peer.server.offers;
    let mut catalog = Catalog {
        instructions: connection.peer.server.instructions.as_deref().map(Arc::from),
        offers,
        extensions: connection.peer.server.extensions.as_ref().map(|e| e.to_string().into()),
        public: true,
        ..Catalog::default()
    };
    for kind in ListKind::ALL {
        let offered = match kind {
            ListKind::Tools => offers.tools,
            ListKind::Prompts => offers.prompts,
            ListKind::Resources | ListKind::Templates => offers.resources,
            ListKind::Skills => offers.skills,
        };
        if offered {
            let reading = Reading {
                connection,
                kind,
                limits,
                capabilities,
                catalog: &mut catalog,
                memory: &mut memory,
                items: Vec::new(),
                keys: HashSet::new(),
                cursors: HashSet::new(),
            };
            let items = reading.read_pages().await?;
            catalog.set_items(kind, items);
        }
    }
    if connection.era() == Era::Legacy {
        catalog.public = false;
    }
    catalog.memory = memory.finish();
    Ok(catalog)
}

struct Reading<'a> {
    connection: &'a Connection,
    kind: ListKind,
    limits: &'a Limits,
    capabilities: &'a [u8],
    catalog: &'a mut Catalog,
    memory: &'a mut ListHold,
    items: Vec<Item>,
    keys: HashSet<Arc<str>>,
    cursors: HashSet<Bytes>,
}

impl Reading<'_> {
    async fn read_pages(mut self) -> Result<Vec<Item>> {
        let mut cursor: Option<Bytes> = None;
        for page in 0.. {
            if page >= self.limits.list_pages {
                let most = self.limits.list_pages;
                self.omit(&format!("more than {most} pages (limits.list_pages)"));
                break;
            }
            let Some(response) = self.ask_for_page(cursor.as_ref()).await? else { break };
            let Outcome::Result(_, members) = &response.outcome else { break };
            cursor = self.take_page(&response.text, members)?;
            if cursor.is_none() {
                break;
            }
        }
        Ok(self.items)
    }

    fn omit(&mut self, words: &str) {
        self.catalog.omitted.push(format!("{}: {words}", self.kind.member()));
    }

    /// Requests a page. Returns `None` if the response is an error, which ends the list.
    async fn ask_for_page(&mut self, cursor: Option<&Bytes>) -> Result<Option<Response>> {
        let params = [(Key::Cursor, cursor.map(|cursor| cursor.to_vec()))];
        let mut ask = Ask::own(method(self.kind), &params);
        ask.capabilities = self.capabilities;
        let answered = self.connection.simple(ask).await;
        match answered {
            Ok(response) => Ok(Some(response)),
            Err(failure)
                if failure.kind == failure::UpstreamErrorKind::Garbage && !failure.sent =>
            {
                self.omit(&failure.words);
                if self.kind == ListKind::Tools {
                    self.catalog.refused = Some(failure.words.into_owned());
                }
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Adds a page. Returns the cursor of the next page, if any.
    fn take_page(&mut self, text: &Bytes, members: &[Member]) -> Result<Option<Bytes>> {
        let ttl = scan::get(members, Key::TtlMs);
        let scope = scan::get(members, Key::CacheScope);
        note_cache(self.catalog, ttl.map(|span| span.of(text)), scope.map(|span| span.of(text)));
        let Some(array) = scan::find(members, text, self.kind.member()) else {
            let method = method(self.kind).as_str();
            let member = self.kind.member();
            return Err(UpstreamError::garbage(format!(
                "the result of {method} has no `{member}`"
            )));
        };
        if self.take_items(text, array)? {
            return Ok(None);
        }
        let Some(span) = scan::get(members, Key::NextCursor) else { return Ok(None) };
        // A copy, so that the cursor does not keep its whole page alive.
        let cursor = Bytes::copy_from_slice(span.of(text));
        if !cursor.starts_with(b"\"") {
            return Ok(None);
        }
        if !self.cursors.insert(cursor.clone()) {
            self.omit("the server repeats a cursor");
            return Ok(None);
        }
        Ok(Some(cursor))
    }

    /// Adds the items of a page. Returns whether the list is full.
    fn take_items(&mut self, text: &Bytes, array: Span) -> Result<bool> {
        let items = list::items(text, array, self.kind.form(), self.limits.depth);
        let (raw, bad) = items.map_err(|flaw| {
            UpstreamError::garbage(format!("{}: {flaw}", method(self.kind).as_str()))
        })?;
        self.catalog.omitted.extend(bad);
        let mut left_out = Omissions::default();
        let mut full = false;
        for item in raw {
            // Omitted items count too, because their keys are kept to detect duplicates.
            let are_enough = self.keys.len() >= self.limits.list_items.saturating_mul(2);
            if are_enough || self.items.len() >= self.limits.list_items {
                let most = self.limits.list_items;
                self.omit(&format!("more than {most} items (limits.list_items)"));
                full = true;
                break;
            }
            let Some(item) = self.admit_item(item, &mut left_out) else { continue };
            match self.memory.grow(item.bytes()) {
                Ok(()) => self.items.push(item),
                Err(NoRoom::OfServer) => {
                    let most = self.memory.most();
                    self.omit(&format!("items beyond {most} in all its lists"));
                    full = true;
                    break;
                }
                Err(NoRoom::OfAll) => {
                    let kind = failure::UpstreamErrorKind::NoMemory;
                    return Err(kind.error(NO_LIST_MEMORY).after_send());
                }
            }
        }
        self.catalog.omitted.extend(left_out.messages);
        if left_out.more > 0 {
            self.omit(&format!("{} more", left_out.more));
        }
        Ok(full)
    }

    /// Returns the item as exposed, or `None` if it is omitted.
    fn admit_item(&mut self, raw: Raw, left_out: &mut Omissions) -> Option<Item> {
        let kind = self.kind;
        let noun = kind.form().noun;
        let key: Arc<str> = raw.key.into();
        if key.len() > MAX_KEY || !self.keys.insert(Arc::clone(&key)) {
            left_out.add(format!("{}: {} is a duplicate or too long", kind.member(), short(&key)));
            return None;
        }
        let most = self.limits.description_bytes;
        if let Some(bytes) = too_long_description(&raw.text, most) {
            left_out.add(format!(
                "{noun} {}: a description of {bytes} bytes, more than {most} \
                    (limits.description_bytes)",
                short(&key)
            ));
            return None;
        }
        let mut text = raw.text;
        if let Some((clean, icons)) = without_unsafe_icons(&text) {
            left_out.add(format!(
                "{noun} {}: {icons} icons that are neither inline images nor at a public https \
                    address",
                short(&key)
            ));
            text = clean.into();
        }
        match kind.headers(&text) {
            // A copy, so that one item does not keep its whole page alive.
            Ok(headers) => Some(Item { key, text: Bytes::copy_from_slice(&text), headers }),
            Err(words) if self.connection.takes_param_headers() => {
                left_out.add(format!("tool {}: {words}", short(&key)));
                None
            }
            // The annotations only matter over HTTP. On other transports they are dropped, not the
            // tool.
            Err(_) => {
                let text = list::without_annotations(&text).unwrap_or_else(|| text.to_vec());
                Some(Item { key, text: Bytes::copy_from_slice(&text), headers: None })
            }
        }
    }
}

fn note_cache(catalog: &mut Catalog, ttl: Option<&[u8]>, scope: Option<&[u8]>) {
    let ttl = ttl.map_or(0, |text| read_ttl(text).unwrap_or(0));
    catalog.ttl_ms = Some(ttl.min(catalog.ttl_ms.unwrap_or(ttl)));
    catalog.public &= scope == Some(b"\"public\"");
}

fn read_ttl(text: &[u8]) -> Option<u64> {
    let ttl: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    u64::try_from(ttl).ok()
}

// Sanitizes list items: removes icons that would make a client fetch from its own network or run a
// script, and detects descriptions over a limit (their items are omitted). Page: basic/index.mdx
// (icons).

/// Names that never belong to public hosts.
const INNER: [&str; 5] = ["localhost", "local", "internal", "lan", "home.arpa"];

/// Returns the item without unsafe icons, and their number; `None` if there are none.
fn without_unsafe_icons(item: &[u8]) -> Option<(Vec<u8>, usize)> {
    // The name may be written with escapes.
    if !has(item, b"icons") && !has(item, b"\\u") {
        return None;
    }
    let (_, members) = Scanner::new(item, scan::MAX_DEPTH).ok()?.members(Keys::Distinct).ok()?;
    let icons = scan::find(&members, item, "icons")?.of(item);
    let mut kept = Vec::new();
    let mut dropped = 0;
    let mut scanner = Scanner::new(icons, scan::MAX_DEPTH).ok()?;
    let walked = scanner.array(&mut |scanner| {
        let icon = scanner.value()?.of(icons);
        match source(icon) {
            Some(source) if is_safe(&source) => kept.push(icon),
            _ => dropped += 1,
        }
        Ok(())
    });
    if walked.is_err() || dropped == 0 {
        return None;
    }
    let mut out = Vec::with_capacity(item.len());
    let mut object = Object::open(&mut out);
    for member in &members {
        match (member.is(item, "icons"), kept.is_empty()) {
            (true, true) => {}
            (true, false) => object.raw("icons", &[b"[", &kept.join(&b","[..])[..], b"]"].concat()),
            (false, _) => object.copy(member.key.of(item), member.value.of(item)),
        }
    }
    object.close();
    Some((out, dropped))
}

fn has(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}

fn source(icon: &[u8]) -> Option<String> {
    let icon: serde_json::Value = json::from_slice(icon).ok()?;
    Some(icon.get("src")?.as_str()?.to_owned())
}

/// Reports whether a source is an inline image, or on a public host over TLS.
fn is_safe(source: &str) -> bool {
    let Ok(url) = Url::parse(source) else { return false };
    match (url.scheme(), url.host()) {
        ("data", _) => url.path().get(..6).is_some_and(|kind| kind.eq_ignore_ascii_case("image/")),
        ("https", Some(host)) => {
            url.username().is_empty() && url.password().is_none() && is_public(&host)
        }
        _ => false,
    }
}

fn is_public(host: &Host<&str>) -> bool {
    match host {
        Host::Ipv4(address) => Policy::Public.permits((*address).into(), true),
        Host::Ipv6(address) => Policy::Public.permits((*address).into(), true),
        Host::Domain(name) => {
            let name = name.trim_end_matches('.');
            name.contains('.') && !INNER.iter().any(|inner| is_at_or_under(name, inner))
        }
    }
}

fn is_at_or_under(name: &str, end: &str) -> bool {
    let Some(rest) = name.strip_suffix(end) else { return false };
    rest.is_empty() || rest.ends_with('.')
}

/// Returns the length of the longest description of the item, at its root or in a schema, if it
/// exceeds `most` bytes.
fn too_long_description(item: &[u8], most: usize) -> Option<usize> {
    if item.len() <= most {
        return None;
    }
    let mut longest = 0;
    let _ = strings::rewrite(item, &mut |place, text| {
        if let StringRole::Value("description" | "title") = place {
            longest = longest.max(text.len());
        }
        None
    });
    if longest > most { Some(longest) } else { None }
}

#[cfg(test)]
mod tests;
