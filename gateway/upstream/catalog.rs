//! What one server offers: its four lists as raw items, complete (every page), in the server's own
//! order and bytes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use lockgate_protocol::capabilities::Offers;
use lockgate_protocol::header::ParamHeaders;
use lockgate_protocol::list::{self, Form};
use lockgate_protocol::revision::Era;

use crate::list_memory::ListMemory;

/// A server's lists and what it said at the handshake. Immutable; a new one is made when anything
/// changes.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Grows with every change of this server's lists.
    pub version: u64,
    pub tools: Vec<Item>,
    pub prompts: Vec<Item>,
    pub resources: Vec<Item>,
    pub templates: Vec<Item>,
    /// Items of the four lists that are only offered to clients that a server can ask things, where
    /// that is known.
    pub asking: [Vec<Item>; 4],
    /// Those items are for clients of this era alone; `None`: of both.
    pub asking_era: Option<Era>,
    /// The server's instructions, if any.
    pub instructions: Option<Arc<str>>,
    /// Which features it declared.
    pub offers: Offers,
    /// JSON text of the extensions it declared (`capabilities.extensions`), if any.
    pub extensions: Option<Bytes>,
    /// Least `ttlMs` of its lists (modern servers), in milliseconds.
    pub ttl_ms: Option<u64>,
    /// Whether every list said `cacheScope: public`.
    pub public: bool,
    /// Some tool wants headers that repeat its arguments.
    pub has_headers: bool,
    /// What was left out and why (items over a limit, invalid header annotations, items without a
    /// name).
    pub omitted: Vec<String>,
    /// When they were read, where that was by an earlier process or client.
    pub read_at: Option<SystemTime>,
    /// What they hold of the memory for lists.
    pub memory: ListMemory,
}

/// One tool, prompt, resource or template.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its own name (tools, prompts), URI (resources) or URI template (templates).
    pub key: Arc<str>,
    /// The item as the server wrote it: JSON text of an object.
    pub text: Bytes,
    /// Headers that repeat arguments (`x-mcp-header`), tools only; `None` when there are none.
    pub headers: Option<Arc<ParamHeaders>>,
}

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl Item {
    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.key.len() + self.text.len()
    }
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The member of the list result that holds the items.
    #[must_use]
    pub fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The member of an item that is its key.
    #[must_use]
    pub fn key(self) -> &'static str {
        self.form().key
    }

    /// What its items look like.
    #[must_use]
    pub fn form(self) -> &'static Form {
        match self {
            Self::Tools => &list::TOOL,
            Self::Prompts => &list::PROMPT,
            Self::Resources => &list::RESOURCE,
            Self::Templates => &list::TEMPLATE,
        }
    }
}

impl Catalog {
    /// Whether it says the same as another one, versions aside.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        Kind::ALL.into_iter().all(|kind| self.lists_alike(other, kind))
            && self.offers == other.offers
            && self.instructions == other.instructions
            && self.extensions == other.extensions
            && self.public == other.public
            && self.asking_era == other.asking_era
    }

    /// Whether one list says the same as in another catalog.
    pub(crate) fn lists_alike(&self, other: &Self, kind: Kind) -> bool {
        alike(self.items(kind), other.items(kind))
            && alike(self.asking_items(kind), other.asking_items(kind))
    }

    /// The items of one list that are only offered to clients that can be asked things.
    #[must_use]
    pub fn asking_items(&self, kind: Kind) -> &[Item] {
        &self.asking[kind as usize]
    }

    /// Adds what `full`, the lists that such a client got, has beyond this.
    pub(crate) fn add_asking(&mut self, full: &Self) {
        for kind in Kind::ALL {
            let known: HashSet<&str> = self.items(kind).iter().map(|item| &*item.key).collect();
            let mut more = Vec::new();
            for item in full.items(kind) {
                if !known.contains(&*item.key) {
                    more.push(item.clone());
                }
            }
            self.asking[kind as usize] = more;
        }
        self.memory.add(&full.memory);
    }

    /// Bytes of memory that its items take.
    pub(crate) fn bytes(&self) -> usize {
        let mut bytes = 0;
        for kind in Kind::ALL {
            for item in self.items(kind).iter().chain(self.asking_items(kind)) {
                bytes += item.bytes();
            }
        }
        bytes
    }

    /// The items of one list that are offered to everybody.
    #[must_use]
    pub fn items(&self, kind: Kind) -> &[Item] {
        match kind {
            Kind::Tools => &self.tools,
            Kind::Prompts => &self.prompts,
            Kind::Resources => &self.resources,
            Kind::Templates => &self.templates,
        }
    }
}

fn alike(a: &[Item], b: &[Item]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.text == b.text)
}
