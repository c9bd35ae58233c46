//! A place in the pool of a MySQL database, and the session in it. A session that was given up is
//! ended at the server, which would not notice by itself before its statement is through, and keeps
//! its place until it has gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long each try to end a session may take.
const TRY: Duration = Duration::from_secs(5);
/// Between two looks at whether a session has gone.
const LOOK: Duration = Duration::from_millis(50);

/// How both servers say that no session has a number, or one of somebody else.
const NO_SESSION_OF_OURS: [u16; 2] = [1094, 1095];

/// What a place needs to end its session.
#[derive(Clone)]
pub(super) struct Ending {
    pub(super) options: Opts,
    /// One session of a pool at most ends others, beside those that it has places for.
    pub(super) turn: Arc<Semaphore>,
}

/// A session at one server. Behind a balancer, its number may mean another session at another
/// server.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) server: String,
    pub(super) id: u32,
}

/// See the module. Dropping it gives the place back: at once, or when its session has gone.
pub(super) struct Place {
    permit: Option<OwnedSemaphorePermit>,
    ending: Ending,
    /// The session that is in use, and when its statement ends whatever happens.
    busy: Option<(Name, Instant)>,
}

impl Place {
    pub(super) fn new(permit: OwnedSemaphorePermit, ending: Ending) -> Self {
        Self { permit: Some(permit), ending, busy: None }
    }

    /// From here on a session is in use, by a statement that has a deadline of its own.
    pub(super) fn enter(&mut self, name: Name, most: Duration) {
        self.busy = Some((name, Instant::now() + most));
    }

    /// Nothing runs any more.
    pub(super) fn leave(&mut self) {
        self.busy = None;
    }
}

impl Drop for Place {
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

/// Comes back when the session has gone, at the latest when its statement has ended by its own
/// timeout.
async fn end(ending: &Ending, name: &Name, deadline: Instant) {
    let Ok(Ok(turn)) = tokio::time::timeout_at(deadline.into(), ending.turn.acquire()).await else {
        return;
    };
    let ended = tokio::time::timeout(TRY, kill(&ending.options, name)).await;
    drop(turn);
    if !matches!(ended, Ok(Ok(true))) {
        tracing::warn!(
            session = name.id,
            "an abandoned statement could not be ended and runs until its timeout"
        );
        tokio::time::sleep_until(deadline.into()).await;
    }
}

/// Ends the session from another one; whether it has gone.
async fn kill(options: &Opts, name: &Name) -> Result<bool, Error> {
    let mut conn = Conn::new(options.clone()).await?;
    if server(&mut conn).await?.1 != name.server {
        return Ok(false);
    }
    // A session that is being ended is known until it has gone.
    while is_there(conn.query_drop(format!("KILL {}", name.id)).await)? {
        tokio::time::sleep(LOOK).await;
    }
    conn.disconnect().await?;
    Ok(true)
}

/// Whether a session may still be there.
fn is_there(kill: Result<(), Error>) -> Result<bool, Error> {
    match kill {
        Ok(()) => Ok(true),
        Err(Error::Server(error)) if NO_SESSION_OF_OURS.contains(&error.code) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The version of a server, and what tells it from others.
pub(super) async fn server(conn: &mut Conn) -> Result<(String, String), Error> {
    let found = conn.query_first("SELECT version(), concat(@@hostname, ':', @@port)").await?;
    Ok(found.unwrap_or((String::new(), String::new())))
}
