//! Waits for changes by other gateways: PostgreSQL's notifications, and a poll for lost
//! notifications. Reading the changes is the caller's part.

use std::time::Duration;

use tokio::task::JoinHandle;

use crate::database::Store;
use crate::error::StoreError;
use crate::postgres::PostgresConnection;

/// Timeout for connecting and subscribing.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// A waiter for changes by other gateways.
pub struct Follower<'a> {
    store: &'a Store,
    listener: Option<PostgresConnection>,
    /// A task, so that it continues when `wait` is cancelled.
    connecting: Option<JoinHandle<Option<PostgresConnection>>>,
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        if let Some(connecting) = &self.connecting {
            connecting.abort();
        }
    }
}

impl Store {
    pub fn follow(&self) -> Follower<'_> {
        Follower { store: self, listener: None, connecting: None }
    }
}

impl Follower<'_> {
    /// Waits for a change, or for about `poll`, because a notification may be lost.
    pub async fn wait(&mut self, poll: Duration) {
        if tokio::time::timeout(poll, self.hear()).await == Ok(false) {
            self.listener = None;
            tokio::time::sleep(poll).await;
        }
    }

    /// Waits for a notification. Returns `false` without a working subscription. Must be cheap to
    /// cancel; the poll finds a change if its notification is lost.
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
        listener.wait_for_notification().await.is_ok()
    }
}

async fn listen(url: String) -> Option<PostgresConnection> {
    let listening = async {
        let mut listener = PostgresConnection::open(&url).await?;
        listener.run("LISTEN lockgate").await?;
        Ok::<_, StoreError>(listener)
    };
    tokio::time::timeout(CONNECT_TIMEOUT, listening).await.ok()?.ok()
}
