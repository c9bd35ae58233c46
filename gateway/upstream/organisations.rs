//! Limits shared by the servers of an organisation, so that no organisation starves the others:
//! concurrent calls, connection attempts and connected servers, and memory for lists. When a limit
//! is reached, the least recently used server yields.

use std::sync::{Arc, Weak};
use std::time::Duration;

use lockgate_admission::budget::Budget;
use lockgate_admission::{
    Bounds, CallerId, Charge, ConcurrencyLimit, Membership, Permit, Pool, Pools,
};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::catalog::{ListAccount, ListHold};

/// Concurrent connection attempts and connected servers, of all organisations.
const MAX_CONCURRENT_STARTS: usize = 64;
const MAX_CONNECTED: usize = 1024;
/// Connection attempts of an organisation reserved for calls.
const FOR_CALLS: usize = 2;
/// Larger than the number of an organisation's integrations.
const MAX_QUEUED: usize = 4096;
/// Longest wait for other servers to disconnect.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Concurrent loads of stored lists per organisation.
const MAX_CONCURRENT_RECALLS: usize = 2;

/// An eviction frees an additional `1 / EVICTION_DIVISOR` of the budget.
const EVICTION_DIVISOR: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Concurrent connection attempts.
    pub(crate) starts: usize,
    /// Connected servers.
    pub(crate) awake: usize,
    /// Bytes of all lists, and of the lists of a server.
    pub(crate) lists: usize,
    pub(crate) lists_of_server: usize,
}

/// The limits shared by all organisations.
pub struct Organisations {
    sizes: Sizes,
    calls: Pools,
    starts: Pools,
    awake: Pools,
    lists: Arc<AllLists>,
}

struct AllLists {
    budget: Arc<Budget>,
    parts: Mutex<Vec<Weak<OrganisationPart>>>,
}

/// The limits and servers of an organisation.
pub struct OrganisationPart {
    pub(crate) calls: Membership,
    starts: Arc<ConcurrencyLimit>,
    /// The part of `starts` available for reading lists.
    starts_for_lists: Semaphore,
    awake: Arc<ConcurrencyLimit>,
    lists: Arc<Budget>,
    all_lists: Arc<AllLists>,
    servers: Mutex<Vec<Weak<dyn Idle>>>,
    lists_of_server: usize,
    itself: Weak<Self>,
    pub(crate) recalls: Semaphore,
}

/// A permit to connect a server, held during the attempt.
pub(crate) struct Start<'a> {
    _permit: Option<Permit>,
    _for_lists: Option<SemaphorePermit<'a>>,
}

/// A server that can be disconnected in favour of another.
pub(crate) trait Idle: Send + Sync {
    /// Returns the time since its last use; `None` while it is in use.
    fn idle_for(&self) -> Option<Duration>;

    /// Reports whether it has a slot among the connected servers.
    fn is_awake(&self) -> bool;

    /// Requests a disconnect.
    fn give_way(&self);

    /// Drops its lists if it rests, and returns their size in bytes.
    fn forget_lists(&self) -> usize;
}

/// The purpose of a connection attempt: the two queue separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Call = 1,
    Lists = 2,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { starts: 8, awake: 128, lists: 16 << 20, lists_of_server: 4 << 20 }
    }
}

impl Organisations {
    /// Creates the shared limits. `calls` limits the calls at all servers; `lists` is the memory
    /// for all lists in bytes.
    pub fn new(calls: Pools, lists: usize) -> Self {
        Self::with_sizes(calls, lists, Sizes::default())
    }

    pub(crate) fn with_sizes(calls: Pools, lists: usize, sizes: Sizes) -> Self {
        let budget = Arc::new(Budget::new(lists));
        let lists = Arc::new(AllLists { budget, parts: Mutex::default() });
        Self {
            sizes,
            calls,
            starts: pools(MAX_CONCURRENT_STARTS),
            awake: pools(MAX_CONNECTED),
            lists,
        }
    }

    /// Adds an organisation.
    #[must_use]
    pub fn join(&self) -> Arc<OrganisationPart> {
        let part = Arc::new_cyclic(|itself| OrganisationPart {
            calls: self.calls.join_organisation(),
            starts: limit(self.sizes.starts, &self.starts),
            starts_for_lists: Semaphore::new(self.sizes.starts.saturating_sub(FOR_CALLS).max(1)),
            awake: limit(self.sizes.awake, &self.awake),
            lists: Arc::new(Budget::new(self.sizes.lists)),
            lists_of_server: self.sizes.lists_of_server,
            all_lists: Arc::clone(&self.lists),
            servers: Mutex::default(),
            itself: Weak::clone(itself),
            recalls: Semaphore::new(MAX_CONCURRENT_RECALLS),
        });
        let mut parts = self.lists.parts.lock();
        parts.retain(|other| other.strong_count() > 0);
        parts.push(Arc::downgrade(&part));
        drop(parts);
        part
    }
}

