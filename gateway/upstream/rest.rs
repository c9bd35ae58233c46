//! A server that is connected only while somebody uses it. It rests until a call, a subscription or
//! a list that is not known yet wakes it, and rests again when nobody has used it for a while, or
//! another server of its organisation needs its place. Its lists stay known meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockgate_protocol::jsonrpc::Outcome;
use lockgate_protocol::{list, scan};
use tokio::task::JoinHandle;

use crate::call::{Answer, AnswerKind};
use crate::catalog::Catalog;
use crate::connection::Connection;
use crate::organisations::{Idle, Purpose, Start};
use crate::shared::Shared;
use crate::status::State;

/// Between two looks at whether a server is used.
const LONGEST_LOOK: Duration = Duration::from_secs(10);
/// How long a connection is kept that nobody gets any more: who has it may be about to call.
const PARTING: Duration = Duration::from_secs(1);
/// How long lists that stay the same are not kept again.
const KEPT_MS: u64 = 3_600_000;
/// How long a task keeps a server connected, in milliseconds.
const LONGEST_TASK_MS: u64 = 3_600_000;
/// How long it may take to end.
const GRACE: Duration = Duration::from_secs(2);

impl Shared {
    /// Somebody uses the server.
    pub(crate) fn record_use(&self) {
        if self.rests_after.is_some() {
            self.used_at.store(self.now_ms(), Ordering::Relaxed);
        }
    }

    /// Has a server that rests connected.
    pub(crate) fn wake(&self) {
        if self.status.load().state != State::Resting {
            return;
        }
        self.record_use();
        self.leave_rest();
    }

    fn leave_rest(&self) {
        self.set_status(|status| {
            if status.state == State::Resting {
                status.state = State::Pending;
            }
        });
        self.woken.notify_one();
    }

    /// Somebody waits to call it: whoever only wants lists does not come before.
    pub(crate) fn wake_for_call(&self) {
        self.called.notify_one();
        self.wake();
    }

    /// Wakes it if what is known of its lists is not of this process, or not of late. One that was
    /// not there is tried once, now and then: lists alone do not keep it awake.
    pub(crate) fn wake_for_lists(&self) {
        let status = self.status.load();
        if status.trouble.is_none() {
            let is_unknown = status.peer.is_none() || self.catalog.load().version == 0;
            if is_unknown || self.is_out_of_date() {
                self.wake();
            }
            return;
        }
        if status.state == State::Resting
            && let Some(after) = self.rests_after
            && status.since.elapsed().unwrap_or(Duration::ZERO) >= after
        {
            self.leave_rest();
        }
    }

    /// Waits until its organisation may connect one more; what it gives is held until that is done.
    ///
    /// # Errors
    /// Why it may not, in words.
    pub(crate) async fn admit_start(&self) -> Result<Option<Start<'_>>, &'static str> {
        let Some(part) = &self.around.part else { return Ok(None) };
        if self.place.lock().is_none() {
            let Some(place) = part.take_place().await else {
                return Err("as many servers of its organisation are in use as may be at once");
            };
            *self.place.lock() = Some(place);
        }
        Ok(Some(tokio::select! {
            biased;
            () = self.called.notified() => part.wait_for_start(Purpose::Call).await,
            start = part.wait_for_start(Purpose::Lists) => start,
        }))
    }

    /// Waits as long as the server rests.
    pub(crate) async fn rest(&self) {
        while self.status.load().state == State::Resting {
            self.woken.notified().await;
        }
    }

    /// Lets it rest from now on.
    pub(crate) fn begin_rest(&self) {
        self.set_status(|status| status.state = State::Resting);
        *self.place.lock() = None;
    }

    /// Whether nobody has used it for as long as it stays connected.
    pub(crate) fn is_unused(&self) -> bool {
        let Some(after) = self.rests_after else {
            return false;
        };
        let unused = self.now_ms().saturating_sub(self.used_at.load(Ordering::Relaxed));
        unused >= u64::try_from(after.as_millis()).unwrap_or(u64::MAX) && !self.is_in_use()
    }

