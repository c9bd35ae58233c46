//! Whether what a built-in server stands on, such as a database, is there: its state says so, and
//! comes back by itself. Its tools stay listed, and say the same to whoever calls them.

use std::sync::{Arc, Weak};
use std::time::SystemTime;

use lockgate_upstream::{Event, ServerId, Stage, StageError, State, Status};
use tokio::sync::watch;

use super::Server;

/// Whether what a server stands on is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// It has not answered yet.
    Unknown,
    There,
    /// Why it is not, in words.
    Away(String),
}

impl Server {
    /// Shows it from now on, for as long as the server is there.
    pub(super) fn follow_backing(self: &Arc<Self>, backing: watch::Receiver<Backing>) {
        let now = backing.borrow().clone();
        self.show_backing(&now);
        tokio::spawn(follow(Arc::downgrade(self), backing));
    }

    /// Shows in its state whether what it stands on is there.
    fn show_backing(&self, backing: &Backing) {
        let (state, words) = match backing {
            Backing::Unknown => (State::Pending, None),
            Backing::There => (State::Connected, None),
            Backing::Away(words) => (State::Failed, Some(words)),
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
                if old.state == State::Connected {
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
