//! The part that the pools of PostgreSQL and MySQL have in common: slots for sessions, timeouts,
//! and the reason of the last failure to connect.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::answer::{Answer, Ask, unreachable};
use super::config::{Network, Settings};
use crate::blocking::acquire_within;
use crate::tool::ToolError;

/// How long a caller waits for a session, and a session for its connection.
pub(super) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// Additional time for a cancelled statement to end.
const CANCEL_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// A database server, with a limited number of sessions.
pub(super) struct Remote {
    pub(super) network: Arc<Network>,
    places: Arc<Semaphore>,
    /// Why the last connection attempt failed.
    refusal: Mutex<Option<String>>,
}

impl Remote {
    pub(super) fn new(network: Network, limits: &Settings) -> Self {
        let places = Arc::new(Semaphore::new(limits.pool));
        Self { network: Arc::new(network), places, refusal: Mutex::default() }
    }

    pub(super) async fn acquire<S: Abandoned>(&self) -> Result<Slot<S>, ToolError> {
        let permit = acquire_within(&self.places, ACQUIRE_TIMEOUT).await;
        if permit.is_none() {
            let words = "all connections to this database are busy: try again in a moment";
            return Err(ToolError::new(words));
        }
        Ok(Slot { permit, busy: None })
    }

    /// Checks that the database responds. Returns the failure, for its operator. A database with
    /// all connections in use counts as responding.
    pub(super) async fn find_trouble(
        &self,
        answer: impl Future<Output = Result<Answer, ToolError>>,
    ) -> Option<String> {
        if self.places.available_permits() == 0 {
            return None;
        }
        let ToolError(words) = answer.await.err()?;
        Some(self.refusal.lock().take().unwrap_or(words))
    }

    /// Logs and stores why a connection attempt failed, and returns the caller's error.
    pub(super) fn report_unreachable(&self, words: &str) -> ToolError {
        let error = self.network.without_password(words);
        tracing::warn!(database = %self.network.database, error, "no connection");
        *self.refusal.lock() = Some(error);
        unreachable(words)
    }

    /// Logs privileges that the role may not have, and returns the caller's error.
    pub(super) fn report_role(&self, found: &str) -> ToolError {
        let role = &self.network.user;
        tracing::error!(%role, %found, "the role may do more than read tables");
        ToolError::new(
            "the gateway does not use this database, because its role may do more than read tables",
        )
    }

    /// Logs the loss of a session, and returns the caller's error.
    pub(super) fn report_lost(&self, error: &str) -> ToolError {
        tracing::warn!(database = %self.network.database, error, "a connection was lost");
        lost()
    }
}

/// A session whose caller is gone, while the server continues its statement.
pub(super) trait Abandoned: Send + 'static {
    /// Ends the session. Returns once it is gone, at the latest after its statement's timeout.
    fn end(self) -> impl Future<Output = ()> + Send;
}

/// A slot of the pool. A session that is still in it when dropped, because its caller is gone or it
/// is unusable, keeps the slot until the server has ended it.
pub(super) struct Slot<S: Abandoned> {
    permit: Option<OwnedSemaphorePermit>,
    pub(super) busy: Option<S>,
}

impl<S: Abandoned> Drop for Slot<S> {
    fn drop(&mut self) {
        if let Some(session) = self.busy.take()
            && let Ok(runtime) = Handle::try_current()
        {
            let permit = self.permit.take();
            runtime.spawn(async move {
                session.end().await;
                drop(permit);
            });
        }
    }
}

pub(super) fn lost() -> ToolError {
    ToolError::new("the connection to the database was lost: try again")
}

/// Returns the time after which a statement has ended, by its own timeout or by cancellation.
pub(super) fn end_timeout(ask: &Ask) -> Duration {
    ask.timeout + CANCEL_GRACE_PERIOD
}

/// Runs a statement within its [`end_timeout`].
pub(super) async fn within(
    ask: &Ask,
    run: impl Future<Output = Result<Answer, ToolError>>,
) -> Result<Answer, ToolError> {
    tokio::time::timeout(end_timeout(ask), run).await.unwrap_or_else(|_| Err(ask.late()))
}
