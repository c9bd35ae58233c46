//! Accounting of incomplete request bodies: the number of slow bodies, and the bytes, per
//! connection and per principal. A body that arrives along with its headers is not counted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::BodyLimits;
use crate::error::ListenerError;

pub(crate) struct UnfinishedBodies {
    limits: BodyLimits,
    principals: Mutex<HashMap<u64, Usage>>,
}

pub(crate) type ConnectionUsage = Mutex<Usage>;

/// The incomplete bodies of a connection or a principal.
#[derive(Default)]
pub(crate) struct Usage {
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

impl Usage {
    /// Returns the time until the first deadline if `most` bodies are slow. By then at least one of
    /// them has ended.
    fn time_if_full(&self, most: usize) -> Option<Duration> {
        let now = Instant::now();
        let first = self.slow.iter().min().filter(|_| self.slow.len() >= most);
        first.map(|end| end.saturating_duration_since(now))
    }

    fn remove(&mut self, slow: Option<Instant>, bytes: usize) {
        if let Some(end) = slow
            && let Some(at) = self.slow.iter().position(|&other| other == end)
        {
            self.slow.swap_remove(at);
        }
        self.bytes = self.bytes.saturating_sub(bytes);
    }
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
        self.bytes += bytes;
        let mut connection = self.connection.lock();
        connection.bytes += bytes;
        let mut principals = self.all.principals.lock();
        let principal = principals.entry(self.principal).or_default();
        principal.bytes += bytes;
        if connection.bytes > limits.bytes_per_connection {
            return Err(ListenerError::ConnectionBytes);
        }
        if principal.bytes > limits.bytes_per_principal {
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
        let mut connection = self.connection.lock();
        if let Some(retry_after) = connection.time_if_full(limits.slow_per_connection) {
            return Err(ListenerError::ConnectionBodies { retry_after });
        }
        let mut principals = self.all.principals.lock();
        let principal = principals.entry(self.principal).or_default();
        if let Some(retry_after) = principal.time_if_full(limits.slow_per_principal) {
            return Err(ListenerError::PrincipalBodies { retry_after });
        }
        connection.slow.push(end);
        principal.slow.push(end);
        self.slow = Some(end);
        Ok(())
    }
}

impl Drop for UnfinishedBody<'_> {
    fn drop(&mut self) {
        if self.slow.is_none() && self.bytes == 0 {
            return;
        }
        self.connection.lock().remove(self.slow, self.bytes);
        let mut principals = self.all.principals.lock();
        if let Entry::Occupied(mut entry) = principals.entry(self.principal) {
            let usage = entry.get_mut();
            usage.remove(self.slow, self.bytes);
            if usage.slow.is_empty() && usage.bytes == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests;
