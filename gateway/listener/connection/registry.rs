//! The connections of one accept loop: one sweep per tick finds those that are late, and shutdown
//! ends them all.

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

use super::state::{CloseReason, ConnectionState};

/// How long a connection may be idle between requests.
const IDLE: Duration = Duration::from_secs(120);
/// How long a connection that has just come may take to send its first request when the gateway
/// stops.
const FIRST: Duration = Duration::from_millis(500);

/// The connections of one accept loop.
pub(crate) struct Connections {
    pub(super) open: Mutex<HashMap<u64, TrackedConnection>>,
    next: AtomicU64,
    emptied: Notify,
    budget: Arc<Budget>,
}

/// A connection, and what the last sweep saw of it.
pub(super) struct TrackedConnection {
    pub(super) state: Arc<ConnectionState>,
    pub(super) phase: Phase,
    /// Sweeps in this phase, and how long they took.
    pub(super) ticks: u32,
    pub(super) waited: Duration,
    requests: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Something runs.
    Busy,
    /// A handshake or a header block is on its way.
    Head,
    Idle,
    /// The client does not take what is written to it.
    Blocked,
}

/// The entry of one connection. Dropping it removes the connection.
pub(crate) struct Registration {
    connections: Arc<Connections>,
    number: u64,
    pub state: Arc<ConnectionState>,
}

impl Connections {
    pub(crate) fn new(budget: Arc<Budget>) -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            next: AtomicU64::new(0),
            emptied: Notify::new(),
            budget,
        })
    }

    pub(crate) fn add(self: &Arc<Self>, address: IpAddr) -> Registration {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let state = Arc::new(ConnectionState::new(address, Arc::clone(&self.budget)));
        let tracked = TrackedConnection {
            state: Arc::clone(&state),
            phase: Phase::Head,
            ticks: 0,
            waited: Duration::ZERO,
            requests: 0,
        };
        self.open.lock().insert(number, tracked);
        Registration { connections: Arc::clone(self), number, state }
    }

    /// Looks at every connection once; call it every `tick`. `head` is the time for a header block,
    /// `write` the time in which a client has to take something of what is written to it.
    pub(crate) fn sweep(&self, tick: Duration, head: Duration, write: Duration) {
        for tracked in self.open.lock().values_mut() {
            tracked.check_progress(tick, head, write);
        }
    }

    /// Returns whether no request runs on any connection.
    pub(crate) fn are_idle(&self) -> bool {
        self.open.lock().values().all(|tracked| tracked.state.active.load(Ordering::Relaxed) == 0)
    }

    /// Tells HTTP/2 clients to send further requests elsewhere. One that has sent none yet is told
    /// at its first.
    pub(crate) fn go_away(&self) {
        for tracked in self.open.lock().values() {
            if tracked.state.requests.load(Ordering::Relaxed) > 0 {
                tracked.state.go_away();
            }
        }
    }

    /// Tells every connection to finish; after `grace` ends those that did not. Gives the number of
    /// the latter.
    pub(crate) async fn drain(&self, grace: Duration) -> usize {
        for tracked in self.open.lock().values() {
            // Who has just come gets an answer to the first request, which says that it is the
            // last.
            if tracked.state.requests.load(Ordering::Relaxed) > 0 || tracked.ticks > 1 {
                tracked.state.close(CloseReason::Graceful);
            }
        }
        if tokio::time::timeout(FIRST.min(grace), self.wait_until_empty()).await.is_ok() {
            return 0;
        }
        self.close_all(CloseReason::Graceful);
        if tokio::time::timeout(grace, self.wait_until_empty()).await.is_ok() {
            return 0;
        }
        let cut = self.close_all(CloseReason::Abort);
        // They end as soon as they are polled; the bound is for a runtime that has stopped polling.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.wait_until_empty()).await;
        cut
    }

    fn close_all(&self, reason: CloseReason) -> usize {
        let open = self.open.lock();
        for tracked in open.values() {
            tracked.state.close(reason);
        }
        open.len()
    }

    async fn wait_until_empty(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.open.lock().is_empty() {
                return;
            }
            emptied.await;
        }
    }
}

