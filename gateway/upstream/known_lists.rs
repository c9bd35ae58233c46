//! Stored lists of a server, which outlive the process: as bytes, parsed by the same code as the
//! server's own responses. They contain no secrets.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use lockgate_protocol::capabilities::Offers;
use lockgate_protocol::jsonrpc::{self, Message, Outcome, SentBy};
use lockgate_protocol::list;
use lockgate_protocol::revision::Era;
use lockgate_protocol::scan::{self, Member};
use lockgate_text::json;
use serde_json::{Value, json};

use crate::catalog::{Catalog, Item, ListKind};
use crate::{BoxFuture, lists};

/// Persists the last good lists of a server.
pub trait CatalogMemory: Send + Sync + 'static {
    /// Loads the stored lists, if any.
    fn load(&self) -> BoxFuture<'_, Option<Catalog>>;

    /// Stores lists that were just read. Returns at once.
    fn keep(&self, catalog: &Catalog);
}

/// The version of the stored form; other versions are ignored.
const STORED_FORM: u64 = 1;
/// Deeper than any accepted item of a server.
const MAX_DEPTH: usize = 1024;

/// Members for the items offered only to interactive clients.
const ASKING: [&str; ListKind::COUNT] =
    ["askingTools", "askingPrompts", "askingResources", "askingTemplates", "askingSkills"];

impl Catalog {
    /// Encodes the lists in the shape of a server's response.
    pub fn encode(&self) -> Vec<u8> {
        let mut offers = self.offers;
        let offered = offers.named().into_iter().filter(|(_, is_offered)| **is_offered);
        let names: Vec<_> = offered.map(|(name, _)| name).collect();
        let about = json!({
            "form": STORED_FORM,
            "offers": names,
            "instructions": self.instructions.as_deref(),
            "ttlMs": self.ttl_ms,
            "public": self.public,
            "askingEra": self.asking_era.map(Era::as_str),
        });
        let mut text = b"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"about\":".to_vec();
        text.extend_from_slice(about.to_string().as_bytes());
        if let Some(extensions) = &self.extensions {
            text.extend_from_slice(b",\"extensions\":");
            text.extend_from_slice(extensions);
        }
        for kind in ListKind::ALL {
            write_items(&mut text, kind.member(), self.items(kind));
            write_items(&mut text, ASKING[kind as usize], self.asking_items(kind));
        }
        text.extend_from_slice(b"}}");
        text
    }

    /// Decodes stored lists, which were read from the server at `read_at`; `None` if they are
    /// invalid.
    pub fn decode(text: Bytes, read_at: SystemTime) -> Option<Self> {
        let Ok(Message::Response(response)) = jsonrpc::parse(text, MAX_DEPTH, SentBy::Server)
        else {
            return None;
        };
        let Outcome::Result(_, members) = &response.outcome else { return None };
        let text = &response.text;
        let about = scan::find(members, text, "about")?;
        let about: Value = json::from_slice(about.of(text)).ok()?;
        if about["form"] != STORED_FORM {
            return None;
        }
        let mut catalog = Self { read_at: Some(read_at), ..read_about(&about) };
        let extensions = scan::find(members, text, "extensions");
        catalog.extensions = extensions.map(|span| text.slice(span.range()));
        for kind in ListKind::ALL {
            let items = read_items(text, members, kind, kind.member())?;
            catalog.set_items(kind, items);
            catalog.asking[kind as usize] = read_items(text, members, kind, ASKING[kind as usize])?;
        }
        Some(catalog)
    }
}

fn read_about(about: &Value) -> Catalog {
    let mut offers = Offers::default();
    for (name, is_offered) in offers.named() {
        if let Value::Array(names) = &about["offers"] {
            *is_offered = names.iter().any(|one| one == name);
        }
    }
    let asking_era = match about["askingEra"].as_str() {
        Some(era) if era == Era::Legacy.as_str() => Some(Era::Legacy),
        Some(era) if era == Era::Modern.as_str() => Some(Era::Modern),
        _ => None,
    };
    Catalog {
        offers,
        instructions: about["instructions"].as_str().map(Arc::from),
        ttl_ms: about["ttlMs"].as_u64(),
        public: about["public"] == true,
        asking_era,
        ..Catalog::default()
    }
}

fn write_items(text: &mut Vec<u8>, member: &str, items: &[Item]) {
    text.extend_from_slice(b",\"");
    text.extend_from_slice(member.as_bytes());
    text.extend_from_slice(b"\":[");
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        text.extend_from_slice(&item.text);
    }
    text.push(b']');
}

fn read_items(text: &Bytes, members: &[Member], kind: ListKind, member: &str) -> Option<Vec<Item>> {
    // Lists of earlier versions have no skills.
    let Some(array) = scan::find(members, text, member) else {
        return (kind == ListKind::Skills).then(Vec::new);
    };
    let (raw, bad) = list::items(text, array, kind.form(), MAX_DEPTH).ok()?;
    if !bad.is_empty() {
        return None;
    }
    let items = raw.into_iter().map(|raw| {
        let headers = lists::headers(kind, &raw.text).unwrap_or(None);
        Item { key: raw.key.into(), text: raw.text, headers }
    });
    Some(items.collect())
}

#[cfg(test)]
mod tests;
