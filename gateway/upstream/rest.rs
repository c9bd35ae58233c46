//! On-demand connections. A resting server is connected for a call, a subscription or a list not
//! yet read, and disconnected after idle time or when another server of its organisation needs the
//! slot. Its lists stay available while it rests.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockgate_admission::spawn;
use lockgate_protocol::jsonrpc::Outcome;
use lockgate_protocol::key::Key;
use lockgate_protocol::{list, scan};
use tokio::task::JoinHandle;

use crate::call::{Answer, AnswerKind};
use crate::catalog::Catalog;
use crate::connection::{CLOSE_GRACE_PERIOD, Connection};
use crate::organisations::{Idle, Purpose, Start};
use crate::shared::Shared;
use crate::status::UpstreamState;

/// Longest interval between idle checks.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Time that a connection is kept after it was withdrawn: a caller may be about to use it.
const PARTING_GRACE_PERIOD: Duration = Duration::from_secs(1);
/// Interval at which unchanged lists are stored again, in milliseconds.
const KEPT_MS: u64 = 3_600_000;
/// Longest time that a task keeps a server connected, in milliseconds.
const MAX_TASK_MS: u64 = 3_600_000;

impl Shared {
    pub(crate) fn record_use(&self) {
        if self.rests_after.is_some() {
            self.used_at.store(self.now_ms(), Ordering::Relaxed);
        }
    }

    pub(crate) fn wake(&self) {
        if self.status.load().state != UpstreamState::Resting {
            return;
        }
        self.record_use();
        self.leave_rest();
    }

    fn leave_rest(&self) {
        self.set_status(|status| {
            if status.state == UpstreamState::Resting {
                status.state = UpstreamState::Pending;
            }
        });
        self.woken.notify_one();
    }

    /// Connects the server for a call, ahead of servers connected only for their lists.
    pub(crate) fn wake_for_call(&self) {
        self.called.notify_one();
        self.wake();
    }

    /// Connects the server if its lists were not read by this process, or are out of date. After a
    /// failure it is tried only once per idle time: lists alone do not keep it connected.
    pub(crate) fn wake_for_lists(&self) {
        let status = self.status.load();
        if status.trouble.is_none() {
            let is_unknown = status.peer.is_none() || self.catalog.load().version == 0;
            if is_unknown || self.is_out_of_date() {
                self.wake();
            }
            return;
        }
        if status.state == UpstreamState::Resting
            && let Some(after) = self.rests_after
            && status.since.elapsed().unwrap_or(Duration::ZERO) >= after
        {
            self.leave_rest();
        }
    }

    /// Waits for permission of its organisation to connect; the permit is held during the attempt.
    ///
    /// # Errors
    /// Why it may not connect.
    pub(crate) async fn admit_start(&self) -> Result<Option<Start<'_>>, &'static str> {
        let Some(part) = &self.around.part else { return Ok(None) };
        if self.place.lock().is_none() {
            let Some(place) = part.take_place().await else {
                return Err("the limit on connected servers of its organisation is reached");
            };
            *self.place.lock() = Some(place);
        }
        Ok(Some(tokio::select! {
            biased;
            () = self.called.notified() => part.wait_for_start(Purpose::Call).await,
            start = part.wait_for_start(Purpose::Lists) => start,
        }))
    }

    pub(crate) async fn rest(&self) {
        while self.status.load().state == UpstreamState::Resting {
            self.woken.notified().await;
        }
    }

    /// Marks the server as resting and releases its slot.
    pub(crate) fn begin_rest(&self) {
        self.set_status(|status| status.state = UpstreamState::Resting);
        *self.place.lock() = None;
    }

    /// Reports whether its idle time has passed.
    pub(crate) fn is_unused(&self) -> bool {
        let idle = self.rests_after.and_then(|after| Some((self.idle_for()?, after)));
        idle.is_some_and(|(idle, after)| idle >= after)
    }

    /// Reports whether calls, subscriptions, sessions or tasks use the server.
    fn is_in_use(&self) -> bool {
        self.has_shared_calls()
            || self.topics.are_shared()
            || !self.sessions.is_empty()
            || self.now_ms() < self.tasks_until.load(Ordering::Relaxed)
    }

    /// Reports whether calls run or wait, including those with open questions on the shared
    /// connection.
    fn has_shared_calls(&self) -> bool {
        self.calls.running() > 0
            || self.calls.waiting() > 0
            || self.live.load().as_ref().is_some_and(|live| live.outstanding.is_waited_for())
    }