    /// Whether somebody is about to hear or get something of it.
    fn is_in_use(&self) -> bool {
        self.calls.running() > 0
            || self.calls.waiting() > 0
            || !self.wanted.is_empty()
            || !self.sessions.is_empty()
            || self.now_ms() < self.tasks_until.load(Ordering::Relaxed)
            || self.live.load().as_ref().is_some_and(|live| live.outstanding.is_waited_for())
    }

    /// Notes a task that clients may ask about: at a legacy server it ends with the connection.
    pub(crate) fn record_task(&self, answer: &Answer) {
        let Outcome::Result(_, members) = &answer.outcome else { return };
        let legacy = scan::find(members, &answer.text, "task");
        if legacy.is_none() && answer.kind != AnswerKind::Task {
            return;
        }
        let ttl = match legacy {
            Some(task) => list::member(task.of(&answer.text), "ttl"),
            None => scan::find(members, &answer.text, "ttlMs").map(|ttl| ttl.of(&answer.text)),
        };
        let lasts = ttl.and_then(read_number).unwrap_or(LONGEST_TASK_MS);
        let until = self.now_ms() + lasts.min(LONGEST_TASK_MS);
        self.tasks_until.fetch_max(until, Ordering::Relaxed);
    }

    /// Waits until nobody has used the server for as long as it stays connected; for ever where it
    /// always does.
    pub(crate) async fn unused(&self) {
        let Some(after) = self.rests_after else {
            return std::future::pending().await;
        };
        let look = (after / 4).min(LONGEST_LOOK).max(Duration::from_millis(10));
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

    /// Whether calls run or wait, on whichever connection, also those whose clients are asked
    /// something.
    fn has_calls(&self) -> bool {
        self.calls.running() > 0
            || self.calls.waiting() > 0
            || self.sessions.are_asked()
            || self.live.load().as_ref().is_some_and(|live| live.outstanding.is_waited_for())
    }

    /// Waits until its calls have ended, or the time is over. Who has found it just now may be
    /// about to call.
    pub(crate) async fn finish_calls(&self, longest: Duration) {
        tokio::time::sleep(PARTING).await;
        let idle = async {
            while self.has_calls() {
                tokio::time::sleep(PARTING / 10).await;
            }
        };
        let _ = tokio::time::timeout(longest, idle).await;
    }

    /// Ends the connection of a server that rests, behind the last of its calls. Who has subscribed
    /// on it in the last moment gets another one.
    pub(crate) fn part(self: &Arc<Self>, connection: Arc<Connection>) {
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(PARTING).await;
            if shared.is_in_use() {
                shared.wake();
            }
            let idle = async {
                while !connection.outstanding.is_empty() {
                    tokio::time::sleep(PARTING / 10).await;
                }
            };
            let longest = shared.config.load().call_timeout;
            let _ = tokio::time::timeout(longest, idle).await;
            connection.close(GRACE).await;
        });
    }

    /// Has the lists of an earlier process looked up, if nothing is known in this one.
    pub(crate) fn recall(self: &Arc<Self>) -> Option<JoinHandle<()>> {
        let memory = self.memory.clone()?;
        if self.catalog.load().version > 0 {
            return None;
        }
        let shared = Arc::clone(self);
        Some(tokio::spawn(async move {
            let _turn = match &shared.around.part {
                Some(part) => part.recalls.acquire().await.ok(),
                None => None,
            };
            if let Some(catalog) = memory.load().await {
                shared.restore(catalog);
            }
        }))
    }

    /// Has lists kept for the next process: those that differ, and others now and then.
    pub(crate) fn remember(&self, catalog: &Catalog, is_same: bool) {
        let Some(memory) = &self.memory else { return };
        let now = self.now_ms().max(1);
        let last = self.kept_at.load(Ordering::Relaxed);
        let is_fresh = last > 0 && now.saturating_sub(last) < KEPT_MS;
        if !(is_same && is_fresh) {
            self.kept_at.store(now, Ordering::Relaxed);
            memory.keep(catalog);
        }
    }
}

fn read_number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
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
