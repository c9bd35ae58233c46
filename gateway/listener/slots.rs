//! The slots of connections: of all together, and of one address. When they run out, the idlest
//! connection of somebody who has not shown a credential goes, so that silent strangers keep nobody
//! out. It never touches one on which something runs.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connection::Connections;

/// See the module.
pub(crate) struct Slots {
    permits: Arc<Semaphore>,
    all: usize,
    per_address: usize,
    addresses: Mutex<HashMap<IpAddr, usize>>,
    /// The connections of each accept loop.
    loops: Mutex<Vec<Weak<Connections>>>,
}

/// The slot of one connection, until it is dropped.
pub(crate) struct Slot {
    _address: AddressSlot,
    _permit: OwnedSemaphorePermit,
}

/// One connection in the count of its address, until it is dropped.
struct AddressSlot {
    slots: Arc<Slots>,
    address: IpAddr,
    /// How many the address has with this one.
    taken: usize,
}

/// One address has as many connections as it may have, and needs all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressFull {
    /// When one of them may go, if they stay idle that are idle now. Of those that are busy nobody
    /// knows.
    pub retry_after: Option<Duration>,
}

impl Slots {
    pub(crate) fn new(all: usize, per_address: usize) -> Arc<Self> {
        let all = all.clamp(1, Semaphore::MAX_PERMITS);
        let permits = Arc::new(Semaphore::new(all));
        Arc::new(Self {
            permits,
            all,
            per_address,
            addresses: Mutex::default(),
            loops: Mutex::default(),
        })
    }

    pub(crate) fn add_loop(&self, connections: &Arc<Connections>) {
        self.loops.lock().push(Arc::downgrade(connections));
    }

    /// A slot for a connection from this address; `None` while all are taken.
    ///
    /// # Errors
    /// [`AddressFull`].
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Result<Option<Slot>, AddressFull> {
        // Counted before it is looked at: two loops that take at once know of each other.
        let slot = self.count_in(address.to_canonical());
        let address = slot.address;
        if slot.taken > self.per_address {
            let wanted = slot.taken - self.per_address;
            if self.evict(wanted, self.per_address, Some(address)) < wanted {
                return Err(AddressFull { retry_after: self.time_until_idle(address) });
            }
        }
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            return Ok(None);
        };
        Ok(Some(Slot { _address: slot, _permit: permit }))
    }

    fn count_in(self: &Arc<Self>, address: IpAddr) -> AddressSlot {
        let mut addresses = self.addresses.lock();
        let count = addresses.entry(address).or_default();
        *count += 1;
        AddressSlot { slots: Arc::clone(self), address, taken: *count }
    }

    /// Ends some idle connections, so that slots become free soon. Gives the number of those that
    /// are about to end.
    pub(crate) fn make_room(&self) -> usize {
        self.evict(1, self.all, None)
    }

    /// Tells the clients of all connections to go elsewhere.
    pub(crate) fn go_away(&self) {
        for connections in self.loops.lock().iter().filter_map(Weak::upgrade) {
            connections.go_away();
        }
    }

    /// Returns whether no connection has a request that runs.
    pub(crate) fn are_idle(&self) -> bool {
        self.loops.lock().iter().filter_map(Weak::upgrade).all(|loop_| loop_.are_idle())
    }

    /// Ready when a slot may be free.
    pub(crate) async fn freed(&self) {
        drop(self.permits.acquire().await);
    }

    fn time_until_idle(&self, address: IpAddr) -> Option<Duration> {
        let mut first = None;
        for connections in self.loops.lock().iter().filter_map(Weak::upgrade) {
            if let Some(time) = connections.time_until_idle(address) {
                first = Some(time.min(first.unwrap_or(time)));
            }
        }
        first
    }

    /// Ends connections, unless so many as are wanted are about to end already: their slots come
    /// back in a moment. Several at once, so that a flood does not cost a look at all of them each
    /// time. Gives the number of those about to end.
    fn evict(&self, wanted: usize, of: usize, address: Option<IpAddr>) -> usize {
        let mut leaving = 0;
        let mut candidates = Vec::new();
        for connections in self.loops.lock().iter().filter_map(Weak::upgrade) {
            leaving += connections.collect_idle(address, &mut candidates);
        }
        if leaving >= wanted {
            return leaving;
        }
        let some = (of / 64).max(wanted - leaving).min(candidates.len());
        if some < candidates.len() {
            // The idlest first.
            candidates.select_nth_unstable_by_key(some, |candidate| {
                (candidate.authenticated, Reverse(candidate.ticks), candidate.number)
            });
        }
        for candidate in candidates.iter().take(some) {
            candidate.evict();
        }
        leaving + some
    }
}

impl Drop for AddressSlot {
    fn drop(&mut self) {
        let mut addresses = self.slots.addresses.lock();
        if let Some(count) = addresses.get_mut(&self.address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                addresses.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests;
