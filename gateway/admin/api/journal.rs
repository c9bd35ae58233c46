//! The newest events of the gateway, in order, for readers that reconnect. Each organisation has a
//! limit, so that its events do not evict others. Ids do not reveal the number of events. Older
//! events are reported as lost.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use lockgate_accounts::{Accounts, Connection, ConnectionChanges};
use lockgate_admission::spawn;
use lockgate_proxy::{Gateway, ToolChange};
use lockgate_text::date;
use lockgate_upstream::{Event, ListKind, ServerId, Status, Upstream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

/// Maximum number of events of shared servers.
const MAX_SHARED: usize = 1024;
/// Maximum number of events per organisation.
const MAX_OWN: usize = 128;
/// Maximum number of organisations with events.
const MAX_ORGANISATIONS: usize = 1024;

/// The number before the first event.
const BEFORE_ALL: u64 = u64::MAX;

/// The newest events of the gateway.
pub(crate) struct Journal {
    kept: Mutex<Kept>,
    /// The number of the next event, which readers wait for.
    next: watch::Sender<u64>,
    /// The key of ids, different in each process.
    ids: RandomState,
    is_followed: AtomicBool,
}

#[derive(Default)]
struct Kept {
    shared: Events,
    own: BTreeMap<Arc<str>, Events>,
    /// Events before this number are lost for organisations that are not in `own`.
    first: u64,
}

#[derive(Default)]
struct Events {
    /// In the order of their numbers.
    events: VecDeque<Arc<Recorded>>,
    /// Events before this number are lost.
    first: u64,
}

pub(crate) struct Recorded {
    pub(crate) number: u64,
    pub(crate) news: News,
}

pub(crate) enum News {
    /// A server has changed or was removed: its name, state, reason, time of the state, and number
    /// of items, as of then.
    Server(ServerId, Value),
    /// A tool was added or removed.
    Tool(ToolChange),
    /// A user's account at a server has changed.
    Account(Connection),
    /// Events were lost before they could be recorded.
    Missed,
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self {
            kept: Mutex::default(),
            next: watch::Sender::new(0),
            ids: RandomState::new(),
            is_followed: AtomicBool::new(false),
        }
    }

    /// Starts to follow the gateway, unless started already.
    pub(crate) fn follow(self: &Arc<Self>, gateway: &Arc<Gateway>, accounts: &Accounts) {
        if self.is_followed.swap(true, Ordering::AcqRel) {
            return;
        }
        let heard = GatewayEvents {
            events: gateway.directory.events.subscribe(),
            tools: gateway.directory.tools.changes(),
            accounts: accounts.changes(),
            told: HashMap::new(),
        };
        spawn(record_all(Arc::downgrade(self), Arc::downgrade(gateway), heard));
    }

    /// Subscribes to the number of the next event.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.next.subscribe()
    }

    /// Returns the id of an event.
    pub(crate) fn id_of(&self, number: u64) -> String {
        format!("{:016x}", self.ids.hash_one(number))
    }

    /// Returns the id of the newest event for readers of this organisation.
    pub(crate) fn newest_id(&self, organisation: &str) -> String {
        let kept = self.kept.lock();
        let own = kept.own.get(organisation).map_or(0, Events::end);
        self.id_of(own.max(kept.shared.end()).wrapping_sub(1))
    }

    /// Returns the number after the event with this id, for a reader of this organisation. `None`
    /// if the event is lost.
    pub(crate) fn find_next(&self, organisation: &str, id: &str) -> Option<u64> {
        if self.id_of(BEFORE_ALL) == id {
            return Some(0);
        }
        let kept = self.kept.lock();
        let own = kept.own.get(organisation);
        let all = own.into_iter().chain([&kept.shared]);
        let mut events = all.flat_map(|events| &events.events);
        Some(events.find(|event| self.id_of(event.number) == id)?.number + 1)
    }

    /// Returns a mark that differs if the ids differ.
    pub(crate) fn mark_of(&self, ids: &[String]) -> String {
        format!("{:016x}", self.ids.hash_one(ids))
    }

    /// Returns the first event from this number on, for readers of this organisation. `Err` with
    /// the number to continue at if events are lost.
    pub(crate) fn read(
        &self,
        organisation: &str,
        number: u64,
    ) -> Result<Option<Arc<Recorded>>, u64> {
        let kept = self.kept.lock();
        let own = kept.own.get(organisation);
        let own_first = own.map_or_else(|| kept.first, |own| own.first);
        let first = kept.shared.first.max(own_first);
        if number < first {
            return Err(first);
        }
        let own = own.and_then(|own| own.find(number));
        let next = own.into_iter().chain(kept.shared.find(number));
        Ok(next.min_by_key(|event| event.number))
    }

    fn record(&self, news: News) {
        let mut kept = self.kept.lock();
        let number = *self.next.borrow();
        let organisation = match &news {
            News::Server(server, _) => server.organisation.clone(),
            News::Tool(change) => change.tool.server.organisation.clone(),
            News::Account(connection) => Some(Arc::clone(&connection.holder.organisation)),
            News::Missed => None,
        };
        let recorded = Arc::new(Recorded { number, news });
        match organisation {
            None => kept.shared.push(recorded, MAX_SHARED),
            Some(organisation) => kept.push_own(&organisation, recorded),
        }
        self.next.send_replace(number + 1);
    }
}

