//! Whose turn it is at one server. Organisations take turns, and so do the callers of one; the
//! queue of a server that gives no sign of life is given up.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockgate_admission::{CallerId, ConcurrencyError, Permit};

use super::Shared;
use crate::failure::{Kind, UpstreamError};

/// How often the log says that calls are turned away, in milliseconds.
const QUIET_MS: u64 = 10_000;

impl Shared {
    /// A place among the calls that run at once, at once or after waiting for it.
    pub(super) async fn enter(&self, caller: CallerId) -> Result<Permit, UpstreamError> {
        match self.calls.try_acquire(caller) {
            Some(permit) => Ok(permit),
            None => Box::pin(self.queue(caller)).await,
        }
    }

    async fn queue(&self, caller: CallerId) -> Result<Permit, UpstreamError> {
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

    /// How long the server may say nothing while all its places are taken: longer where its calls
    /// usually take longer, so that a slow server is not taken for one that hangs.
    fn longest_silence(&self) -> Duration {
        let usual = self.calls.usual_hold().saturating_mul(2);
        let config = self.config.load();
        config.stall_timeout.max(usual.min(config.call_timeout))
    }

    /// How long every place has been taken without a word of the server.
    fn stalled_for(&self) -> Duration {
        let full = self.calls.full_for().unwrap_or(Duration::ZERO);
        full.min(self.last_heard.get().elapsed())
    }

    fn stalled(&self, silent: Duration) -> UpstreamError {
        self.note_refusal(
            "its queue is given up: it has said nothing while all its places are taken",
        );
        let running = self.calls.running();
        let seconds = silent.as_secs();
        let words = format!(
            "it has said nothing for {seconds} s while {running} calls run there, so no more are \
                sent to it \
             (servers.NAME.stall_timeout)"
        );
        UpstreamError::new(Kind::Stalled, words).retry_after(self.config.load().stall_timeout)
    }

    /// One line for all that are turned away within [`QUIET_MS`].
    pub(super) fn note_refusal(&self, what: &str) {
        let now = self.now_ms();
        let last = self.refusal_noted.load(Ordering::Relaxed);
        if last != 0 && now.saturating_sub(last) < QUIET_MS {
            return;
        }
        let first = self.refusal_noted.compare_exchange(
            last,
            now.max(1),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if first.is_ok() {
            let running = self.calls.running();
            let waiting = self.calls.waiting();
            tracing::warn!(server = %self.id, running, waiting, "{what}");
        }
    }

    fn refused(&self, refused: ConcurrencyError) -> UpstreamError {
        self.note_refusal("calls are turned away: too many run and wait");
        let bounds = self.calls.bounds();
        let (kind, words) = match refused {
            ConcurrencyError::Full => {
                let words = format!(
                    "{} calls run and {} wait already (servers.NAME.concurrency, \
                        servers.NAME.queue)",
                    bounds.running, bounds.waiting
                );
                (Kind::Overloaded, words)
            }
            ConcurrencyError::Displaced => {
                let words = "too many calls of this caller or its organisation wait for it, and \
                    others wait as well (servers.NAME.queue)";
                (Kind::Overloaded, words.to_owned())
            }
            ConcurrencyError::PoolFull => (
                Kind::Busy,
                "too many calls wait for servers of this gateway (limits.queued_requests)"
                    .to_owned(),
            ),
        };
        UpstreamError::new(kind, words).retry_after(self.calls.expected_wait())
    }
}
