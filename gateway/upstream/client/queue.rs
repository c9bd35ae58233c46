//! The queue of calls to a server. Organisations take turns, and so do the callers of each. The
//! queue fails when all permits are taken and the server sends nothing.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_admission::{CallerId, ConcurrencyError, Permit};

use crate::connection::Connection;
use crate::failure::{Result, UpstreamError, UpstreamErrorKind};
use crate::shared::Shared;
use crate::status::{Stage, Stats, UpstreamState};

/// Minimum interval between log lines about rejected calls.
const QUIET_PERIOD: Duration = Duration::from_secs(10);
/// Longest wait for a server that is starting or reconnecting.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for a server that has failed and is retried.
const RETRY_TIMEOUT: Duration = Duration::from_secs(2);

impl Shared {
    /// Acquires a permit for a call, waiting in the queue if all are taken.
    pub(super) async fn enter(&self, caller: CallerId) -> Result<Permit> {
        match self.calls.try_acquire(caller) {
            Some(permit) => Ok(permit),
            None => Box::pin(self.queue(caller)).await,
        }
    }

    async fn queue(&self, caller: CallerId) -> Result<Permit> {
        let mut turn = pin!(self.calls.acquire(caller));
        loop {
            let stalled = self.stalled_for();
            let left = self.longest_silence().saturating_sub(stalled);
            if left.is_zero() {
                return Err(self.stalled(stalled));
            }
            tokio::select! {
                biased;
                permit = &mut turn => return permit.map_err(|refused| self.refused(refused)),
                () = tokio::time::sleep(left) => {}
            }
        }
    }

    /// Returns how long the server may be silent while all permits are taken. Grows with the usual
    /// duration of its calls, so that a slow server does not count as hanging.
    fn longest_silence(&self) -> Duration {
        let usual = self.calls.usual_hold().saturating_mul(2);
        let config = self.config.load();
        config.stall_timeout.max(usual.min(config.call_timeout))
    }

    /// Returns how long all permits have been taken without any data from the server.
    fn stalled_for(&self) -> Duration {
        let full = self.calls.full_for().unwrap_or(Duration::ZERO);
        full.min(self.last_heard.get().elapsed())
    }

    fn stalled(&self, silent: Duration) -> UpstreamError {
        self.note_refusal(
            "queued calls rejected: the server has sent nothing while all permits are in use",
        );
        let running = self.calls.running();
        let seconds = silent.as_secs();
        let words = format!(
            "it has sent nothing for {seconds} s while {running} calls are running, so further \
                calls are rejected (servers.NAME.stall_timeout)"
        );
        UpstreamErrorKind::Stalled.error(words).retry_after(self.config.load().stall_timeout)
    }

    /// Logs one line for all calls rejected within [`QUIET_PERIOD`].
    pub(super) fn note_refusal(&self, what: &str) {
        let mut noted = self.refusal_noted.lock();
        if noted.is_some_and(|last| last.elapsed() < QUIET_PERIOD) {
            return;
        }
        *noted = Some(Instant::now());
        drop(noted);
        let running = self.calls.running();
        let waiting = self.calls.waiting();
        tracing::warn!(server = %self.id, running, waiting, "{what}");
    }

    fn refused(&self, refused: ConcurrencyError) -> UpstreamError {
        self.note_refusal("calls rejected: too many are running and queued");
        let bounds = self.calls.bounds();
        let (kind, words) = match refused {
            ConcurrencyError::Full => {
                let words = format!(
                    "{} calls are running and {} are waiting (servers.NAME.concurrency, \
                        servers.NAME.queue)",
                    bounds.running, bounds.waiting
                );
                (UpstreamErrorKind::Overloaded, words)
            }
            ConcurrencyError::Displaced => {
                let words = "too many calls of this caller or its organisation are queued, and \
                    others are waiting (servers.NAME.queue)";
                (UpstreamErrorKind::Overloaded, words.to_owned())
            }
            ConcurrencyError::PoolFull => (
                UpstreamErrorKind::Busy,
                "too many calls are queued in this gateway (limits.queued_requests)".to_owned(),
            ),
        };
        kind.error(words).retry_after(self.calls.expected_wait())
    }

    pub(super) async fn coming_up(&self) -> Result<Arc<Connection>> {
        self.called.notify_one();
        let failed = self.recovery.failed();
        let status = self.status.load_full();
        // A server that has run before usually starts again.
        let has_run = status.trouble.as_ref().is_some_and(|trouble| trouble.stage == Stage::Run);
        let deadline = if status.state == UpstreamState::Failed && !has_run {
            RETRY_TIMEOUT
        } else {
            ARRIVAL_TIMEOUT
        };
        let deadline = deadline.min(self.config.load().call_timeout);
        let mut deadline = std::pin::pin!(tokio::time::sleep(deadline));
        loop {
            let changed = self.changed.notified();
            if let Some(connection) = self.live.load_full() {
                return Ok(connection);
            }
            match self.status.load().state {
                // Connected states without a connection: it was lost just now.
                UpstreamState::Pending | UpstreamState::Connected | UpstreamState::Unresponsive => {
                }
                UpstreamState::Resting => {
                    self.wake_for_call();
                    continue;
                }
                UpstreamState::Failed
                    if self.recovery.failed() == failed && self.recovery.want() => {}
                _ => return Err(self.unavailable()),
            }
            tokio::select! {
                () = changed => {}
                () = &mut deadline => return Err(self.unavailable()),
            }
        }
    }

    pub(super) fn unavailable(&self) -> UpstreamError {
        let status = self.status.load();
        let words = match (&status.trouble, status.state) {
            (_, UpstreamState::Disabled) => "the server is switched off".to_owned(),
            (Some(trouble), _) => format!("the server is not connected: {trouble}"),
            (None, _) => "the server is still starting".to_owned(),
        };
        let kind = if status.state == UpstreamState::NeedsAuth {
            UpstreamErrorKind::NeedsAuth
        } else {
            UpstreamErrorKind::Unavailable
        };
        kind.error(words).retry_after(Duration::from_secs(1))
    }

    pub(super) fn stats(&self) -> Stats {
        let (breaker, breaker_failure) = self.breaker.state();
        Stats {
            config: self.config.load_full(),
            running: self.calls.running(),
            waiting: self.calls.waiting(),
            silent: self.last_heard.silent_for(),
            breaker,
            breaker_failure,
        }
    }
}
