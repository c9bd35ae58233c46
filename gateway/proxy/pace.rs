//! How many messages of one kind a client receives: a burst at once, then a few each second.

use std::time::{Duration, Instant};

use lockgate_upstream::LogLevel;
use parking_lot::Mutex;

/// Counts messages against an interval and a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    interval: Duration,
    /// How far messages may be ahead of one for each interval.
    most_ahead: Duration,
    /// When all messages that were sent would have been sent, one for each interval.
    sent_until: Option<Instant>,
}

impl Pace {
    pub(crate) const fn new(interval: Duration, burst: u32) -> Self {
        Self { interval, most_ahead: interval.saturating_mul(burst - 1), sent_until: None }
    }

    /// Counts one message.
    ///
    /// # Errors
    /// How long it has to wait.
    pub(crate) fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        let until = self.sent_until.map_or(now, |until| until.max(now));
        let ahead = until.duration_since(now);
        if ahead > self.most_ahead {
            return Err(ahead - self.most_ahead);
        }
        self.sent_until = Some(until + self.interval);
        Ok(())
    }
}

/// Time between log messages of one call or session, once there are many, and how many go at once.
const LOG_INTERVAL: Duration = Duration::from_millis(20);
const LOG_BURST: u32 = 100;

/// The log messages of one call or session. Warnings and worse count apart, so that others do not
/// hide them.
pub(crate) struct LogPace(Mutex<[Pace; 2]>);

impl Default for LogPace {
    fn default() -> Self {
        Self(Mutex::new([Pace::new(LOG_INTERVAL, LOG_BURST); 2]))
    }
}

impl LogPace {
    /// Whether one more message of this severity is sent now; otherwise it is dropped.
    pub(crate) fn admits(&self, severity: LogLevel, now: Instant) -> bool {
        let [minor, major] = &mut *self.0.lock();
        let pace = if severity < LogLevel::Warning { minor } else { major };
        pace.admit(now).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_log_messages_a_few_pass_each_second_and_warnings_among_them() {
        let pace = LogPace::default();
        let began = Instant::now();
        let mut passed = 0;
        // 30,000 in five seconds.
        for n in 0..30_000_u32 {
            let now = began + Duration::from_secs(5) * n / 30_000;
            passed += u32::from(pace.admits(LogLevel::Info, now));
        }
        assert!((340..=360).contains(&passed), "{passed}");
        assert!(pace.admits(LogLevel::Error, began + Duration::from_secs(5)));
    }
}
