//! The account of request bodies that are still on their way: how many slow ones, and how many bytes, one connection and one
//! principal may have. A body that came along with its headers is never counted here.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::config::BodyLimits;
use crate::refusal::Refusal;

/// The unfinished bodies of all connections of a listener.
pub(crate) struct UnfinishedBodies {
    limits: BodyLimits,
    principals: Mutex<HashMap<u64, Usage>>,
}

/// The unfinished bodies of one connection.
#[derive(Default)]
pub(crate) struct ConnectionUsage {
    slow: AtomicUsize,
    bytes: AtomicUsize,
}

/// What one principal has on its way. It is kept only while there is something.
#[derive(Default)]
struct Usage {
    slow: usize,
    bytes: usize,
}

/// One body on its way, until this is dropped.
pub(crate) struct UnfinishedBody<'a> {
    all: &'a UnfinishedBodies,
    connection: &'a ConnectionUsage,
    /// [`lockgate_authn::Principal::key`].
    principal: u64,
    slow: bool,
    bytes: usize,
}

impl UnfinishedBodies {
    pub(crate) fn new(limits: BodyLimits) -> Self {
        Self { limits, principals: Mutex::default() }
    }

    /// Bytes that a body has to bring in so many seconds.
    pub(crate) fn least_bytes(&self, seconds: u64) -> usize {
        self.limits.rate.saturating_mul(usize::try_from(seconds).unwrap_or(usize::MAX))
    }

    /// A body of this connection and principal that has begun to come.
    pub(crate) fn begin<'a>(&'a self, connection: &'a ConnectionUsage, principal: u64) -> UnfinishedBody<'a> {
        UnfinishedBody { all: self, connection, principal, slow: false, bytes: 0 }
    }
}

impl UnfinishedBody<'_> {
    /// So many more bytes of it are here.
    pub(crate) fn add_bytes(&mut self, bytes: usize) -> Result<(), Refusal> {
        if bytes == 0 {
            return Ok(());
        }
        let limits = &self.all.limits;
        let before = self.connection.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        let of_principal = {
            let mut principals = self.all.principals.lock();
            let usage = principals.entry(self.principal).or_default();
            usage.bytes += bytes;
            usage.bytes
        };
        if before + bytes > limits.bytes_per_connection {
            return Err(Refusal::ConnectionBytes);
        }
        if of_principal > limits.bytes_per_principal {
            return Err(Refusal::PrincipalBytes);
        }
        Ok(())
    }

    /// It takes longer than bodies usually do.
    pub(crate) fn mark_slow(&mut self) -> Result<(), Refusal> {
        if self.slow {
            return Ok(());
        }
        self.slow = true;
        let limits = &self.all.limits;
        let of_connection = self.connection.slow.fetch_add(1, Ordering::Relaxed) + 1;
        let of_principal = {
            let mut principals = self.all.principals.lock();
            let usage = principals.entry(self.principal).or_default();
            usage.slow += 1;
            usage.slow
        };
        if of_connection > limits.slow_per_connection {
            return Err(Refusal::ConnectionBodies);
        }
        if of_principal > limits.slow_per_principal {
            return Err(Refusal::PrincipalBodies);
        }
        Ok(())
    }
}

impl Drop for UnfinishedBody<'_> {
    fn drop(&mut self) {
        if !self.slow && self.bytes == 0 {
            return;
        }
        let slow = usize::from(self.slow);
        self.connection.slow.fetch_sub(slow, Ordering::Relaxed);
        self.connection.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        let mut principals = self.all.principals.lock();
        if let Entry::Occupied(mut entry) = principals.entry(self.principal) {
            let usage = entry.get_mut();
            usage.slow = usage.slow.saturating_sub(slow);
            usage.bytes = usage.bytes.saturating_sub(self.bytes);
            if usage.slow == 0 && usage.bytes == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests;
