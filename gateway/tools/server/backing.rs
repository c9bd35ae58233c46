//! Availability of a built-in server's backend, such as a database. It determines the server's
//! state, and recovers by itself. The tools stay listed, and return the cause to their callers.

use std::sync::{Arc, Weak};
use std::time::SystemTime;

use lockgate_upstream::{Event, ServerId, Stage, StageError, Status, UpstreamState};
use tokio::sync::watch;

use super::Server;

/// Availability of a server's backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// No response yet.
    Unknown,
    There,
    /// Unavailable, with the cause.
    Away(String),
}

impl Server {
    /// Updates the server's state from now on, for as long as the server exists.
    pub(super) fn follow_backing(self: &Arc<Self>, backing: watch::Receiver<Backing>) {
        let now = backing.borrow().clone();
        self.show_backing(&now);
        tokio::spawn(follow(Arc::downgrade(self), backing));
    }

    fn show_backing(&self, backing: &Backing) {
        let (state, words) = match backing {
            Backing::Unknown => (UpstreamState::Pending, None),
            Backing::There => (UpstreamState::Connected, None),
            Backing::Away(words) => (UpstreamState::Failed, Some(words)),
        };
        self.status.rcu(|old| {
            let mut new = Status::clone(old);
            new.trouble = words.map(|words| StageError {
                stage: Stage::Run,
                words: words.clone(),
                stderr: Vec::new(),
            });
            if new.state != state {
                (new.state, new.since) = (state, SystemTime::now());
                if old.state == UpstreamState::Connected {
                    new.last_good = Some(new.since);
                }
            }
            new
        });
        self.send_event(Event::Changed { server: ServerId::shared(self.slug) });
    }
}

async fn follow(server: Weak<Server>, mut backing: watch::Receiver<Backing>) {
    while backing.changed().await.is_ok() {
        let now = backing.borrow_and_update().clone();
        let Some(server) = server.upgrade() else { return };
        server.show_backing(&now);
    }
}
