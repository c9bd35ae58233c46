//! The connections of one server that belong to one client each. When there is no room for another,
//! the least recently used idle connection is closed at once; while all are in use, callers wait.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use lockgate_admission::{Waits, spawn};
use parking_lot::Mutex;
use scopeguard::{ScopeGuard, guard};
use tokio::sync::{Notify, OnceCell};

use crate::connection::{CLOSE_GRACE_PERIOD, Connection};

/// Divisor of the number of connections: the share that a principal may hold for subscriptions
/// alone while others need a connection.
const SUBSCRIBED_SHARE: usize = 4;
/// Interval of a waiting caller's attempts, besides those caused by a released connection.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Default)]
pub(crate) struct Sessions {
    held: Mutex<HashMap<u64, HeldConnection>>,
    /// Signals that a connection is no longer in use.
    released: Notify,
    waiting: AtomicUsize,
}

struct HeldConnection {
    slot: Slot,
    owner: Owner,
    /// When its client last requested it.
    used: Instant,
}

pub(crate) type Slot = Arc<OnceCell<Arc<Connection>>>;

/// The client that a connection belongs to.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) key: u64,
    pub(crate) principal: u64,
    /// Whether it serves a modern client, which uses a connection per call while the call runs.
    pub(crate) is_modern: bool,
}

/// The limits on connections and on waiting for them.
#[derive(Clone, Copy)]
pub(crate) struct SlotLimits {
    pub(crate) connections: usize,
    pub(crate) waiting: usize,
    pub(crate) wait: Duration,
}

/// A slot in use: its connection is not closed to make room for another.
pub(crate) struct SlotUse<'a> {
    // Dropped in this order: a caller that is woken finds the slot unused.
    pub(crate) slot: Slot,
    /// Wakes the callers that wait for a slot.
    _release: ScopeGuard<&'a Notify, fn(&Notify)>,
}

impl Sessions {
    /// Returns the slot of a client, waiting until another client releases a slot if all are in
    /// use. Returns `None` if too many callers wait, or after the time to wait.
    pub(crate) async fn slot(&self, owner: Owner, limits: SlotLimits) -> Option<SlotUse<'_>> {
        if let Some(found) = self.try_slot(owner, limits.connections) {
            return Some(found);
        }
        let _waiting = Waits::begin_within(&self.waiting, limits.waiting)?;
        let deadline = tokio::time::Instant::now() + limits.wait;
        loop {
            let mut released = std::pin::pin!(self.released.notified());
            released.as_mut().enable();
            if let Some(found) = self.try_slot(owner, limits.connections) {
                return Some(found);
            }
            let now = tokio::time::Instant::now();
            if now >= deadline {
                return None;
            }
            let _ = tokio::time::timeout_at(deadline.min(now + RETRY_INTERVAL), released).await;
        }
    }

    fn try_slot(&self, owner: Owner, most: usize) -> Option<SlotUse<'_>> {
        let mut slots = self.held.lock();
        if let Some(held) = slots.get_mut(&owner.key) {
            held.used = Instant::now();
            return Some(self.begin_use(&held.slot));
        }
        if slots.len() >= most {
            // Removes connections that failed to open or were cancelled while opening.
            slots.retain(|_, held| held.slot.initialized() || Arc::strong_count(&held.slot) > 1);
        }
        let own = slots.values().filter(|held| held.is_of_modern_caller(owner)).count();
        if own >= most.div_ceil(2) {
            let idlest = find_idlest(&slots, owner, most, |held| held.is_of_modern_caller(owner))?;
            close(slots.remove(&idlest));
        } else if slots.len() >= most {
            let idlest = find_idlest(&slots, owner, most, |_| true)?;
            close(slots.remove(&idlest));
        }
        let slot = Slot::default();
        let used = self.begin_use(&slot);
        slots.insert(owner.key, HeldConnection { slot, owner, used: Instant::now() });
        Some(used)
    }

    fn begin_use(&self, slot: &Slot) -> SlotUse<'_> {
        SlotUse { slot: Arc::clone(slot), _release: guard(&self.released, Notify::notify_waiters) }
    }

    /// Closes connections idle for longer than `longest` and without subscriptions.
    pub(crate) fn close_idle(&self, longest: Duration) {
        let mut slots = self.held.lock();
        let mut idle = Vec::new();
        for (key, held) in &mut *slots {
            if held.is_at_work() {
                held.used = Instant::now();
            } else if held.used.elapsed() > longest {
                idle.push(*key);
            }
        }
        for key in idle {
            close(slots.remove(&key));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.lock().is_empty()
    }

    /// Reports whether a caller waits for an answer on any of the connections.
    pub(crate) fn are_asked(&self) -> bool {
        self.all().iter().any(|connection| connection.outstanding.is_waited_for())
    }

    pub(crate) fn all(&self) -> Vec<Arc<Connection>> {
        connections(self.held.lock().values())
    }

    pub(crate) fn find(&self, key: u64) -> Option<Arc<Connection>> {
        self.held.lock().get(&key)?.slot.get().cloned()
    }

    pub(crate) fn forget(&self, key: u64) {
        close(self.held.lock().remove(&key));
        self.released.notify_waiters();
    }

    /// Reports whether this is still the slot of the client.
    pub(crate) fn holds(&self, key: u64, used: &SlotUse<'_>) -> bool {
        self.held.lock().get(&key).is_some_and(|known| Arc::ptr_eq(&known.slot, &used.slot))
    }

    /// Removes a client's connection, if it is this one; current users keep it.
    pub(crate) fn remove(&self, key: u64, lost: &Arc<Connection>) {
        let mut slots = self.held.lock();
        if let Some(held) = slots.get(&key)
            && let Some(known) = held.slot.get()
            && Arc::ptr_eq(known, lost)
        {
            slots.remove(&key);
        }
    }

    /// Removes and returns all open connections, for closing.
    pub(crate) fn take(&self) -> Vec<Arc<Connection>> {
        let held = std::mem::take(&mut *self.held.lock());
        connections(held.values())
    }
}

