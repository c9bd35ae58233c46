//! Connection slots, in total and per address. When they run out, the longest idle connection
//! without an authenticated request is closed first, so that silent strangers cannot block other
//! clients. Connections with a running request are never selected.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockgate_admission::spawn;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connection::Connections;
use crate::error;

pub(crate) struct Slots {
    permits: Arc<Semaphore>,
    all: usize,
    per_address: usize,
    addresses: Mutex<HashMap<IpAddr, usize>>,
    loops: Mutex<Vec<Weak<Connections>>>,
    /// Permits to wait until a client has read its rejection.
    lingering: Arc<Semaphore>,
}

/// A slot for a connection, released on drop.
pub(crate) struct Slot {
    _address: AddressSlot,
    _permit: OwnedSemaphorePermit,
}

/// A connection counted for its address, until dropped.
struct AddressSlot {
    slots: Arc<Slots>,
    address: IpAddr,
    /// Connections of the address, including this one.
    taken: usize,
}

/// The limit per address is reached, and none of the address's connections can be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressFull {
    /// Time until a connection may be closed, if the idle connections stay idle. `None` if all are
    /// busy.
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
            lingering: Arc::new(Semaphore::new(MAX_LINGERING)),
        })
    }

    pub(crate) fn add_loop(&self, connections: &Arc<Connections>) {
        self.loops.lock().push(Arc::downgrade(connections));
    }

    /// Takes a slot for a connection from this address. Returns `None` if all slots are taken.
    ///
    /// # Errors
    /// [`AddressFull`].
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Result<Option<Slot>, AddressFull> {
        // Counted before the check, so that concurrent accept loops see each other's connections.
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

    /// Closes some idle connections, so that slots become free. Returns the number of connections
    /// that are closing.
    pub(crate) fn make_room(&self) -> usize {
        self.evict(1, self.all, None)
    }

    /// Asks the clients of all connections to reconnect elsewhere.
    pub(crate) fn go_away(&self) {
        for connections in self.loops.lock().iter().filter_map(Weak::upgrade) {
            connections.go_away();
        }
    }

    pub(crate) fn are_idle(&self) -> bool {
        self.loops.lock().iter().filter_map(Weak::upgrade).all(|loop_| loop_.are_idle())
    }

    /// Completes when a slot may be free.
    pub(crate) async fn freed(&self) {
        drop(self.permits.acquire().await);
    }

    fn time_until_idle(&self, address: IpAddr) -> Option<Duration> {
        let loops = self.loops.lock();
        let all = loops.iter().filter_map(Weak::upgrade);
        all.filter_map(|connections| connections.time_until_idle(address)).min()
    }

    /// Closes connections, unless enough are already closing, as their slots are about to be free.
    /// Closes several at once, so that a flood does not cost a scan of all connections each time.
    /// Returns the number of connections that are closing.
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
            // Unauthenticated and longest idle first.
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

const FULL: &str = "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n";
/// Maximum time for reading from such a connection.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of such connections being read; beyond it they close with the response.
const MAX_LINGERING: usize = 64;

impl Slots {
    /// Rejects a plaintext connection, then gives the client time to read the response.
    pub(crate) fn turn_away(&self, stream: TcpStream, retry_after: Option<Duration>) {
        let written = stream.try_write(text(retry_after).as_bytes());
        let permit = Arc::clone(&self.lingering).try_acquire_owned();
        if let (Ok(_), Ok(permit)) = (written, permit) {
            spawn(async move {
                let _ = tokio::time::timeout(LINGER_TIMEOUT, read_to_end(stream)).await;
                drop(permit);
            });
        }
    }
}

async fn read_to_end(mut stream: TcpStream) -> std::io::Result<()> {
    stream.shutdown().await?;
    let mut unread = [0; 4096];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

fn text(retry_after: Option<Duration>) -> String {
    match retry_after.map(error::write_retry_after) {
        Some(after) => format!("{FULL}retry-after: {}\r\n\r\n", after.to_str().unwrap_or("1")),
        None => format!("{FULL}\r\n"),
    }
}
