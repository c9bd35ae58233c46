//! The catalog of a server: its lists as raw items, complete (all pages), in the server's own order
//! and bytes; and the memory that they are charged to, while they are read and for as long as they
//! are referenced. Lists of the operator's servers are charged to the budget of messages; those of
//! organisations have their own budgets, in which lists of resting servers are evicted for others.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use lockgate_admission::budget::{Budget, Hold};
use lockgate_protocol::capabilities::Offers;
use lockgate_protocol::header::ParamHeaders;
use lockgate_protocol::jsonrpc::{self, Message, Outcome, SentBy};
use lockgate_protocol::list::{self, Form};
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use lockgate_protocol::scan::{self, Member};
use lockgate_text::json;
use serde_json::{Value, json};

use crate::BoxFuture;

/// A server's lists and handshake data. Immutable; replaced on every change.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Increases with every change of this server's lists.
    pub version: u64,
    /// The items that are offered to all clients.
    pub lists: [Vec<Item>; ListKind::COUNT],
    /// Items of the lists that are offered only to interactive clients, as far as they were
    /// read.
    pub asking: [Vec<Item>; ListKind::COUNT],
    /// The era of the clients that are offered those items; `None` for both.
    pub asking_era: Option<Era>,
    /// The server's instructions, if any.
    pub instructions: Option<Arc<str>>,
    /// The declared features.
    pub offers: Offers,
    /// JSON text of the declared extensions (`capabilities.extensions`), if any.
    pub extensions: Option<Bytes>,
    /// Smallest `ttlMs` of the lists (modern servers), in milliseconds.
    pub ttl_ms: Option<u64>,
    /// Whether all lists have `cacheScope: public`.
    pub public: bool,
    /// Whether any tool declares headers that repeat its arguments.
    pub has_headers: bool,
    /// Why the server refused `tools/list`, if so.
    pub refused: Option<String>,
    /// Omitted items and the reasons (over a limit, invalid header annotations, no name).
    pub omitted: Vec<String>,
    /// When the lists were read, if that was by an earlier process or client.
    pub read_at: Option<SystemTime>,
    /// The charge of the lists to the memory for lists.
    pub memory: ListMemory,
}

/// A tool, prompt, resource, template or skill.
#[derive(Clone, Debug)]
pub struct Item {
    /// The server's own name (tools, prompts), URI (resources, skills) or URI template (templates).
    pub key: Arc<str>,
    /// The server's definition: JSON text of an object.
    pub text: Bytes,
    /// Headers that repeat arguments (`x-mcp-header`), tools only; `None` if there are none.
    pub headers: Option<Arc<ParamHeaders>>,
}

/// The kind of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
    Skills,
}

impl Item {
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.key.len() + self.text.len()
    }
}

impl ListKind {
    pub const COUNT: usize = 5;
    pub const ALL: [Self; Self::COUNT] =
        [Self::Tools, Self::Prompts, Self::Resources, Self::Templates, Self::Skills];

    /// Returns the list with the item that a call names; `None` for requests without a name.
    pub fn of_call(method: Method) -> Option<Self> {
        match method {
            Method::ToolsCall => Some(Self::Tools),
            Method::PromptsGet => Some(Self::Prompts),
            _ => None,
        }
    }

    /// Returns the member of the list result that contains the items.
    pub fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Skills => "skills",
        }
    }

    /// Returns the list whose changes are announced with this one's: templates and skills belong to
    /// the resources.
    #[must_use]
    pub fn announced_as(self) -> Self {
        match self {
            Self::Templates | Self::Skills => Self::Resources,
            other => other,
        }
    }

    /// Returns whether items are named by URIs.
    pub fn has_uris(self) -> bool {
        self.announced_as() == Self::Resources
    }

    /// Returns the member of an item that is its key.
    pub fn key(self) -> &'static str {
        self.form().key
    }

    /// Returns the header annotations of a tool; `None` for other items and tools without any.
    pub(crate) fn headers(self, item: &[u8]) -> Result<Option<Arc<ParamHeaders>>, String> {
        if self != Self::Tools {
            return Ok(None);
        }
        let Some(schema) = list::member(item, "inputSchema") else { return Ok(None) };
        match ParamHeaders::from_schema(schema) {
            Ok(headers) if headers.is_empty() => Ok(None),
            Ok(headers) => Ok(Some(Arc::new(headers))),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns the form of its items.
    pub fn form(self) -> &'static Form {
        match self {
            Self::Tools => &list::TOOL,
            Self::Prompts => &list::PROMPT,
            Self::Resources => &list::RESOURCE,
            Self::Templates => &list::TEMPLATE,
            Self::Skills => &list::SKILL,
        }
    }
}

impl Catalog {
    /// Reports whether the catalogs are equal, apart from their versions.
    pub fn same_as(&self, other: &Self) -> bool {
        ListKind::ALL.into_iter().all(|kind| self.lists_alike(other, kind))
            && self.offers == other.offers
            && self.instructions == other.instructions
            && self.extensions == other.extensions
            && self.public == other.public
            && self.asking_era == other.asking_era
    }

