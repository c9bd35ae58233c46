//! Watches connections: how many there are, which of them dawdle, and how they end at shutdown.
//!
//! Connections note what happens to them in plain atomics; one sweep per tick looks for those that are late. So a
//! request costs no timer, and every phase (handshakes, half a header block, an idle or a stuck peer) is bounded.

mod half_close;
mod idle;
mod lengths;
mod state;
mod wire;

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use lockgate_admission::budget::Budget;
use parking_lot::Mutex;
use tokio::sync::Notify;

pub(crate) use idle::Candidate;
pub(crate) use state::{Active, Order, Pulse};
pub(crate) use wire::{Meter, Wire};

/// How long a connection may be idle between requests.
pub(crate) const IDLE: Duration = Duration::from_secs(120);
/// How long a connection that has just come may take to send its first request when the gateway stops.
const FIRST: Duration = Duration::from_millis(500);

/// The connections of one accept loop.
pub(crate) struct Connections {
    open: Mutex<HashMap<u64, Watched>>,
    next: AtomicU64,
    emptied: Notify,
    budget: Arc<Budget>,
}

struct Watched {
    pulse: Arc<Pulse>,
    phase: Phase,
    /// Sweeps in this phase, and how long they took.
    ticks: u32,
    waited: Duration,
    requests: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Something runs.
    Busy,
    /// A handshake or a header block is on its way.
    Head,
    Idle,
    Stuck,
}

/// A place in the list, left when dropped.
pub(crate) struct Entry {
    connections: Arc<Connections>,
    number: u64,
    pub pulse: Arc<Pulse>,
}

impl Connections {
    pub(crate) fn new(budget: Arc<Budget>) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), next: AtomicU64::new(0), emptied: Notify::new(), budget })
    }

    pub(crate) fn add(self: &Arc<Self>, address: IpAddr) -> Entry {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let pulse = Arc::new(Pulse::new(address, Arc::clone(&self.budget)));
        let watched =
            Watched { pulse: Arc::clone(&pulse), phase: Phase::Head, ticks: 0, waited: Duration::ZERO, requests: 0 };
        self.open.lock().insert(number, watched);
        Entry { connections: Arc::clone(self), number, pulse }
    }

    /// Looks at every connection once; call it every `tick`. `head` is the time for a header block, `write` the time in
    /// which a client has to take something of what is written to it.
    pub(crate) fn sweep(&self, tick: Duration, head: Duration, write: Duration) {
        for watched in self.open.lock().values_mut() {
            watched.look(tick, head, write);
        }
    }

    /// Tells HTTP/2 clients to send further requests elsewhere. One that has sent none yet is told at its first.
    pub(crate) fn go_away(&self) {
        for watched in self.open.lock().values() {
            if watched.pulse.requests.load(Ordering::Relaxed) > 0 {
                watched.pulse.go_away();
            }
        }
    }

    /// Tells every connection to finish; after `grace` ends those that did not. Gives the number of the latter.
    pub(crate) async fn drain(&self, grace: Duration) -> usize {
        for watched in self.open.lock().values() {
            // Who has just come gets an answer to the first request, which says that it is the last.
            if watched.pulse.requests.load(Ordering::Relaxed) > 0 || watched.ticks > 1 {
                watched.pulse.tell(Order::Close);
            }
        }
        if tokio::time::timeout(FIRST.min(grace), self.none()).await.is_ok() {
            return 0;
        }
        self.tell(Order::Close);
        if tokio::time::timeout(grace, self.none()).await.is_ok() {
            return 0;
        }
        let cut = self.tell(Order::Cut);
        // They end as soon as they are polled; the bound is for a runtime that has stopped polling.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.none()).await;
        cut
    }

    fn tell(&self, order: Order) -> usize {
        let open = self.open.lock();
        open.values().for_each(|watched| watched.pulse.tell(order));
        open.len()
    }

    async fn none(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.open.lock().is_empty() {
                return;
            }
            emptied.await;
        }
    }
}

impl Watched {
    fn look(&mut self, tick: Duration, head: Duration, write: Duration) {
        let pulse = &self.pulse;
        let requests = pulse.requests.load(Ordering::Relaxed);
        let held_up = pulse.owed.load(Ordering::Relaxed) > 0;
        let (wrote, paid) = (pulse.wrote.swap(false, Ordering::Relaxed), pulse.paid.swap(false, Ordering::Relaxed));
        // Other frames, such as answers to pings, say nothing of an answer that waits.
        let wrote = if held_up { paid } else { wrote };
        let phase = if held_up || pulse.stuck.load(Ordering::Relaxed) {
            Phase::Stuck
        } else if pulse.active.load(Ordering::Relaxed) > 0 {
            Phase::Busy
        } else if requests == 0 || pulse.heard.load(Ordering::Relaxed) {
            Phase::Head
        } else {
            Phase::Idle
        };
        // To ask for more shows nothing of whether what was written is read.
        let asked = requests != self.requests && phase != Phase::Stuck;
        if phase == Phase::Busy || phase != self.phase || asked || wrote && phase != Phase::Head {
            (self.phase, self.requests, self.ticks, self.waited) = (phase, requests, 0, Duration::ZERO);
            return;
        }
        self.ticks = self.ticks.saturating_add(1);
        self.waited = tick.saturating_mul(self.ticks);
        let waited = self.waited;
        match (phase, pulse.order()) {
            // The first sweep may come right after the connection, so it does not count as a tick.
            (Phase::Head, _) if waited <= head => {}
            // Nobody reads what a client sends in a handshake, or says anything to it.
            (Phase::Head, _) if !pulse.speaking.load(Ordering::Relaxed) => pulse.tell(Order::Cut),
            // HTTP/2 peers send pings and window updates between requests.
            (Phase::Head, Order::Open) if pulse.http2.load(Ordering::Relaxed) => pulse.tell(Order::Close),
            (Phase::Head, Order::Open) => pulse.tell(Order::Late),
            (Phase::Head, _) => pulse.tell(Order::Cut),
            (Phase::Idle, Order::Open) if waited >= IDLE => pulse.tell(Order::Close),
            (Phase::Idle, _) if waited >= IDLE * 2 => pulse.tell(Order::Cut),
            (Phase::Stuck, _) if waited >= write => pulse.tell(Order::Unread),
            _ => {}
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.remove(&self.number);
        if open.is_empty() {
            self.connections.emptied.notify_waiters();
        }
    }
}

/// Runs a connection's whole task until it ends or is cut.
pub(crate) async fn run(entry: Entry, mut task: Pin<Box<impl Future<Output = ()>>>) {
    let mut known: Option<Waker> = None;
    std::future::poll_fn(|cx| {
        let pulse = &entry.pulse;
        // An order takes the waker along, so after the first one it has to be left again every time.
        if pulse.order() != Order::Open || known.as_ref().is_none_or(|known| !known.will_wake(cx.waker())) {
            pulse.waker.register(cx.waker());
            known = Some(cx.waker().clone());
        }
        if pulse.order() >= Order::Unread {
            return Poll::Ready(());
        }
        task.as_mut().poll(cx)
    })
    .await;
}

#[cfg(test)]
mod tests;
