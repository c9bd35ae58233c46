//! A slot in the pool of a MySQL database, and its session. The server does not detect an abandoned
//! connection before its statement ends, so the session is killed. It keeps the slot until it is
//! gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Timeout of an attempt to end a session.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between two checks of whether a session is gone.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Error codes of both servers for a missing session, or a session of another user.
const NO_SESSION_OF_OURS: [u16; 2] = [1094, 1095];

/// Resources for ending a session.
#[derive(Clone)]
pub(super) struct Ending {
    pub(super) options: Opts,
    /// At most one extra session per pool ends others at a time, beyond the pool's limit.
    pub(super) turn: Arc<Semaphore>,
}

/// Identifies a session at one server. Behind a load balancer, the same id may be another session
/// at another server.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) server: String,
    pub(super) id: u32,
}

/// A slot of the pool. When dropped, it is released at once, or after its session is gone.
pub(super) struct MysqlSlot {
    permit: Option<OwnedSemaphorePermit>,
    ending: Ending,
    /// The session in use, and the deadline of its statement.
    busy: Option<(Name, Instant)>,
}

impl MysqlSlot {
    pub(super) fn new(permit: OwnedSemaphorePermit, ending: Ending) -> Self {
        Self { permit: Some(permit), ending, busy: None }
    }

    /// Marks a session as in use, by a statement that ends within `most`.
    pub(super) fn enter(&mut self, name: Name, most: Duration) {
        self.busy = Some((name, Instant::now() + most));
    }

    /// Marks the session as no longer in use.
    pub(super) fn leave(&mut self) {
        self.busy = None;
    }
}

impl Drop for MysqlSlot {
    fn drop(&mut self) {
        if let Some((name, deadline)) = self.busy.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let permit = self.permit.take();
            let ending = self.ending.clone();
            runtime.spawn(async move {
                end(&ending, &name, deadline).await;
                drop(permit);
            });
        }
    }
}

/// Ends a session. Returns once it is gone, at the latest after its statement's timeout.
async fn end(ending: &Ending, name: &Name, deadline: Instant) {
    let Ok(Ok(turn)) = tokio::time::timeout_at(deadline.into(), ending.turn.acquire()).await else {
        return;
    };
    let ended = tokio::time::timeout(END_TIMEOUT, kill(&ending.options, name)).await;
    drop(turn);
    if !matches!(ended, Ok(Ok(true))) {
        tracing::warn!(
            session = name.id,
            "an abandoned statement could not be ended and runs until its timeout"
        );
        tokio::time::sleep_until(deadline.into()).await;
    }
}

/// Kills a session from another connection. Returns whether it is gone.
async fn kill(options: &Opts, name: &Name) -> Result<bool, Error> {
    let mut conn = Conn::new(options.clone()).await?;
    if server(&mut conn).await?.1 != name.server {
        return Ok(false);
    }
    // A killed session remains listed until it has ended.
    while is_there(conn.query_drop(format!("KILL {}", name.id)).await)? {
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    conn.disconnect().await?;
    Ok(true)
}

/// Returns whether a session may still exist.
fn is_there(kill: Result<(), Error>) -> Result<bool, Error> {
    match kill {
        Ok(()) => Ok(true),
        Err(Error::Server(error)) if NO_SESSION_OF_OURS.contains(&error.code) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the version of a server and its identity.
pub(super) async fn server(conn: &mut Conn) -> Result<(String, String), Error> {
    let found = conn.query_first("SELECT version(), concat(@@hostname, ':', @@port)").await?;
    Ok(found.unwrap_or((String::new(), String::new())))
}
