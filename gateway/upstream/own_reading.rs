//! Reads the lists of a connection that belongs to a client whenever the server announces a
//! change on it, and notifies the client of differences.

use std::time::Instant;

use lockgate_protocol::revision::Era;

use crate::catalog::ListKind;
use crate::connection::Connection;
use crate::lists;
use crate::own_lists::OwnLists;
use crate::refresh::Rereading;
use crate::shared::Shared;
use crate::{Announcement, Event};

impl Shared {
    /// Reads the lists of a client's connection on every announced change, for as long as it is
    /// polled.
    pub(crate) async fn follow_own_lists(&self, connection: &Connection, asked: Option<Era>) {
        let state = connection.own_lists();
        let mut rereading = Rereading::new();
        loop {
            state.wait_until_stale().await;
            rereading.announce_own(Instant::now());
            rereading.wait().await;
            let began = Instant::now();
            let (announced, until) = state.begin_reading();
            self.read_own_lists(connection, asked).await;
            state.set_read(until);
            rereading.read(began, Instant::now());
            self.announce_own(connection, announced);
        }
    }

    /// Reads the lists once. If that fails, the old lists stay.
    async fn read_own_lists(&self, connection: &Connection, asked: Option<Era>) {
        let config = self.config.load_full();
        let reading = lists::read(connection, &config.limits, b"{}", self.hold_lists());
        let own = match tokio::time::timeout(config.start_timeout, reading).await {
            Ok(Ok(own)) => own,
            Ok(Err(failure)) => {
                tracing::debug!(server = %self.id, %failure, "the lists of a client's own \
                    connection could not be read");
                return;
            }
            Err(_) => return,
        };
        let lists = OwnLists::compare(&own, &self.catalog.load(), asked);
        let state = connection.own_lists();
        if lists.is_empty() {
            state.replace(None);
            return;
        }
        match lists.with_memory(self.hold_lists().count_all()) {
            Ok(lists) => {
                state.replace(Some(lists));
                connection.note_own_lists();
            }
            Err(_) => {
                tracing::warn!(server = %self.id, "not enough memory for the lists of a client's \
                    own connection");
                state.replace(None);
            }
        }
    }

    /// Drops the lists of a connection that has ended: its client gets the shared lists again.
    pub(crate) fn end_own_lists(&self, connection: &Connection) {
        let state = connection.own_lists();
        let last = state.replace(None);
        state.set_read(u64::MAX);
        if let Some(last) = last {
            self.announce_own(connection, last.kinds());
        }
    }

    fn announce_own(&self, connection: &Connection, lists: Vec<ListKind>) {
        let session = connection.session_key();
        let announcement = Announcement { server: self.id.clone(), session, lists };
        let _ = self.events().send(Event::Announced(announcement));
    }
}