fn connections<'a>(all: impl Iterator<Item = &'a HeldConnection>) -> Vec<Arc<Connection>> {
    let open = all.filter_map(|held| held.slot.get().cloned());
    open.collect()
}

/// Returns the key of the longest idle connection among those that match. A connection with
/// subscriptions is closed only for another principal, when its own exceeds its share of them and
/// no other connection is idle.
fn find_idlest(
    slots: &HashMap<u64, HeldConnection>,
    wanted_by: Owner,
    most: usize,
    matches: impl Fn(&HeldConnection) -> bool,
) -> Option<u64> {
    let share = (most / SUBSCRIBED_SHARE).max(1);
    let mut subscribed: HashMap<u64, usize> = HashMap::new();
    for held in slots.values().filter(|held| held.has_subscriptions()) {
        *subscribed.entry(held.owner.principal).or_default() += 1;
    }
    let idle = slots.values().filter(|held| {
        let principal = held.owner.principal;
        let is_over_share = subscribed.get(&principal).is_some_and(|count| *count > share);
        matches(held)
            && !held.is_in_use()
            && (!held.has_subscriptions() || principal != wanted_by.principal && is_over_share)
    });
    idle.min_by_key(|held| (held.has_subscriptions(), held.used)).map(|held| held.owner.key)
}

impl HeldConnection {
    /// Reports whether it is being opened, carries a call, or waits for an answer of its client.
    fn is_in_use(&self) -> bool {
        let Some(connection) = self.slot.get() else { return true };
        Arc::strong_count(&self.slot) > 1
            || connection.outstanding.is_waited_for()
            || connection.is_asking()
    }

    fn is_of_modern_caller(&self, caller: Owner) -> bool {
        self.owner.is_modern && caller.is_modern && self.owner.principal == caller.principal
    }

    /// Reports whether it has outstanding requests or subscriptions.
    fn is_at_work(&self) -> bool {
        let is_busy = self.slot.get().is_some_and(|open| !open.outstanding.is_empty());
        is_busy || self.has_subscriptions()
    }

    fn has_subscriptions(&self) -> bool {
        self.slot.get().is_some_and(|open| !open.subscribed.lock().is_empty())
    }
}

/// Closes a connection in the background.
fn close(held: Option<HeldConnection>) {
    if let Some(held) = held
        && let Some(connection) = held.slot.get().cloned()
    {
        spawn(async move { connection.close(CLOSE_GRACE_PERIOD).await });
    }
}
