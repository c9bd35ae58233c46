//! Which connections may go when slots run out, and how. It decides nothing about when.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Connections, Order, Phase, Pulse};

/// How long a connection that somebody known has used may be idle when slots run out.
const SPARED: Duration = Duration::from_secs(10);

/// A connection that may go when slots run out.
pub(crate) struct Candidate {
    pub authenticated: bool,
    /// Sweeps since something happened.
    pub ticks: u32,
    /// Those that came first have the smallest.
    pub number: u64,
    pulse: Arc<Pulse>,
}

impl Candidate {
    /// Ends it: of somebody known at once if nothing has begun, of a stranger whatever it does.
    pub(crate) fn evict(&self) {
        self.pulse.tell(if self.authenticated { Order::Close } else { Order::Cut });
    }
}

impl Connections {
    /// Adds the connections that may go when slots run out. Gives the number of those that are about to end.
    pub(crate) fn collect_idle(&self, address: Option<IpAddr>, candidates: &mut Vec<Candidate>) -> usize {
        let mut leaving = 0;
        for (number, watched) in &*self.open.lock() {
            let pulse = &watched.pulse;
            if address.is_some_and(|address| address != pulse.address) || pulse.active.load(Ordering::Relaxed) > 0 {
                continue;
            }
            match pulse.order() {
                Order::Open => {}
                // A client of HTTP/2 has a say in when that is.
                Order::Close if pulse.http2.load(Ordering::Relaxed) => continue,
                _ => {
                    leaving += 1;
                    continue;
                }
            }
            let authenticated = pulse.authenticated.load(Ordering::Relaxed);
            if !authenticated || watched.phase == Phase::Idle && watched.waited >= SPARED {
                let (number, ticks) = (*number, watched.ticks);
                candidates.push(Candidate { authenticated, ticks, number, pulse: Arc::clone(pulse) });
            }
        }
        leaving
    }

    /// How long until one of the connections of this address may go.
    pub(crate) fn time_until_idle(&self, address: IpAddr) -> Option<Duration> {
        let mut first = None;
        for watched in self.open.lock().values() {
            if watched.pulse.address == address && watched.phase == Phase::Idle {
                let time = SPARED.saturating_sub(watched.waited);
                first = Some(first.map_or(time, |first: Duration| first.min(time)));
            }
        }
        first
    }
}