impl Kept {
    fn push_own(&mut self, organisation: &Arc<str>, recorded: Arc<Recorded>) {
        if !self.own.contains_key(organisation) && self.own.len() >= MAX_ORGANISATIONS {
            self.forget_one();
        }
        let none = Events { events: VecDeque::new(), first: self.first };
        self.own.entry(Arc::clone(organisation)).or_insert(none).push(recorded, MAX_OWN);
    }

    /// Evicts the organisation that has had no event for longest.
    fn forget_one(&mut self) {
        let quietest = self.own.iter().min_by_key(|(_, events)| events.end());
        let Some((name, _)) = quietest else { return };
        let name = Arc::clone(name);
        if let Some(gone) = self.own.remove(&name) {
            self.first = self.first.max(gone.end());
        }
    }
}

impl Events {
    fn push(&mut self, recorded: Arc<Recorded>, most: usize) {
        if self.events.len() >= most
            && let Some(gone) = self.events.pop_front()
        {
            self.first = gone.number + 1;
        }
        self.events.push_back(recorded);
    }

    /// Returns the first event from this number on.
    fn find(&self, number: u64) -> Option<Arc<Recorded>> {
        let at = self.events.partition_point(|event| event.number < number);
        Some(Arc::clone(self.events.get(at)?))
    }

    /// Returns the number after the newest event.
    fn end(&self) -> u64 {
        self.events.back().map_or(self.first, |newest| newest.number + 1)
    }
}

/// Events from the gateway.
struct GatewayEvents {
    events: Receiver<Event>,
    tools: Receiver<ToolChange>,
    accounts: ConnectionChanges,
    /// The last recorded state of servers, to omit repetitions.
    told: HashMap<ServerId, (Arc<Status>, Value)>,
}

impl GatewayEvents {
    /// Returns the next event to record; `None` if the event is not for readers.
    async fn next(&mut self, gateway: &Weak<Gateway>) -> Result<Option<News>, RecvError> {
        tokio::select! {
            event = self.events.recv() => {
                let event = event?;
                let Some(gateway) = gateway.upgrade() else { return Err(RecvError::Closed) };
                Ok(self.describe(&gateway, &event))
            }
            change = self.tools.recv() => Ok(Some(News::Tool(change?))),
            change = self.accounts.recv() => Ok(Some(News::Account(change?))),
        }
    }

    /// Describes an event; `None` if nothing differs from the last event, or if it concerns only a
    /// server and its callers.
    fn describe(&mut self, gateway: &Gateway, event: &Event) -> Option<News> {
        let id = match event {
            Event::Changed { server } => server,
            Event::Announced(announcement) => &announcement.server,
            _ => return None,
        };
        let servers = gateway.directory.servers_of(id.organisation.as_deref());
        let Some(server) = servers.into_iter().find(|server| id.names(&**server)) else {
            self.told.remove(id);
            return Some(News::Server(id.clone(), describe_missing(&id.slug)));
        };
        let now = (server.status(), describe_server(&*server));
        if let Some((status, value)) = self.told.get(id)
            && (status.state, status.since) == (now.0.state, now.0.since)
            && *value == now.1
        {
            return None;
        }
        self.told.insert(id.clone(), now.clone());
        Some(News::Server(id.clone(), now.1))
    }
}

async fn record_all(journal: Weak<Journal>, gateway: Weak<Gateway>, mut heard: GatewayEvents) {
    loop {
        let news = match heard.next(&gateway).await {
            Ok(news) => news,
            Err(RecvError::Lagged(_)) => Some(News::Missed),
            Err(RecvError::Closed) => return,
        };
        let Some(journal) = journal.upgrade() else { return };
        if let Some(news) = news {
            journal.record(news);
        }
    }
}

fn describe_server(server: &dyn Upstream) -> Value {
    let status = server.status();
    let catalog = server.catalog();
    json!({
        "name": server.slug(),
        "state": status.state.as_str(),
        "reason": status.reason(),
        "since": status.since_text(),
        "capabilities": {
            "tools": catalog.items(ListKind::Tools).len(),
            "prompts": catalog.items(ListKind::Prompts).len(),
            "resources": catalog.items(ListKind::Resources).len(),
        },
    })
}

/// Describes an integration that is disabled or deleted, or a server that is no longer configured.
fn describe_missing(slug: &str) -> Value {
    json!({
        "name": slug,
        "state": "disabled",
        "reason": "it is switched off or removed",
        "since": date::of_time(SystemTime::now()),
        "capabilities": {"tools": 0, "prompts": 0, "resources": 0},
    })
}

#[cfg(test)]
mod tests;
