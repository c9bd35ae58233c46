//! Selects connections to evict when slots run out, and closes them. The caller decides when.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::registry::{Connections, Phase};
use super::state::{CloseReason, ConnectionState};

/// Idle time after which an authenticated connection may be evicted.
const EVICTION_GRACE_PERIOD: Duration = Duration::from_secs(10);

pub(crate) struct EvictionCandidate {
    pub authenticated: bool,
    /// Sweeps since the last progress.
    pub ticks: u32,
    /// Increases in order of arrival.
    pub number: u64,
    state: Arc<ConnectionState>,
}

impl EvictionCandidate {
    /// Closes the connection, gracefully if authenticated so that a new request completes.
    pub(crate) fn evict(&self) {
        self.state.close(if self.authenticated {
            CloseReason::Graceful
        } else {
            CloseReason::Abort
        });
    }
}

impl Connections {
    /// Adds the connections that may be evicted to `candidates`. Returns the number of connections
    /// that are already closing.
    pub(crate) fn collect_idle(
        &self,
        address: Option<IpAddr>,
        candidates: &mut Vec<EvictionCandidate>,
    ) -> usize {
        let mut leaving = 0;
        for (number, tracked) in &*self.open.lock() {
            let state = &tracked.state;
            if matches!(address, Some(address) if address != state.address)
                || state.active.load(Ordering::Relaxed) > 0
            {
                continue;
            }
            match state.close_reason() {
                CloseReason::None => {}
                // Not counted: the client decides when a graceful HTTP/2 shutdown ends.
                CloseReason::Graceful if state.http2.load(Ordering::Relaxed) => continue,
                _ => {
                    leaving += 1;
                    continue;
                }
            }
            let authenticated = state.authenticated.load(Ordering::Relaxed);
            if !authenticated
                || tracked.phase == Phase::Idle && tracked.waited >= EVICTION_GRACE_PERIOD
            {
                let number = *number;
                let ticks = tracked.ticks;
                candidates.push(EvictionCandidate {
                    authenticated,
                    ticks,
                    number,
                    state: Arc::clone(state),
                });
            }
        }
        leaving
    }

    /// Returns the time until a connection of this address may be evicted, if any of them is idle.
    pub(crate) fn time_until_idle(&self, address: IpAddr) -> Option<Duration> {
        let mut first = None;
        for tracked in self.open.lock().values() {
            if tracked.state.address == address && tracked.phase == Phase::Idle {
                let time = EVICTION_GRACE_PERIOD.saturating_sub(tracked.waited);
                first = Some(time.min(first.unwrap_or(time)));
            }
        }
        first
    }
}
