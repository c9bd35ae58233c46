//! How severe log messages have to be for a session's client.

use std::sync::atomic::Ordering;

use lockgate_upstream::LogLevel;

use super::Session;

impl Session {
    pub(crate) fn level(&self) -> Option<LogLevel> {
        LogLevel::ALL.get(usize::from(self.level.load(Ordering::Relaxed)).checked_sub(1)?).copied()
    }

    /// The least severe messages that its client gets: as long as it has named none, whatever the
    /// server says to it, as it would directly.
    pub(crate) fn wanted_level(&self) -> LogLevel {
        self.level().unwrap_or(LogLevel::Debug)
    }

    pub(crate) fn set_level(&self, level: LogLevel) {
        self.level.store(level as u8 + 1, Ordering::Relaxed);
    }
}
