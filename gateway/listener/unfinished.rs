//! Accounting of incomplete request bodies: the number of slow bodies, and the bytes, per
//! connection and per principal. A body that arrives along with its headers is not counted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::BodyLimits;
use crate::error::ListenerError;

pub(crate) struct UnfinishedBodies {
    limits: BodyLimits,
    principals: Mutex<HashMap<u64, Usage>>,
}

#[derive(Default)]
pub(crate) struct ConnectionUsage {
    slow: Mutex<Vec<Instant>>,
    bytes: AtomicUsize,
}

/// The incomplete bodies of one principal. Removed when empty.
#[derive(Default)]
struct Usage {
    /// The deadline of each slow body.
    slow: Vec<Instant>,
    bytes: usize,
}

/// An incomplete body, until dropped.
pub(crate) struct UnfinishedBody<'a> {
    all: &'a UnfinishedBodies,
    connection: &'a ConnectionUsage,
    /// [`lockgate_authn::Principal::key`].
    principal: u64,
    /// The body's deadline, if it is slow.
    slow: Option<Instant>,
    bytes: usize,
}

impl UnfinishedBodies {
    pub(crate) fn new(limits: BodyLimits) -> Self {
        Self { limits, principals: Mutex::default() }
    }

    /// Returns the bytes that a body must bring in this many seconds.
    pub(crate) fn least_bytes(&self, seconds: u64) -> usize {
        self.limits.rate.saturating_mul(usize::try_from(seconds).unwrap_or(usize::MAX))
    }

    pub(crate) fn begin<'a>(
        &'a self,
        connection: &'a ConnectionUsage,
        principal: u64,
    ) -> UnfinishedBody<'a> {
        UnfinishedBody { all: self, connection, principal, slow: None, bytes: 0 }
    }
}

impl UnfinishedBody<'_> {
    pub(crate) fn add_bytes(&mut self, bytes: usize) -> Result<(), ListenerError> {
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
            return Err(ListenerError::ConnectionBytes);
        }
        if of_principal > limits.bytes_per_principal {
            return Err(ListenerError::PrincipalBytes);
        }
        Ok(())
    }

    /// Marks the body as slow, with the deadline `end`.
    pub(crate) fn mark_slow(&mut self, end: Instant) -> Result<(), ListenerError> {
        if self.slow.is_some() {
            return Ok(());
        }
        let limits = &self.all.limits;
        let mut of_connection = self.connection.slow.lock();
        if of_connection.len() >= limits.slow_per_connection {
            return Err(ListenerError::ConnectionBodies {
                retry_after: time_until_first(&of_connection),
            });
        }
        let mut principals = self.all.principals.lock();
        let usage = principals.entry(self.principal).or_default();
        if usage.slow.len() >= limits.slow_per_principal {
            return Err(ListenerError::PrincipalBodies {
                retry_after: time_until_first(&usage.slow),
            });
        }
        of_connection.push(end);
        usage.slow.push(end);
        self.slow = Some(end);
        Ok(())
    }
}

/// Returns the time until the first deadline. By then at least one of these bodies has ended.
fn time_until_first(ends: &[Instant]) -> Duration {
    let now = Instant::now();
    ends.iter().min().map_or(Duration::ZERO, |end| end.saturating_duration_since(now))
}

fn remove(ends: &mut Vec<Instant>, end: Instant) {
    if let Some(at) = ends.iter().position(|&other| other == end) {
        ends.swap_remove(at);
    }
}

impl Drop for UnfinishedBody<'_> {
    fn drop(&mut self) {
        if self.slow.is_none() && self.bytes == 0 {
            return;
        }
        if let Some(end) = self.slow {
            remove(&mut self.connection.slow.lock(), end);
        }
        self.connection.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        let mut principals = self.all.principals.lock();
        if let Entry::Occupied(mut entry) = principals.entry(self.principal) {
            let usage = entry.get_mut();
            if let Some(end) = self.slow {
                remove(&mut usage.slow, end);
            }
            usage.bytes = usage.bytes.saturating_sub(self.bytes);
            if usage.slow.is_empty() && usage.bytes == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests;