    /// Records a task that clients may poll: at a legacy server it ends with the connection.
    pub(crate) fn record_task(&self, answer: &Answer) {
        let Outcome::Result(_, members) = &answer.outcome else { return };
        let legacy = scan::get(members, Key::Task);
        if legacy.is_none() && answer.kind != AnswerKind::Task {
            return;
        }
        let ttl = match legacy {
            Some(task) => list::member(task.of(&answer.text), "ttl"),
            None => scan::get(members, Key::TtlMs).map(|ttl| ttl.of(&answer.text)),
        };
        let lasts = ttl.and_then(scan::as_number).unwrap_or(MAX_TASK_MS);
        let until = self.now_ms() + lasts.min(MAX_TASK_MS);
        self.tasks_until.fetch_max(until, Ordering::Relaxed);
    }

    /// Waits until its idle time has passed; pending forever if it is always connected.
    pub(crate) async fn unused(&self) {
        let Some(after) = self.rests_after else {
            return std::future::pending().await;
        };
        let look = (after / 4).min(MAX_CHECK_INTERVAL).max(Duration::from_millis(10));
        loop {
            tokio::select! {
                () = tokio::time::sleep(look) => {
                    self.sessions.close_idle(after);
                    if self.is_unused() {
                        return;
                    }
                }
                () = self.gives_way.notified() => {
                    if !self.is_in_use() {
                        return;
                    }
                }
            }
        }
    }

    /// Waits until its calls have ended, for at most `longest`. Starts with a pause, because a
    /// caller that has just found the server may be about to call.
    pub(crate) async fn finish_calls(&self, longest: Duration) {
        tokio::time::sleep(PARTING_GRACE_PERIOD).await;
        while_true(longest, || self.has_shared_calls() || self.sessions.are_asked()).await;
    }

    /// Closes the connection of a resting server after the last of its calls. A client that
    /// subscribed on it at the last moment causes a new connection.
    pub(crate) fn part(self: &Arc<Self>, connection: Arc<Connection>) {
        let shared = Arc::clone(self);
        spawn(async move {
            tokio::time::sleep(PARTING_GRACE_PERIOD).await;
            if shared.is_in_use() {
                shared.wake();
            }
            let longest = shared.config.load().call_timeout;
            while_true(longest, || !connection.outstanding.is_empty()).await;
            connection.close(CLOSE_GRACE_PERIOD).await;
        });
    }

    /// Loads the stored lists of an earlier process, unless lists have already been read.
    pub(crate) fn recall(self: &Arc<Self>) -> Option<JoinHandle<()>> {
        let memory = self.around.memory.clone()?;
        if self.catalog.load().version > 0 {
            return None;
        }
        let shared = Arc::clone(self);
        Some(spawn(async move {
            let _turn = match &shared.around.part {
                Some(part) => part.recalls.acquire().await.ok(),
                None => None,
            };
            if let Some(catalog) = memory.load().await {
                shared.restore(catalog);
            }
        }))
    }

    /// Stores lists for the next process: at once if they differ, otherwise once per [`KEPT_MS`].
    pub(crate) fn remember(&self, catalog: &Catalog, is_same: bool) {
        let Some(memory) = &self.around.memory else { return };
        let now = self.now_ms().max(1);
        let last = self.kept_at.load(Ordering::Relaxed);
        let is_fresh = last > 0 && now.saturating_sub(last) < KEPT_MS;
        if !(is_same && is_fresh) {
            self.kept_at.store(now, Ordering::Relaxed);
            memory.keep(catalog);
        }
    }
}

/// Waits while the condition holds, for at most `longest`.
async fn while_true(longest: Duration, condition: impl Fn() -> bool) {
    let waiting = async {
        while condition() {
            tokio::time::sleep(PARTING_GRACE_PERIOD / 10).await;
        }
    };
    let _ = tokio::time::timeout(longest, waiting).await;
}

impl Idle for Shared {
    fn idle_for(&self) -> Option<Duration> {
        if self.is_in_use() {
            return None;
        }
        let unused = self.now_ms().saturating_sub(self.used_at.load(Ordering::Relaxed));
        Some(Duration::from_millis(unused))
    }

    fn is_awake(&self) -> bool {
        self.place.lock().is_some()
    }

    fn give_way(&self) {
        self.gives_way.notify_one();
    }

    fn forget_lists(&self) -> usize {
        self.forget_catalog()
    }
}

#[cfg(test)]
mod tests;
