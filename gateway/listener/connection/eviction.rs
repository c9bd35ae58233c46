//! Which connections may go when slots run out, and how. It decides nothing about when.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::registry::{Connections, Phase};
use super::state::{CloseReason, ConnectionState};

/// How long a connection that somebody known has used may be idle when slots run out.
const SPARED: Duration = Duration::from_secs(10);

/// A connection that may go when slots run out.
pub(crate) struct EvictionCandidate {
    pub authenticated: bool,
    /// Sweeps since something happened.
    pub ticks: u32,
    /// Those that came first have the smallest.
    pub number: u64,
    state: Arc<ConnectionState>,
}

impl EvictionCandidate {
    /// Ends it: of somebody known at once if nothing has begun, of a stranger whatever it does.
    pub(crate) fn evict(&self) {
        self.state.close(if self.authenticated {
            CloseReason::Graceful
        } else {
            CloseReason::Abort
        });
    }
}

impl Connections {
    /// Adds the connections that may go when slots run out. Gives the number of those that are
    /// about to end.
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
                // A client of HTTP/2 has a say in when that is.
                CloseReason::Graceful if state.http2.load(Ordering::Relaxed) => continue,
                _ => {
                    leaving += 1;
                    continue;
                }
            }
            let authenticated = state.authenticated.load(Ordering::Relaxed);
            if !authenticated || tracked.phase == Phase::Idle && tracked.waited >= SPARED {
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

    /// How long until one of the connections of this address may go.
    pub(crate) fn time_until_idle(&self, address: IpAddr) -> Option<Duration> {
        let mut first = None;
        for tracked in self.open.lock().values() {
            if tracked.state.address == address && tracked.phase == Phase::Idle {
                let time = SPARED.saturating_sub(tracked.waited);
                first = Some(time.min(first.unwrap_or(time)));
            }
        }
        first
    }
}
