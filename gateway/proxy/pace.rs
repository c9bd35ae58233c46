//! Rate limits for messages to a client, an initial burst, then a fixed rate, and log messages of
//! servers in the form sent to clients.

use std::time::{Duration, Instant};

use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::write::{self, Object};
use lockgate_upstream::LogLevel;
use parking_lot::Mutex;

/// A rate limit of one message per interval, with bursts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    interval: Duration,
    /// Maximum lead over the fixed rate.
    most_ahead: Duration,
    /// The instant at which the fixed rate catches up with the messages sent so far.
    sent_until: Option<Instant>,
}

impl Pace {
    pub(crate) const fn new(interval: Duration, burst: u32) -> Self {
        Self { interval, most_ahead: interval.saturating_mul(burst - 1), sent_until: None }
    }

    /// Counts a message.
    ///
    /// # Errors
    /// The time until the message would be admitted.
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

/// Interval between log messages of a call or session once its burst is used up.
const LOG_INTERVAL: Duration = Duration::from_millis(20);
const LOG_BURST: u32 = 100;

/// The rate limit for the log messages of a call or session. Warnings and above have a separate
/// limit, so that a flood of minor messages cannot suppress them.
pub struct LogPace(Mutex<[Pace; 2]>);

impl Default for LogPace {
    fn default() -> Self {
        Self(Mutex::new([Pace::new(LOG_INTERVAL, LOG_BURST); 2]))
    }
}

impl LogPace {
    /// Returns whether a message of this severity may be sent now; otherwise it is dropped.
    pub(crate) fn admits(&self, severity: LogLevel, now: Instant) -> bool {
        let [minor, major] = &mut *self.0.lock();
        let pace = if severity < LogLevel::Warning { minor } else { major };
        pace.admit(now).is_ok()
    }
}

/// Writes a log message for a client with this minimum level; the logger names the server. Returns
/// `None` if the message is below the level or over the rate limit.
pub fn write_log_message(
    slug: &str,
    note: &Request,
    level: LogLevel,
    pace: &LogPace,
) -> Option<Vec<u8>> {
    let severity = LogLevel::parse(&note.param_str(Key::Level)?)?;
    if severity < level || !pace.admits(severity, Instant::now()) {
        return None;
    }
    let mut params = Vec::with_capacity(note.text.len() + slug.len());
    let mut object = Object::open(&mut params);
    object.string("level", severity.as_str());
    match note.param_str(Key::Logger) {
        Some(logger) => object.string("logger", &format!("{slug}/{logger}")),
        None => object.string("logger", slug),
    }
    if let Some(data) = note.param(Key::Data) {
        object.raw("data", data);
    }
    object.close();
    Some(write::notification(Method::Message.as_str(), &params))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_log_messages_a_few_pass_each_second_and_warnings_among_them() {
        let pace = LogPace::default();
        let began = Instant::now();
        let mut passed = 0;
        // 30,000 messages in five seconds.
        for n in 0..30_000_u32 {
            let now = began + Duration::from_secs(5) * n / 30_000;
            passed += u32::from(pace.admits(LogLevel::Info, now));
        }
        assert!((340..=360).contains(&passed), "{passed}");
        assert!(pace.admits(LogLevel::Error, began + Duration::from_secs(5)));
    }
}
