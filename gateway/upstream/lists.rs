//! Reading every page of every list of a server, within bounds, into one catalog.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use lockgate_protocol::header::ParamHeaders;
use lockgate_protocol::list::{self, short};
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use lockgate_protocol::scan::{self, Span};

use crate::catalog::{Catalog, Item, Kind};
use crate::config::Limits;
use crate::connection::{Ask, Connection};
use crate::failure::{self, Failure};
use crate::screen;

/// Longest key of an item, in bytes.
const MAX_KEY: usize = 8 * 1024;
/// Items of a page of which it is told in words why they are left out.
const MAX_TOLD: usize = 20;

fn method(kind: Kind) -> Method {
    match kind {
        Kind::Tools => Method::ToolsList,
        Kind::Prompts => Method::PromptsList,
        Kind::Resources => Method::ResourcesList,
        Kind::Templates => Method::TemplatesList,
    }
}

/// Reads all lists that the server declared. A list that it refuses is empty, and `omitted` says
/// so.
///
/// # Errors
/// The transport failed, or the server sent something that is not a list.
pub(crate) async fn read(
    connection: &Connection,
    limits: &Limits,
    capabilities: &[u8],
) -> Result<Catalog, Failure> {
    let offers = connection.peer.offers;
    let mut catalog = Catalog {
        instructions: connection.peer.instructions.as_deref().map(Arc::from),
        offers,
        extensions: connection.peer.extensions.as_ref().map(|e| e.to_string().into()),
        public: true,
        ..Catalog::default()
    };
    for kind in Kind::ALL {
        let offered = match kind {
            Kind::Tools => offers.tools,
            Kind::Prompts => offers.prompts,
            Kind::Resources | Kind::Templates => offers.resources,
        };
        if offered {
            let items = pages(connection, kind, limits, capabilities, &mut catalog).await?;
            match kind {
                Kind::Tools => {
                    catalog.has_headers = items.iter().any(|t| t.headers.is_some());
                    catalog.tools = items;
                }
                Kind::Prompts => catalog.prompts = items,
                Kind::Resources => catalog.resources = items,
                Kind::Templates => catalog.templates = items,
            }
        }
    }
    if connection.era() == Era::Legacy {
        catalog.public = false;
    }
    Ok(catalog)
}

async fn pages(
    connection: &Connection,
    kind: Kind,
    limits: &Limits,
    capabilities: &[u8],
    catalog: &mut Catalog,
) -> Result<Vec<Item>, Failure> {
    let mut items = Vec::new();
    let mut keys = HashSet::new();
    let mut cursors = HashSet::new();
    let mut cursor: Option<Bytes> = None;
    for page in 0.. {
        if page >= limits.list_pages {
            catalog.omitted.push(format!(
                "{}: more than {} pages (limits.list_pages)",
                kind.member(),
                limits.list_pages
            ));
            break;
        }
        let params = [("cursor", cursor.as_ref().map(|c| c.to_vec()))];
        let mut ask = Ask::own(method(kind), &params);
        ask.capabilities = capabilities;
        let (response, result) = match connection.simple(ask).await {
            Err(failure) if failure.kind == failure::Kind::Garbage && !failure.sent => {
                catalog.omitted.push(format!("{}: {}", kind.member(), failure.words));
                break;
            }
            other => other?,
        };
        let lockgate_protocol::jsonrpc::Outcome::Result(_, members) = &response.outcome else {
            break;
        };
        let member = |name: &str| scan::find(members, &response.text, name);
        note_cache(
            catalog,
            member("ttlMs").map(|s| s.of(&response.text)),
            member("cacheScope").map(|s| s.of(&response.text)),
        );
        let array = member(kind.member()).ok_or_else(|| {
            broken(format!("the result of {} has no `{}`", method(kind).as_str(), kind.member()))
        })?;
        let full =
            take(&response.text, array, kind, limits, connection, &mut items, &mut keys, catalog)?;
        cursor = member("nextCursor")
            .map(|s| response.text.slice(s.range()))
            .filter(|c| c.starts_with(b"\""));
        drop(result);
        match &cursor {
            _ if full => break,
            None => break,
            Some(next) if !cursors.insert(next.clone()) => {
                catalog.omitted.push(format!("{}: the server repeats a cursor", kind.member()));
                break;
            }
            Some(_) => {}
        }
    }
    Ok(items)
}