    /// Reports whether a list is equal in both catalogs.
    pub(crate) fn lists_alike(&self, other: &Self, kind: ListKind) -> bool {
        alike(self.items(kind), other.items(kind))
            && alike(self.asking_items(kind), other.asking_items(kind))
    }

    /// Returns the items of a list that are offered only to interactive clients.
    pub fn asking_items(&self, kind: ListKind) -> &[Item] {
        &self.asking[kind as usize]
    }

    /// Adds the items of `full`, the lists of an interactive client, that are missing here.
    pub(crate) fn add_asking(&mut self, full: &Self) {
        for kind in ListKind::ALL {
            let known: HashSet<&str> = self.items(kind).iter().map(|item| &*item.key).collect();
            let more = full.items(kind).iter().filter(|item| !known.contains(&*item.key));
            self.asking[kind as usize] = more.cloned().collect();
        }
        self.memory.add(&full.memory);
    }

    /// Returns the tools and skills, which can be pinned.
    pub fn pinned_items(&self) -> impl Iterator<Item = &Item> {
        let kinds = [ListKind::Tools, ListKind::Skills].into_iter();
        kinds.flat_map(|kind| self.items(kind).iter().chain(self.asking_items(kind)))
    }

    pub(crate) fn bytes(&self) -> usize {
        let all = ListKind::ALL.into_iter();
        let items = all.flat_map(|kind| self.items(kind).iter().chain(self.asking_items(kind)));
        items.map(Item::bytes).sum()
    }

    /// Returns the items of a list that are offered to all clients.
    pub fn items(&self, kind: ListKind) -> &[Item] {
        &self.lists[kind as usize]
    }

    /// Replaces the items of a list that are offered to all clients.
    pub fn set_items(&mut self, kind: ListKind, items: Vec<Item>) {
        if kind == ListKind::Tools {
            self.has_headers = items.iter().any(|tool| tool.headers.is_some());
        }
        self.lists[kind as usize] = items;
    }
}

fn alike(a: &[Item], b: &[Item]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.text == b.text)
}

/// Uncharged bytes per operator's server: the operator decides on their number.
const UNCHARGED_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// The limit of a server.
    OfServer,
    /// The limit of all servers together.
    OfAll,
}

/// A budget for lists.
pub(crate) trait ListAccount: Send + Sync {
    fn budget(&self) -> &Arc<Budget>;

    /// Evicts lists of resting servers to free at least `bytes`, as far as possible.
    fn make_room(&self, bytes: usize);
}

/// The memory of a server's lists while they are read.
pub(crate) struct ListHold {
    /// With the account of each, in which room can be made.
    holds: Vec<(Hold, Option<Arc<dyn ListAccount>>)>,
    bytes: usize,
    free: usize,
    most: usize,
}

/// The charge of lists, held for as long as they are referenced.
#[derive(Clone, Default)]
pub struct ListMemory(Vec<Arc<ListHold>>);

impl ListHold {
    /// Creates the charge for a server of the operator.
    pub(crate) fn of_operator(budget: &Arc<Budget>) -> Self {
        let holds = vec![(Hold::none(Arc::clone(budget)), None)];
        Self { holds, bytes: 0, free: UNCHARGED_BYTES, most: usize::MAX }
    }

    /// Creates the charge for a server with the limit `most`, which counts in all of the accounts.
    pub(crate) fn in_accounts(accounts: Vec<Arc<dyn ListAccount>>, most: usize) -> Self {
        let holds = accounts.into_iter().map(|account| {
            let hold = Hold::none(Arc::clone(account.budget()));
            (hold, Some(account))
        });
        Self { holds: holds.collect(), bytes: 0, free: 0, most }
    }

    /// Removes the uncharged part: these lists exist once per client, and the number of clients is
    /// unbounded.
    pub(crate) fn count_all(self) -> Self {
        Self { free: 0, ..self }
    }

    /// Charges more bytes.
    ///
    /// # Errors
    /// [`NoRoom`]: the bytes were not charged.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let total = self.bytes.saturating_add(bytes);
        if total > self.most {
            return Err(NoRoom::OfServer);
        }
        let counted = total.saturating_sub(self.free);
        for (hold, account) in &mut self.holds {
            let more = counted.saturating_sub(hold.bytes());
            if hold.grow(more).is_err() {
                account.as_ref().ok_or(NoRoom::OfAll)?.make_room(more);
                hold.grow(more).map_err(|_| NoRoom::OfAll)?;
            }
        }
        self.bytes = total;
        Ok(())
    }

    pub(crate) fn most(&self) -> String {
        format!("{} MiB", self.most >> 20)
    }

    pub(crate) fn finish(self) -> ListMemory {
        ListMemory(vec![Arc::new(self)])
    }
}

impl ListMemory {
    /// Adds the charge of other lists, which share items with these.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }
}

lockgate_text::debug_fields!(ListMemory);

// Stored lists of a server, which outlive the process: as bytes, parsed by the same code as the
// server's own responses. They contain no secrets.

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
        let headers = kind.headers(&raw.text).unwrap_or(None);
        Item { key: raw.key.into(), text: raw.text, headers }
    });
    Some(items.collect())
}

#[cfg(test)]
mod tests;
