//! Servers where a client may have its own lists: those that announced a change on a connection of
//! that client. For other clients the cost is a flag.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use lockgate_upstream::{ListKind, OwnLists, ServerId, Upstream};
use parking_lot::Mutex;

/// The servers where a client may have its own lists.
pub struct OwnServers {
    /// Identifies the client at servers.
    key: u64,
    is_any: AtomicBool,
    servers: Mutex<BTreeSet<ServerId>>,
    /// The shared count of clients that have such a server.
    clients: Arc<AtomicUsize>,
}

/// The lists of a client's connection at a server, where they differ from the shared lists.
pub(crate) struct OwnDelta {
    pub(crate) server: ServerId,
    pub(crate) lists: Arc<OwnLists>,
    /// Set for the connection that the client's calls prefer: shared items that this connection
    /// lacks are hidden.
    pub(crate) is_first: bool,
}

impl OwnServers {
    /// Creates the entry of a new client, with a unique key.
    pub fn new(clients: Arc<AtomicUsize>) -> Arc<Self> {
        static NEXT_KEY: AtomicU64 = AtomicU64::new(1);
        let key = NEXT_KEY.fetch_add(1, Ordering::Relaxed);
        let servers = Mutex::default();
        Arc::new(Self { key, is_any: AtomicBool::new(false), servers, clients })
    }

    pub fn key(&self) -> u64 {
        self.key
    }

    /// Returns whether there is such a server.
    pub fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// Adds a server.
    pub fn note(&self, server: &ServerId) {
        let mut servers = self.servers.lock();
        if servers.insert(server.clone()) && servers.len() == 1 {
            self.is_any.store(true, Ordering::Release);
            self.clients.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub(crate) fn get(&self) -> Vec<ServerId> {
        self.servers.lock().iter().cloned().collect()
    }

    /// Collects the lists, and removes servers that no longer have any.
    pub(crate) fn collect(
        &self,
        is_first: bool,
        find: impl Fn(&ServerId) -> Option<Arc<dyn Upstream>>,
        deltas: &mut Vec<OwnDelta>,
    ) {
        let mut servers = self.servers.lock();
        let is_any = !servers.is_empty();
        // Under the lock, so that a server with new lists is noted after its removal.
        servers.retain(|server| {
            let Some(lists) = find(server).and_then(|found| found.own_lists(self.key)) else {
                return false;
            };
            if !lists.is_empty() {
                deltas.push(OwnDelta { server: server.clone(), lists, is_first });
            }
            true
        });
        if is_any && servers.is_empty() {
            self.forget();
        }
    }

    fn forget(&self) {
        self.is_any.store(false, Ordering::Release);
        self.clients.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for OwnServers {
    fn drop(&mut self) {
        if self.is_any() {
            self.forget();
        }
    }
}

/// A client behind a request that may have its own lists.
pub struct OwnClient {
    pub servers: Arc<OwnServers>,
    /// Set if the client's calls prefer this connection.
    pub is_first: bool,
}

/// The clients behind a request that may have their own lists. Empty for almost all requests.
pub type OwnClients = Vec<OwnClient>;

/// Returns the keys of the clients with a connection at a server that adds an item.
pub(crate) fn find_adding(
    clients: &[OwnClient],
    server: &dyn Upstream,
    (kind, own): (ListKind, &str),
) -> Vec<u64> {
    let mut adding = Vec::new();
    for client in clients {
        let key = client.servers.key();
        let lists = server.own_lists(key);
        if lists.is_some_and(|lists| lists.added(kind).iter().any(|item| *item.key == *own)) {
            adding.push(key);
        }
    }
    adding
}
