//! A connection to either engine, and the pool of connections for changes. Parameters are `$1`,
//! `$2`, … in both. A connection that is dropped within a transaction is closed, which rolls it
//! back.

use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::StorePlace;
use crate::error::{Result, StoreError};
use crate::file::Access;
use crate::postgres::PostgresConnection;
use crate::sqlite::SqliteConnection;
use crate::value::{FromValue, Outcome, Row, Value};

/// A future that is compiled in this crate alone.
pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Settings of SQLite connections for writing. With `synchronous = FULL` an acknowledged commit
/// survives a power cut.
const SQLITE: &str = "PRAGMA busy_timeout = 2500; PRAGMA trusted_schema = OFF; \
    PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON";
const SQLITE_READER: &str = "PRAGMA busy_timeout = 2500; PRAGMA trusted_schema = OFF";
/// Settings of PostgreSQL connections for writing. Tables are in a separate schema.
const POSTGRES: &str = "SET search_path TO lockgate; SET statement_timeout = 3000; \
    SET lock_timeout = 2500; SET idle_in_transaction_session_timeout = 10000";
const POSTGRES_READER: &str = "SET search_path TO lockgate; SET statement_timeout = 3000; \
    SET lock_timeout = 2500; SET default_transaction_read_only = on";

pub(crate) enum Connection {
    Sqlite(SqliteConnection),
    Postgres(Box<PostgresConnection>),
}

impl Connection {
    pub(crate) async fn open(place: &StorePlace, access: Access) -> Result<Self> {
        let mut connection = match place {
            StorePlace::File(file) => Self::Sqlite(SqliteConnection::open(file, access).await?),
            StorePlace::Postgres(url) => {
                Self::Postgres(Box::new(PostgresConnection::open(url).await?))
            }
        };
        let settings = match (&connection, access) {
            (Self::Sqlite(_), Access::Write) => SQLITE,
            (Self::Sqlite(_), Access::Read) => SQLITE_READER,
            (Self::Postgres(_), Access::Write) => POSTGRES,
            (Self::Postgres(_), Access::Read) => POSTGRES_READER,
        };
        connection.run(settings).await?;
        Ok(connection)
    }

    /// Returns whether the engine is PostgreSQL, for statements that differ.
    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Runs statements without parameters and rows, separated by semicolons.
    #[inline(never)]
    pub(crate) fn run<'a>(&'a mut self, sql: &'a str) -> Boxed<'a, Result<()>> {
        Box::pin(async move {
            match self {
                Self::Sqlite(sqlite) => sqlite.run(sql).await,
                Self::Postgres(postgres) => postgres.run(sql).await,
            }
        })
    }

    /// Runs a statement, and returns the number of changed rows.
    pub(crate) async fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64> {
        Ok(self.query(sql, values).await?.affected)
    }

    /// Runs a statement with each of the given rows of parameters.
    pub(crate) async fn execute_each(&mut self, sql: &str, rows: Vec<Vec<Value>>) -> Result<()> {
        match self {
            Self::Sqlite(sqlite) => sqlite.execute_each(sql, rows).await,
            Self::Postgres(postgres) => postgres.execute_each(sql, &rows).await,
        }
    }

    /// Runs a statement, and returns all its rows.
    pub(crate) async fn list(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>> {
        Ok(self.query(sql, values).await?.rows)
    }

    /// Runs a statement, and returns its first row.
    pub(crate) async fn find(&mut self, sql: &str, values: &[Value]) -> Result<Option<Row>> {
        Ok(self.list(sql, values).await?.into_iter().next())
    }

    /// Runs a statement, and returns the first column of its only row.
    pub(crate) async fn scalar<T: FromValue>(&mut self, sql: &str, values: &[Value]) -> Result<T> {
        let row = self.find(sql, values).await?;
        row.ok_or_else(|| StoreError::Refused("a row is missing".into()))?.first()
    }

    #[inline(never)]
    fn query<'a>(&'a mut self, sql: &'a str, values: &'a [Value]) -> Boxed<'a, Result<Outcome>> {
        Box::pin(async move {
            match self {
                Self::Sqlite(sqlite) => sqlite.query(sql, values).await,
                Self::Postgres(postgres) => postgres.query(sql, values).await,
            }
        })
    }

    /// Returns whether the database still answers.
    pub(crate) async fn is_alive(&mut self) -> bool {
        match self {
            Self::Sqlite(_) => true,
            Self::Postgres(postgres) => postgres.is_alive().await,
        }
    }

    /// Closes the connection. Without it, dropping closes it in the current thread.
    pub(crate) async fn close(self) {
        if let Self::Sqlite(sqlite) = self {
            sqlite.close().await;
        }
    }
}

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
    pub(crate) async fn begin(self: &Arc<Self>) -> Result<Transaction> {
        let mut transaction = self.acquire().await?;
        transaction.run("BEGIN").await?;
        Ok(transaction)
    }

    /// Runs a statement outside of a transaction.
    pub(crate) async fn query(self: &Arc<Self>, sql: &str, values: &[Value]) -> Result<Outcome> {
        let mut connection = self.acquire().await?;
        let outcome = connection.query(sql, values).await?;
        connection.release();
        Ok(outcome)
    }

    async fn acquire(self: &Arc<Self>) -> Result<Transaction> {
        let permit = Arc::clone(&self.permits).acquire_owned();
        let permit = match tokio::time::timeout(ACQUIRE_TIMEOUT, permit).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(StoreError::stopping()),
            Err(_) => return Err(StoreError::Busy("no connection within the time limit")),
        };
        let pool = Arc::clone(self);
        while let Some(mut connection) = self.take_idle() {
            if connection.is_alive().await {
                return Ok(Transaction { connection, pool, _permit: permit });
            }
        }
        let connection = Connection::open(&self.place, Access::Write).await?;
        Ok(Transaction { connection, pool, _permit: permit })
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

/// A connection in use. It is closed on drop, which rolls back its transaction.
pub(crate) struct Transaction {
    connection: Connection,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Transaction {
    /// Returns the connection to the pool.
    fn release(self) {
        let Self { connection, pool, _permit } = self;
        if !pool.permits.is_closed() {
            pool.idle.lock().push((Instant::now(), connection));
        }
    }

    /// # Errors
    /// [`StoreError`]; [`StoreError::Unknown`] without a response from the database.
    pub(crate) async fn commit(mut self) -> Result<()> {
        self.run("COMMIT").await.map_err(StoreError::of_commit)?;
        self.release();
        Ok(())
    }

    pub(crate) async fn roll_back(mut self) -> Result<()> {
        self.run("ROLLBACK").await?;
        self.release();
        Ok(())
    }
}

impl Deref for Transaction {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}
