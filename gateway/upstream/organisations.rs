//! What the servers of one organisation have together, so that no organisation takes it from
//! others: places for calls, for connections that are made and for servers that are connected, and
//! memory for lists. Where there is none left, the server gives way that nobody has used for
//! longest.

use std::sync::{Arc, Weak};
use std::time::Duration;

use lockgate_admission::budget::Budget;
use lockgate_admission::{
    Bounds, CallerId, Charge, ConcurrencyLimit, Membership, Permit, Pool, Pools,
};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::list_memory::{ListAccount, ListHold};

/// Servers that are being connected at once, and those that are connected, of all organisations.
const STARTS: usize = 64;
const AWAKE: usize = 1024;
/// Places of an organisation to connect servers that calls alone may take.
const FOR_CALLS: usize = 2;
/// More than an organisation has integrations.
const QUEUE: usize = 4096;
/// How long a server waits for others to rest.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Lists of an organisation that are looked up in the store at once.
const RECALLS: usize = 2;

/// When lists have to make room, so much more as this part of an account.
const SLACK: usize = 16;

/// What one organisation may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Servers that are being connected at once.
    pub(crate) starts: usize,
    /// Servers that are connected at once.
    pub(crate) awake: usize,
    /// Bytes of all its lists, and of those of one server.
    pub(crate) lists: usize,
    pub(crate) lists_of_server: usize,
}

/// What all organisations share.
pub struct Organisations {
    sizes: Sizes,
    calls: Pools,
    starts: Pools,
    awake: Pools,
    lists: Arc<AllLists>,
}

/// The lists of all organisations' servers.
struct AllLists {
    budget: Arc<Budget>,
    parts: Mutex<Vec<Weak<OrganisationPart>>>,
}

/// See the module.
pub struct OrganisationPart {
    pub(crate) calls: Membership,
    starts: Arc<ConcurrencyLimit>,
    /// Those of them that whoever wants lists may take.
    starts_for_lists: Semaphore,
    awake: Arc<ConcurrencyLimit>,
    lists: Arc<Budget>,
    all_lists: Arc<AllLists>,
    servers: Mutex<Vec<Weak<dyn Idle>>>,
    lists_of_server: usize,
    itself: Weak<Self>,
    pub(crate) recalls: Semaphore,
}

/// Held while a server is connected.
pub(crate) struct Start<'a> {
    _permit: Option<Permit>,
    _for_lists: Option<SemaphorePermit<'a>>,
}

/// A server that may have to rest for another one.
pub(crate) trait Idle: Send + Sync {
    /// How long nobody has used it; none while somebody does.
    fn idle_for(&self) -> Option<Duration>;

    /// Whether it has a place among those that are connected.
    fn is_awake(&self) -> bool;

    /// Has it rest.
    fn give_way(&self);

    /// Forgets its lists while it rests; gives the bytes that they took.
    fn forget_lists(&self) -> usize;
}

/// Why a server is connected: callers of the two do not wait behind each other.
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
    /// `calls`: the places of calls at all servers; `lists`: bytes of memory for all lists.
    #[must_use]
    pub fn new(calls: Pools, lists: usize) -> Self {
        Self::with_sizes(calls, lists, Sizes::default())
    }

    pub(crate) fn with_sizes(calls: Pools, lists: usize, sizes: Sizes) -> Self {
        let budget = Arc::new(Budget::new(lists));
        let lists = Arc::new(AllLists { budget, parts: Mutex::default() });
        Self { sizes, calls, starts: pools(STARTS), awake: pools(AWAKE), lists }
    }

    /// The part of one more organisation.
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
            recalls: Semaphore::new(RECALLS),
        });
        let mut parts = self.lists.parts.lock();
        parts.retain(|other| other.strong_count() > 0);
        parts.push(Arc::downgrade(&part));
        drop(parts);
        part
    }
}

/// So many places in all; the queues are bounded by how many servers there are.
fn pools(places: usize) -> Pools {
    Pools { running: Pool::new(places), waiting: Pool::new(usize::MAX / 2) }
}

/// The places of one more organisation, of those of all.
fn limit(running: usize, pools: &Pools) -> Arc<ConcurrencyLimit> {
    let bounds = Bounds { running, waiting: QUEUE };
    ConcurrencyLimit::new(bounds, Charge::Turns, Some(pools.join_organisation()))
}

impl OrganisationPart {
    /// One more server of the organisation.
    pub(crate) fn add(&self, server: Weak<dyn Idle>) {
        let mut servers = self.servers.lock();
        servers.retain(|other| other.strong_count() > 0);
        servers.push(server);
    }

    /// Waits until a server may be connected.
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

    /// A place among the servers that are connected, for which another one rests where there is
    /// none; none when all of them are in use.
    pub(crate) async fn take_place(&self) -> Option<Permit> {
        if let Some(permit) = self.awake.try_acquire(CallerId::alone(0)) {
            return Some(permit);
        }
        let waits = self.awake.acquire(CallerId::alone(0));
        self.rest_idlest();
        tokio::time::timeout(TIMEOUT, waits).await.ok()?.ok()
    }

    fn rest_idlest(&self) {
        let idlest = self.find_idle(|server| server.is_awake()).pop();
        if let Some((_, server)) = idlest {
            server.give_way();
        }
    }

    /// Its servers that nobody uses, the idlest last.
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

    /// The memory for lists of one of its servers.
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

/// The idlest, which are last, go first.
fn forget_lists(mut idle: Vec<(Duration, Arc<dyn Idle>)>, bytes: usize, budget: &Budget) {
    let wanted = bytes.saturating_add(budget.limit() / SLACK);
    let mut freed: usize = 0;
    while freed < wanted
        && let Some((_, server)) = idle.pop()
    {
        freed += server.forget_lists();
    }
}
