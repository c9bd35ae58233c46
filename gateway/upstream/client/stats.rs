//! The use of a server's limits (permits, queue, times, breaker), and its error while unavailable.

use std::time::{Duration, Instant};

use super::Shared;
use crate::failure::{UpstreamError, UpstreamErrorKind};
use crate::status::{Stats, UpstreamState};

impl Shared {
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
        UpstreamError::new(kind, words).retry_after(Duration::from_secs(1))
    }

    pub(super) fn stats(&self) -> Stats {
        let config = self.config.load();
        let limits = &config.limits;
        Stats {
            start_timeout: config.start_timeout,
            call_timeout: config.call_timeout,
            tool_timeouts: config
                .tool_timeouts
                .iter()
                .map(|(tool, time)| (tool.clone(), *time))
                .collect(),
            running: self.calls.running(),
            concurrency: limits.concurrency,
            waiting: self.calls.waiting(),
            queue: limits.queue,
            silent: self.last_heard.get().elapsed(),
            breaker: self.breaker.state(Instant::now()),
        }
    }
}
