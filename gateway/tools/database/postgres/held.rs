//! A session while it runs a statement, and its cleanup when the caller has gone.

use std::sync::Arc;
use std::time::Duration;

use lockgate_egress::Connector;
use lockgate_postgres::Session;
use tokio::sync::OwnedSemaphorePermit;

use super::dial;
use crate::database::config::Network;

/// Interval between two attempts to cancel a statement. A request that arrives between two steps of
/// the statement has no effect.
const CANCEL_INTERVAL: Duration = Duration::from_millis(250);

/// A slot of the pool and its session. A session that is still held when dropped, because its
/// caller is gone or the session is unusable, keeps the slot until the server has ended it: the
/// server continues a statement after its client is gone.
pub(super) struct PostgresSlot<'a> {
    pub(super) connector: &'a Arc<Connector>,
    pub(super) network: &'a Network,
    pub(super) session: Option<Session>,
    pub(super) place: Option<OwnedSemaphorePermit>,
    /// The statement's own timeout has ended it by then.
    pub(super) timeout: Duration,
}

impl Drop for PostgresSlot<'_> {
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
                        dial::cancel(&session.handle, &connector, &network).await;
                        if tokio::time::timeout(CANCEL_INTERVAL, session.end()).await.is_ok() {
                            break;
                        }
                    }
                };
                if tokio::time::timeout(timeout, ended).await.is_err() {
                    tracing::warn!(database = %network.database, "an abandoned statement cannot \
                        be stopped");
                }
                drop(place);
            });
        }
    }
}
