//! Hears of changes that other gateways made: PostgreSQL's notifications, and a poll for those that
//! are lost. It says when to look and reads nothing.

use std::time::Duration;

use sqlx::postgres::PgListener;
use tokio::task::JoinHandle;

use crate::database::Store;

/// How long it may take until somebody listens.
const CONNECT: Duration = Duration::from_secs(30);

/// Waits for changes by others.
pub struct Follower<'a> {
    store: &'a Store,
    listener: Option<PgListener>,
    /// Goes on while its waiter looks elsewhere.
    connecting: Option<JoinHandle<Option<PgListener>>>,
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        if let Some(connecting) = &self.connecting {
            connecting.abort();
        }
    }
}

impl Store {
    /// Somebody who waits for changes by others.
    #[must_use]
    pub fn follow(&self) -> Follower<'_> {
        Follower { store: self, listener: None, connecting: None }
    }
}

impl Follower<'_> {
    /// Returns when somebody has changed something, and after `poll` at the latest, because a
    /// notification may be lost.
    pub async fn wait(&mut self, poll: Duration) {
        if tokio::time::timeout(poll, self.hear()).await == Ok(false) {
            self.listener = None;
            tokio::time::sleep(poll).await;
        }
    }

    /// Whether something was heard; false where nobody can be listened to. Must be cheap to cancel:
    /// what is lost then is found by the poll.
    async fn hear(&mut self) -> bool {
        if self.listener.is_none() {
            let Some(url) = self.store.postgres() else { return false };
            let connecting = match &mut self.connecting {
                Some(connecting) => connecting,
                None => self.connecting.insert(tokio::spawn(listen(url.to_owned()))),
            };
            let connected = connecting.await;
            self.connecting = None;
            let Ok(Some(listener)) = connected else { return false };
            self.listener = Some(listener);
        }
        let Some(listener) = &mut self.listener else { return false };
        matches!(listener.try_recv().await, Ok(Some(_)))
    }
}

async fn listen(url: String) -> Option<PgListener> {
    let listening = async {
        let mut listener = PgListener::connect(&url).await?;
        listener.listen("lockgate").await?;
        Ok::<_, sqlx::Error>(listener)
    };
    tokio::time::timeout(CONNECT, listening).await.ok()?.ok()
}
