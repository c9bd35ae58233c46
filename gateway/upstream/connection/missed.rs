//! Changes that may have been missed while the stream or connection that announces them was down.

use super::Connection;
use crate::own_lists::OwnState;

impl Connection {
    /// Returns the key of the session that the connection belongs to, if any.
    pub(crate) fn session_key(&self) -> Option<u64> {
        self.receiver.behind.session_key()
    }

    pub(crate) fn own_lists(&self) -> &OwnState {
        &self.receiver.own_lists
    }

    /// Notes with the client session that it may have its own lists.
    pub(crate) fn note_own_lists(&self) {
        self.receiver.note_own_lists();
    }

    /// Treats its lists and subscribed resources as changed.
    pub(crate) fn tell_missed(&self) {
        self.receiver.stale.notify_one();
        self.receiver.own_lists.read_again();
        self.tell_updated();
    }

    pub(crate) fn tell_updated(&self) {
        let uris = self.subscribed.lock().clone();
        for uri in uris {
            self.receiver.tell_updated(uri);
        }
    }
}
