//! Connections for changes. A connection that is dropped within a transaction is closed, which
//! rolls it back.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::StorePlace;
use crate::connection::Connection;
use crate::error::StoreError;
use crate::file::Access;
use crate::value::{Row, Value};

/// Timeout of waiting for a connection that others use.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
const MAX_CONNECTIONS: usize = 4;

pub(crate) struct Pool {
    place: StorePlace,
    permits: Arc<Semaphore>,
    /// Unused connections, the newest last.
    idle: Mutex<Vec<(Instant, Connection)>>,
}

impl Pool {
    pub(crate) fn new(place: StorePlace) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        Arc::new(Self { place, permits, idle: Mutex::default() })
    }

    /// Begins a transaction.
    pub(crate) async fn begin(self: &Arc<Self>) -> Result<Transaction, StoreError> {
        let mut connection = self.acquire().await?;
        connection.run("BEGIN").await?;
        Ok(Transaction(connection))
    }

    /// Runs a statement, and returns the number of changed rows.
    pub(crate) async fn execute(
        self: &Arc<Self>,
        sql: &str,
        values: &[Value],
    ) -> Result<u64, StoreError> {
        let mut connection = self.acquire().await?;
        let affected = connection.execute(sql, values).await?;
        connection.release();
        Ok(affected)
    }

    /// Runs a statement, and returns all its rows.
    pub(crate) async fn list(
        self: &Arc<Self>,
        sql: &str,
        values: &[Value],
    ) -> Result<Vec<Row>, StoreError> {
        let mut connection = self.acquire().await?;
        let rows = connection.list(sql, values).await?;
        connection.release();
        Ok(rows)
    }

    async fn acquire(self: &Arc<Self>) -> Result<Pooled, StoreError> {
        let permit = Arc::clone(&self.permits).acquire_owned();
        let permit = match tokio::time::timeout(ACQUIRE_TIMEOUT, permit).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(StoreError::stopping()),
            Err(_) => return Err(StoreError::Busy("no connection within the time limit")),
        };
        let pool = Arc::clone(self);
        while let Some(mut connection) = self.take_idle() {
            if connection.is_alive().await {
                return Ok(Pooled { connection, pool, _permit: permit });
            }
        }
        let connection = Connection::open(&self.place, Access::Write).await?;
        Ok(Pooled { connection, pool, _permit: permit })
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock();
        idle.retain(|(since, _)| since.elapsed() < IDLE_TIMEOUT);
        idle.pop().map(|(_, connection)| connection)
    }

    /// Closes the unused connections. The others are closed after use.
    pub(crate) async fn close(&self) {
        self.permits.close();
        let idle = std::mem::take(&mut *self.idle.lock());
        for (_, connection) in idle {
            connection.close().await;
        }
    }
}

/// A connection in use.
struct Pooled {
    connection: Connection,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Pooled {
    /// Returns the connection to the pool.
    fn release(self) {
        let Self { connection, pool, _permit } = self;
        if !pool.permits.is_closed() {
            pool.idle.lock().push((Instant::now(), connection));
        }
    }
}

impl Deref for Pooled {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Pooled {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

/// A transaction, which is rolled back on drop.
pub(crate) struct Transaction(Pooled);

impl Transaction {
    /// # Errors
    /// [`StoreError`]; [`StoreError::Unknown`] without a response from the database.
    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        self.run("COMMIT").await.map_err(StoreError::of_commit)?;
        self.0.release();
        Ok(())
    }

    pub(crate) async fn roll_back(mut self) -> Result<(), StoreError> {
        self.run("ROLLBACK").await?;
        self.0.release();
        Ok(())
    }
}

impl Deref for Transaction {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.0
    }
}
