//! The connections of one server that belong to one client each. When there is no room for
//! another, the one that has been idle for longest goes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::connection::Connection;

/// Most connections of one server that clients have of their own.
pub(crate) const MAX_SESSIONS: usize = 1024;
/// The same where each is a process.
pub(crate) const MAX_PROCESSES: usize = 16;
/// A client that was answered just now may be about to call again.
const SETTLED: Duration = Duration::from_secs(10);
/// One principal's connections with subscriptions stand up to this part of all.
const SUBSCRIBED_SHARE: usize = 4;
/// How long a connection may take to end.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// The connections of one server that are not shared.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<u64, Held>>);

/// A slot, and whose it is.
struct Held {
    slot: Slot,
    principal: u64,
    /// When its client last asked for it.
    used: Instant,
}

pub(crate) type Slot = Arc<OnceCell<Arc<Connection>>>;

impl Sessions {
    /// The slot of a client; `None` when there are `most` and all of them are at work.
    pub(crate) fn slot(&self, key: u64, principal: u64, most: usize) -> Option<Slot> {
        let mut slots = self.0.lock();
        if let Some(held) = slots.get_mut(&key) {
            held.used = Instant::now();
            return Some(Arc::clone(&held.slot));
        }
        if slots.len() >= most {
            // What nobody opens any more has failed, or was given up.
            slots.retain(|_, held| held.slot.initialized() || Arc::strong_count(&held.slot) > 1);
        }
        if slots.len() >= most {
            let idlest = find_idlest(&slots, (most / SUBSCRIBED_SHARE).max(1))?;
            close(slots.remove(&idlest));
        }
        let slot = Slot::default();
        slots.insert(key, Held { slot: Arc::clone(&slot), principal, used: Instant::now() });
        Some(slot)
    }

    /// Ends those that their clients have not used for so long and that tell them nothing.
    pub(crate) fn close_idle(&self, longest: Duration) {
        let mut slots = self.0.lock();
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

    /// Whether no client has one.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Whether somebody waits for an answer on one of them.
    pub(crate) fn are_asked(&self) -> bool {
        for held in self.0.lock().values() {
            if let Some(connection) = held.slot.get()
                && connection.outstanding.is_waited_for()
            {
                return true;
            }
        }
        false
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Connection>> {
        let slots = self.0.lock();
        let mut all = Vec::with_capacity(slots.len());
        for held in slots.values() {
            if let Some(connection) = held.slot.get() {
                all.push(Arc::clone(connection));
            }
        }
        all
    }

    /// A session's connection, if there is one.
    pub(crate) fn find(&self, key: u64) -> Option<Arc<Connection>> {
        self.0.lock().get(&key)?.slot.get().cloned()
    }

    /// Ends a session's connection in the background.
    pub(crate) fn forget(&self, key: u64) {
        close(self.0.lock().remove(&key));
    }

    /// Whether this is the slot of a client still.
    pub(crate) fn holds(&self, key: u64, slot: &Slot) -> bool {
        match self.0.lock().get(&key) {
            Some(known) => Arc::ptr_eq(&known.slot, slot),
            None => false,
        }
    }

    /// Forgets a connection of a client, if it is this one; whoever uses it keeps it.
    pub(crate) fn remove(&self, key: u64, lost: &Arc<Connection>) {
        let mut slots = self.0.lock();
        if let Some(held) = slots.get(&key)
            && let Some(known) = held.slot.get()
            && Arc::ptr_eq(known, lost)
        {
            slots.remove(&key);
        }
    }

    /// Takes all of them, to be closed.
    pub(crate) fn take(&self) -> Vec<Arc<Connection>> {
        let mut slots = self.0.lock();
        let mut all = Vec::new();
        for (_, held) in slots.drain() {
            if let Some(connection) = held.slot.get() {
                all.push(Arc::clone(connection));
            }
        }
        all
    }
}

/// The client whose connection has been idle for longest, of those on which nothing runs. A
/// connection with subscriptions would be opened again at once, so that it goes only where its
/// principal has more than a share, and nothing else is idle.
fn find_idlest(slots: &HashMap<u64, Held>, share: usize) -> Option<u64> {
    let mut subscribed: HashMap<u64, usize> = HashMap::new();
    for held in slots.values() {
        if has_subscriptions(held) {
            *subscribed.entry(held.principal).or_default() += 1;
        }
    }
    let mut idlest: Option<((bool, Instant), u64)> = None;
    for (key, held) in slots {
        // One that is being opened is wanted.
        let Some(connection) = held.slot.get() else { continue };
        let heard = connection.last_heard();
        if !connection.outstanding.is_empty() || heard.elapsed() <= SETTLED {
            continue;
        }
        let has_subscriptions = has_subscriptions(held);
        if has_subscriptions && subscribed.get(&held.principal).is_none_or(|n| *n <= share) {
            continue;
        }
        let rank = (has_subscriptions, heard);
        if idlest.is_none_or(|(best, _)| rank < best) {
            idlest = Some((rank, *key));
        }
    }
    idlest.map(|(_, key)| key)
}

impl Held {
    /// Whether something runs on it, or is told on it.
    fn is_at_work(&self) -> bool {
        if let Some(connection) = self.slot.get()
            && !connection.outstanding.is_empty()
        {
            return true;
        }
        has_subscriptions(self)
    }
}

fn has_subscriptions(held: &Held) -> bool {
    match held.slot.get() {
        Some(connection) => !connection.subscribed.lock().is_empty(),
        None => false,
    }
}

/// Ends a connection in the background.
fn close(held: Option<Held>) {
    if let Some(held) = held
        && let Some(connection) = held.slot.get().cloned()
    {
        tokio::spawn(async move { connection.close(GRACE).await });
    }
}
