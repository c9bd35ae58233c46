//! Calls of the tools of organisations' servers, by day (UTC), until they are taken to be kept. It
//! holds no more than there are servers, times the days since the last time.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use lockgate_upstream::ServerId;
use parking_lot::Mutex;

const SECONDS: u64 = 86_400;

/// Calls of one server on one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCount {
    pub calls: u64,
    pub failed: u64,
}

/// By server, and by the number of the day since 1970.
pub type CallsByDay = HashMap<(ServerId, u64), CallCount>;

/// See the module.
#[derive(Default)]
pub(crate) struct DailyCalls(Mutex<CallsByDay>);

impl DailyCalls {
    /// Counts a call that has ended now.
    pub(crate) fn count(&self, server: ServerId, has_failed: bool) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut all = self.0.lock();
        let count = all.entry((server, now.as_secs() / SECONDS)).or_default();
        count.calls += 1;
        count.failed += u64::from(has_failed);
    }

    pub(crate) fn take(&self) -> CallsByDay {
        std::mem::take(&mut *self.0.lock())
    }

    /// Adds counts that could not be kept to those that have come since.
    pub(crate) fn put_back(&self, counts: CallsByDay) {
        let mut all = self.0.lock();
        for (key, CallCount { calls, failed }) in counts {
            let count = all.entry(key).or_default();
            count.calls += calls;
            count.failed += failed;
        }
    }
}