fn broken(words: String) -> Failure {
    Failure::new(failure::Kind::Garbage, words).after_send()
}

fn note_cache(catalog: &mut Catalog, ttl: Option<&[u8]>, scope: Option<&[u8]>) {
    let ttl = ttl.and_then(|t| std::str::from_utf8(t).ok()?.parse::<i64>().ok()).unwrap_or(0);
    let ttl = u64::try_from(ttl).unwrap_or(0);
    catalog.ttl_ms = Some(catalog.ttl_ms.map_or(ttl, |old| old.min(ttl)));
    catalog.public &= scope == Some(b"\"public\"");
}

/// What is left out of one page: the first ones in words, of the others how many there are.
#[derive(Default)]
struct LeftOut {
    told: Vec<String>,
    more: usize,
}

impl LeftOut {
    fn tell(&mut self, words: String) {
        if self.told.len() < MAX_TOLD { self.told.push(words) } else { self.more += 1 }
    }

    fn close(self, kind: Kind, catalog: &mut Catalog) {
        catalog.omitted.extend(self.told);
        if self.more > 0 {
            catalog.omitted.push(format!("{}: {} more of these", kind.member(), self.more));
        }
    }
}

/// Takes the items of one page. Gives true when the list is full.
#[allow(clippy::too_many_arguments)]
fn take(
    text: &Bytes,
    array: Span,
    kind: Kind,
    limits: &Limits,
    connection: &Connection,
    items: &mut Vec<Item>,
    keys: &mut HashSet<Arc<str>>,
    catalog: &mut Catalog,
) -> Result<bool, Failure> {
    let (raw, bad) = list::items(text, array, kind.form(), limits.depth)
        .map_err(|flaw| broken(format!("{}: {flaw}", method(kind).as_str())))?;
    catalog.omitted.extend(bad);
    let mut left_out = LeftOut::default();
    for item in raw {
        if items.len() >= limits.list_items {
            let most = limits.list_items;
            catalog
                .omitted
                .push(format!("{}: more than {most} items (limits.list_items)", kind.member()));
            left_out.close(kind, catalog);
            return Ok(true);
        }
        let key: Arc<str> = item.key.into();
        if key.len() > MAX_KEY || !keys.insert(Arc::clone(&key)) {
            left_out.tell(format!("{}: {} twice, or too long", kind.member(), short(&key)));
            continue;
        }
        if let Some(bytes) = screen::too_long_description(&item.text, limits.description_bytes) {
            let most = limits.description_bytes;
            left_out.tell(format!(
                "{} {}: a description of {bytes} bytes, more than {most} (limits.description_bytes)",
                kind.form().noun,
                short(&key)
            ));
            continue;
        }
        let mut text = item.text;
        if let Some((clean, icons)) = screen::without_unsafe_icons(&text) {
            left_out.tell(format!(
                "{} {}: {icons} of its icons, which are no images in themselves and at no public \
                    https address",
                kind.form().noun,
                short(&key)
            ));
            text = clean.into();
        }
        match headers(kind, &text) {
            // A copy, so that one item does not keep its whole page alive.
            Ok(headers) => items.push(Item { key, text: Bytes::copy_from_slice(&text), headers }),
            Err(words) if connection.takes_param_headers() => {
                left_out.tell(format!("tool {}: {words}", short(&key)));
            }
            // Only HTTP gives the annotations a meaning, so without it they are dropped rather than
            // the tool.
            Err(_) => items.push(Item { key, text: without_annotations(&text), headers: None }),
        }
    }
    left_out.close(kind, catalog);
    Ok(false)
}

/// The header annotations of a tool, if it is one and has some.
fn headers(kind: Kind, item: &[u8]) -> Result<Option<Arc<ParamHeaders>>, String> {
    let Some(schema) = list::member(item, "inputSchema").filter(|_| kind == Kind::Tools) else {
        return Ok(None);
    };
    match ParamHeaders::from_schema(schema) {
        Ok(headers) if headers.is_empty() => Ok(None),
        Ok(headers) => Ok(Some(Arc::new(headers))),
        Err(error) => Err(error.to_string()),
    }
}

fn without_annotations(item: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(item.len());
    match list::strip_annotations(&mut out, item) {
        Ok(()) => out.into(),
        Err(_) => Bytes::copy_from_slice(item),
    }
}
