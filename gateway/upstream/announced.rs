//! Lists that a server said have changed, until they have been read again. Clients are told of it
//! then, also when a list reads as before: a list may be another one to a single session.

use std::collections::BTreeMap;

use lockgate_protocol::method::Method;
use parking_lot::Mutex;

/// What was said since the lists were last read: on the connection that all clients share, or on
/// those of single sessions.
#[derive(Default)]
pub(crate) struct Announced(Mutex<BTreeMap<Option<u64>, [bool; 3]>>);

impl Announced {
    pub(crate) fn add(&self, session: Option<u64>, method: Method) {
        let mut all = self.0.lock();
        let lists = all.entry(session).or_default();
        let at = match method {
            Method::ToolsChanged => 0,
            Method::PromptsChanged => 1,
            _ => 2,
        };
        lists[at] = true;
    }

    pub(crate) fn take(&self) -> BTreeMap<Option<u64>, [bool; 3]> {
        std::mem::take(&mut *self.0.lock())
    }
}
