//! Counts of tool calls per server of an organisation and per day (UTC), until they are taken for
//! storage. The size is bounded by the number of servers times the days since the last take.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use lockgate_upstream::ServerId;
use parking_lot::Mutex;

const SECONDS_PER_DAY: u64 = 86_400;

/// Calls of a server on one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCount {
    pub calls: u64,
    pub failed: u64,
}

/// Counts by server and by days since 1970.
pub type CallsByDay = HashMap<(ServerId, u64), CallCount>;

#[derive(Default)]
pub(crate) struct DailyCalls(Mutex<CallsByDay>);

impl DailyCalls {
    pub(crate) fn count(&self, server: ServerId, has_failed: bool) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut all = self.0.lock();
        let count = all.entry((server, now.as_secs() / SECONDS_PER_DAY)).or_default();
        count.calls += 1;
        count.failed += u64::from(has_failed);
    }

    pub(crate) fn take(&self) -> CallsByDay {
        std::mem::take(&mut *self.0.lock())
    }

    /// Merges counts that could not be stored back in.
    pub(crate) fn put_back(&self, counts: CallsByDay) {
        let mut all = self.0.lock();
        for (key, CallCount { calls, failed }) in counts {
            let count = all.entry(key).or_default();
            count.calls += calls;
            count.failed += failed;
        }
    }
}