/// Returns a limit of `places` in total; the queue is bounded by the number of servers.
fn pools(places: usize) -> Pools {
    Pools { running: Pool::new(places), waiting: Pool::new(usize::MAX / 2) }
}

/// Returns the limit of an additional organisation within `pools`.
fn limit(running: usize, pools: &Pools) -> Arc<ConcurrencyLimit> {
    let bounds = Bounds { running, waiting: MAX_QUEUED };
    ConcurrencyLimit::new(bounds, Charge::Turns, Some(pools.join_organisation()))
}

impl OrganisationPart {
    pub(crate) fn add(&self, server: Weak<dyn Idle>) {
        let mut servers = self.servers.lock();
        servers.retain(|other| other.strong_count() > 0);
        servers.push(server);
    }

    pub(crate) async fn wait_for_start(&self, purpose: Purpose) -> Start<'_> {
        let for_lists = match purpose {
            Purpose::Lists => self.starts_for_lists.acquire().await.ok(),
            Purpose::Call => None,
        };
        Start {
            _permit: self.starts.acquire(CallerId::new("", purpose as u64)).await.ok(),
            _for_lists: for_lists,
        }
    }

    /// Acquires a slot among the connected servers, disconnecting an idle server if all are taken.
    /// Returns `None` if all remain in use.
    pub(crate) async fn take_place(&self) -> Option<Permit> {
        if let Some(permit) = self.awake.try_acquire(CallerId::alone(0)) {
            return Some(permit);
        }
        let waits = self.awake.acquire(CallerId::alone(0));
        if let Some((_, idlest)) = self.find_idle(|server| server.is_awake()).pop() {
            idlest.give_way();
        }
        tokio::time::timeout(DISCONNECT_TIMEOUT, waits).await.ok()?.ok()
    }

    /// Returns its idle servers, the longest idle last.
    fn find_idle(&self, fits: impl Fn(&dyn Idle) -> bool) -> Vec<(Duration, Arc<dyn Idle>)> {
        let mut idle = Vec::new();
        for server in self.servers.lock().iter().filter_map(Weak::upgrade) {
            if fits(&*server)
                && let Some(idle_for) = server.idle_for()
            {
                idle.push((idle_for, server));
            }
        }
        idle.sort_by_key(|(idle_for, _)| *idle_for);
        idle
    }

    /// Returns the memory for the lists of one of the organisation's servers.
    pub(crate) fn hold_lists(&self) -> ListHold {
        let mut accounts: Vec<Arc<dyn ListAccount>> = Vec::new();
        if let Some(itself) = self.itself.upgrade() {
            accounts.push(itself);
        }
        accounts.push(Arc::clone(&self.all_lists) as _);
        ListHold::in_accounts(accounts, self.lists_of_server)
    }
}

impl ListAccount for OrganisationPart {
    fn budget(&self) -> &Arc<Budget> {
        &self.lists
    }

    fn make_room(&self, bytes: usize) {
        forget_lists(self.find_idle(|server| !server.is_awake()), bytes, &self.lists);
    }
}

impl ListAccount for AllLists {
    fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    fn make_room(&self, bytes: usize) {
        let parts: Vec<_> = self.parts.lock().iter().filter_map(Weak::upgrade).collect();
        let mut idle = Vec::new();
        for part in parts {
            idle.extend(part.find_idle(|server| !server.is_awake()));
        }
        idle.sort_by_key(|(idle_for, _)| *idle_for);
        forget_lists(idle, bytes, &self.budget);
    }
}

/// Evicts the lists of the longest idle servers, which are last, first.
fn forget_lists(mut idle: Vec<(Duration, Arc<dyn Idle>)>, bytes: usize, budget: &Budget) {
    let wanted = bytes.saturating_add(budget.limit() / EVICTION_DIVISOR);
    let mut freed: usize = 0;
    while freed < wanted
        && let Some((_, server)) = idle.pop()
    {
        freed += server.forget_lists();
    }
}
