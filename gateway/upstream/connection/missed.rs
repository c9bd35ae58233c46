//! What may have changed at a server while nobody heard of it, because the stream or the connection
//! on which it tells of changes was down.

use super::Connection;

impl Connection {
    /// The only session whose calls it carries, by its key.
    pub(crate) fn session_key(&self) -> Option<u64> {
        self.receiver.behind.session_key()
    }

    /// Its lists and what was subscribed to on it may be others now.
    pub(crate) fn tell_missed(&self) {
        self.receiver.stale.notify_one();
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
