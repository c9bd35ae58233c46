//! The minimum level of log messages for a session's client.

use std::sync::atomic::Ordering;

use lockgate_upstream::LogLevel;

use super::Session;

impl Session {
    pub(crate) fn level(&self) -> Option<LogLevel> {
        LogLevel::ALL.get(usize::from(self.level.load(Ordering::Relaxed)).checked_sub(1)?).copied()
    }

    /// Returns the minimum level sent to the client. Until the client sets a level, every message
    /// of the server is sent, as on a direct connection.
    pub(crate) fn wanted_level(&self) -> LogLevel {
        self.level().unwrap_or(LogLevel::Debug)
    }

    pub(crate) fn set_level(&self, level: LogLevel) {
        self.level.store(level as u8 + 1, Ordering::Relaxed);
    }
}
