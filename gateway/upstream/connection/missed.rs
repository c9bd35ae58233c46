//! What may have changed at a server while nobody heard of it, because the stream or the connection
//! on which it tells of changes was down.

use super::Connection;
use crate::own_lists::OwnState;

impl Connection {
    /// The only session whose calls it carries, by its key.
    pub(crate) fn session_key(&self) -> Option<u64> {
        self.receiver.behind.session_key()
    }

    /// What is known of its lists, where it belongs to one client.
    pub(crate) fn own_lists(&self) -> &OwnState {
        &self.receiver.own_lists
    }

    /// Has its client look for lists of its own.
    pub(crate) fn note_own_lists(&self) {
        self.receiver.note_own_lists();
    }

    /// Its lists and what was subscribed to on it may be others now.
    pub(crate) fn tell_missed(&self) {
        self.receiver.stale.notify_one();
        self.receiver.own_lists.read_again();
        self.tell_updated();
    }

    /// What was subscribed to on it may be another now.
    pub(crate) fn tell_updated(&self) {
        let uris = self.subscribed.lock().clone();
        for uri in uris {
            self.receiver.tell_updated(uri);
        }
    }
}
