//! The sources that something is wanted of whatever their servers say.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Where servers are from: an organisation, or none, which is the operator's configuration.
pub(crate) type Source = Option<Arc<str>>;

/// What is wanted of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wanted {
    /// Its clients look whether their lists are others.
    Tell,
    /// It is merged, which is more.
    Merge,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Wakes {
    sources: Mutex<BTreeMap<Source, Wanted>>,
    notify: Notify,
}

impl Wakes {
    pub(super) fn add(&self, source: Source, wanted: Wanted) {
        let mut sources = self.sources.lock();
        let known = sources.entry(source).or_insert(wanted);
        *known = wanted.max(*known);
        drop(sources);
        self.notify.notify_one();
    }

    /// Waits for some. Cancel safe.
    pub(crate) async fn wait(&self) {
        self.notify.notified().await;
    }

    pub(crate) fn take(&self) -> BTreeMap<Source, Wanted> {
        std::mem::take(&mut *self.sources.lock())
    }
}
