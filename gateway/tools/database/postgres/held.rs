//! A session while a statement runs in it, and what becomes of one that nobody waits for any more.

use std::sync::Arc;
use std::time::Duration;

use lockgate_egress::Connector;
use tokio::sync::OwnedSemaphorePermit;

use super::wire::Session;
use crate::database::config::Network;

/// Between two attempts to cancel a statement: one that comes between two steps of it has no
/// effect.
const AGAIN: Duration = Duration::from_millis(250);

/// A place in the pool and the session that has it. A session that is still there at the end,
/// because nobody waits any more or it is of no use, keeps its place until the server has ended it:
/// it goes on with a statement whoever is gone.
pub(super) struct Held<'a> {
    pub(super) connector: &'a Arc<Connector>,
    pub(super) network: &'a Network,
    pub(super) session: Option<Session>,
    pub(super) place: Option<OwnedSemaphorePermit>,
    /// The statement's own timeout has ended it by then.
    pub(super) timeout: Duration,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(mut session) = self.session.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let connector = Arc::clone(self.connector);
            let network = self.network.clone();
            let place = self.place.take();
            let timeout = self.timeout;
            runtime.spawn(async move {
                let ended = async {
                    loop {
                        session.handle.cancel(&connector, &network).await;
                        if tokio::time::timeout(AGAIN, session.end()).await.is_ok() {
                            break;
                        }
                    }
                };
                if tokio::time::timeout(timeout, ended).await.is_err() {
                    tracing::warn!(database = %network.database, "a statement that nobody waits \
                        for cannot be stopped");
                }
                drop(place);
            });
        }
    }
}