impl TrackedConnection {
    fn check_progress(&mut self, tick: Duration, head: Duration, write: Duration) {
        let requests = self.state.requests.load(Ordering::Relaxed);
        let phase = self.observe_phase(requests);
        let progressed = self.take_progress(requests, phase);
        if phase == Phase::Busy || phase != self.phase || progressed {
            self.phase = phase;
            self.requests = requests;
            self.ticks = 0;
            self.waited = Duration::ZERO;
            return;
        }
        self.ticks = self.ticks.saturating_add(1);
        self.waited = tick.saturating_mul(self.ticks);
        if let Some(reason) = self.find_close_reason(head, write) {
            self.state.close(reason);
        }
    }

    fn observe_phase(&self, requests: u32) -> Phase {
        let state = &self.state;
        if state.pending_writes.load(Ordering::Relaxed) > 0
            || state.write_blocked.load(Ordering::Relaxed)
        {
            Phase::Blocked
        } else if state.active.load(Ordering::Relaxed) > 0 {
            Phase::Busy
        } else if requests == 0 || state.received.load(Ordering::Relaxed) {
            Phase::Head
        } else {
            Phase::Idle
        }
    }

    /// Whether something happened since the last sweep that counts in this phase.
    fn take_progress(&self, requests: u32, phase: Phase) -> bool {
        let state = &self.state;
        let wrote = state.wrote.swap(false, Ordering::Relaxed);
        let wrote_of_answer = state.write_progress.swap(false, Ordering::Relaxed);
        // Other frames, such as answers to pings, say nothing of an answer that waits.
        let answer_waits = state.pending_writes.load(Ordering::Relaxed) > 0;
        let wrote = if answer_waits { wrote_of_answer } else { wrote };
        // To ask for more shows nothing of whether what was written is read.
        let asked = requests != self.requests && phase != Phase::Blocked;
        asked || wrote && phase != Phase::Head
    }

    /// Why the connection is to close after so long in its phase.
    fn find_close_reason(&self, head: Duration, write: Duration) -> Option<CloseReason> {
        let is_open = self.state.close_reason() == CloseReason::None;
        match self.phase {
            // The first sweep may come right after the connection, so it does not count as a tick.
            Phase::Head if self.waited <= head => None,
            // Nobody reads what a client sends in a handshake, or says anything to it.
            Phase::Head if !is_open || !self.state.handshake_done.load(Ordering::Relaxed) => {
                Some(CloseReason::Abort)
            }
            // HTTP/2 peers send pings and window updates between requests.
            Phase::Head if self.state.http2.load(Ordering::Relaxed) => Some(CloseReason::Graceful),
            Phase::Head => Some(CloseReason::LateHeaders),
            Phase::Idle if is_open && self.waited >= IDLE => Some(CloseReason::Graceful),
            Phase::Idle if self.waited >= IDLE * 2 => Some(CloseReason::Abort),
            Phase::Blocked if self.waited >= write => Some(CloseReason::UnreadAnswer),
            Phase::Busy | Phase::Idle | Phase::Blocked => None,
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.remove(&self.number);
        if open.is_empty() {
            self.connections.emptied.notify_waiters();
        }
    }
}

/// Runs a connection's whole task until it ends or is told to close at once.
pub(crate) async fn run_connection(
    registration: Registration,
    mut task: Pin<Box<impl Future<Output = ()>>>,
) {
    let mut registered: Option<Waker> = None;
    std::future::poll_fn(|cx| {
        let state = &registration.state;
        let is_registered = registered.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        // A reason to close takes the waker along, so after the first one it has to be left again
        // every time.
        if state.close_reason() != CloseReason::None || !is_registered {
            state.waker.register(cx.waker());
            registered = Some(cx.waker().clone());
        }
        if state.close_reason() >= CloseReason::UnreadAnswer {
            return Poll::Ready(());
        }
        task.as_mut().poll(cx)
    })
    .await;
}

#[cfg(test)]
mod tests;
