//! The connections of an accept loop. A sweep per tick closes late connections, and shutdown closes
//! all. When slots run out, connections are selected for eviction, and closed.

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

use crate::connection::{CloseReason, ConnectionState};

/// Maximum idle time between requests.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Time a new connection has to send its first request during shutdown.
const FIRST_REQUEST_GRACE_PERIOD: Duration = Duration::from_millis(500);

pub(crate) struct Connections {
    pub(super) open: Mutex<HashMap<u64, TrackedConnection>>,
    next: AtomicU64,
    emptied: Notify,
    budget: Arc<Budget>,
}

/// A connection, with its phase at the last sweep.
pub(super) struct TrackedConnection {
    pub(super) state: Arc<ConnectionState>,
    pub(super) phase: Phase,
    /// Sweeps in this phase, and their duration.
    pub(super) ticks: u32,
    pub(super) waited: Duration,
    requests: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Busy,
    /// A handshake or header block is incomplete.
    Head,
    Idle,
    /// The client does not accept written bytes.
    Blocked,
}

/// The registration of a connection, removed on drop.
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

    /// Checks every connection once; call this every `tick`. `head` is the time for a header block,
    /// `write` the time in which a client has to accept some of the written bytes.
    pub(crate) fn sweep(&self, tick: Duration, head: Duration, write: Duration) {
        for tracked in self.open.lock().values_mut() {
            tracked.check_progress(tick, head, write);
        }
    }

    pub(crate) fn are_idle(&self) -> bool {
        self.open.lock().values().all(|tracked| tracked.state.active.load(Ordering::Relaxed) == 0)
    }

    /// Sends GOAWAY to HTTP/2 clients. A client without a request so far receives it with its first
    /// response.
    pub(crate) fn go_away(&self) {
        for tracked in self.open.lock().values() {
            if tracked.state.requests.load(Ordering::Relaxed) > 0 {
                tracked.state.go_away();
            }
        }
    }

    /// Closes every connection gracefully, and aborts the rest after `grace`. Returns the number of
    /// aborted connections.
    pub(crate) async fn drain(&self, grace: Duration) -> usize {
        for tracked in self.open.lock().values() {
            // A new connection may still send its first request; the response announces the close.
            if tracked.state.requests.load(Ordering::Relaxed) > 0 || tracked.ticks > 1 {
                tracked.state.close(CloseReason::Graceful);
            }
        }
        if tokio::time::timeout(FIRST_REQUEST_GRACE_PERIOD.min(grace), self.wait_until_empty())
            .await
            .is_ok()
        {
            return 0;
        }
        self.close_all(CloseReason::Graceful);
        if tokio::time::timeout(grace, self.wait_until_empty()).await.is_ok() {
            return 0;
        }
        let cut = self.close_all(CloseReason::Abort);
        // Tasks end at their next poll. The timeout covers a runtime that no longer polls.
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

    /// Returns whether progress that counts in this phase was made since the last sweep.
    fn take_progress(&self, requests: u32, phase: Phase) -> bool {
        let state = &self.state;
        let wrote = state.wrote.swap(false, Ordering::Relaxed);
        let wrote_of_answer = state.write_progress.swap(false, Ordering::Relaxed);
        // Other frames, such as ping responses, are no progress while a response is pending.
        let answer_waits = state.pending_writes.load(Ordering::Relaxed) > 0;
        let wrote = if answer_waits { wrote_of_answer } else { wrote };
        // A new request does not show that the client reads the previous response.
        let asked = requests != self.requests && phase != Phase::Blocked;
        asked || wrote && phase != Phase::Head
    }

    /// Returns the reason to close the connection after `waited` in its phase, if any.
    fn find_close_reason(&self, head: Duration, write: Duration) -> Option<CloseReason> {
        let is_open = self.state.close_reason() == CloseReason::None;
        match self.phase {
            // The first sweep may directly follow the accept, so it does not count as a tick.
            Phase::Head if self.waited <= head => None,
            // `HttpIo` checks the close reason and writes a 408 only after the handshake.
            Phase::Head if !is_open || !self.state.handshake_done.load(Ordering::Relaxed) => {
                Some(CloseReason::Abort)
            }
            // HTTP/2 peers send pings and window updates between requests.
            Phase::Head if self.state.http2.load(Ordering::Relaxed) => Some(CloseReason::Graceful),
            Phase::Head => Some(CloseReason::LateHeaders),
            Phase::Idle if is_open && self.waited >= IDLE_TIMEOUT => Some(CloseReason::Graceful),
            Phase::Idle if self.waited >= IDLE_TIMEOUT * 2 => Some(CloseReason::Abort),
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

/// Polls a connection's task until it completes or the connection must close at once.
pub(crate) async fn run_connection(
    registration: Registration,
    mut task: Pin<Box<impl Future<Output = ()>>>,
) {
    let mut registered: Option<Waker> = None;
    std::future::poll_fn(|cx| {
        let state = &registration.state;
        let is_registered = registered.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        // Waking consumes the registered waker, so once there is a close reason it is registered on
        // every poll.
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
