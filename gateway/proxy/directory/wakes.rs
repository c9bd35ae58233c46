//! Work requested for a source, independent of events from its servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The origin of servers: an organisation, or `None` for the operator's configuration.
pub(crate) type Source = Option<Arc<str>>;

/// Work on a source, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WantedWork {
    /// Clients are notified if their lists have changed.
    Tell,
    /// The source is merged, which includes `Tell`.
    Merge,
}

#[derive(Default)]
pub(crate) struct Wakes {
    sources: Mutex<BTreeMap<Source, WantedWork>>,
    notify: Notify,
}

impl Wakes {
    pub(super) fn add(&self, source: Source, wanted: WantedWork) {
        let mut sources = self.sources.lock();
        let known = sources.entry(source).or_insert(wanted);
        *known = wanted.max(*known);
        drop(sources);
        self.notify.notify_one();
    }

    /// Waits for requested work. Cancel safe.
    pub(crate) async fn wait(&self) {
        self.notify.notified().await;
    }

    pub(crate) fn take(&self) -> BTreeMap<Source, WantedWork> {
        std::mem::take(&mut *self.sources.lock())
    }
}
