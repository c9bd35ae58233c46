//! Opens the database: a SQLite file that the first change creates, or PostgreSQL. `look` changes
//! nothing, and every operation is bounded in time.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::config::StorePlace;
use crate::connection::{Boxed, Connection, Pool};
use crate::error::{Result, StoreError};
use crate::file::{self, Access, FileState, Identity};
use crate::schema;
use crate::sqlite::SqliteConnection;
use crate::value::{Row, Value};

/// Timeout of a request to the database, including the connection. Short, because a caller waits.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of a background request, which may write many rows.
const BACKGROUND_TIMEOUT: Duration = Duration::from_secs(8);
/// Migrations may take long, but a hanging server must not block them forever.
const MIGRATING: &str = "SET statement_timeout = '15min'; SET lock_timeout = '60s'";
const MAKE_SCHEMA: &str = "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace \
    WHERE nspname = 'lockgate') THEN CREATE SCHEMA lockgate; END IF; \
    EXCEPTION WHEN unique_violation OR duplicate_schema THEN NULL; END $$";

/// The database, which is opened on first use.
pub struct Store {
    place: StorePlace,
    /// The schema version to migrate to.
    schema: i64,
    opened: Mutex<Option<Opened>>,
    /// Whether the database has existed. If so, an empty file is a lost database.
    was_there: AtomicBool,
}

/// The connections for changes, and the file that they belong to.
struct Opened {
    pool: Arc<Pool>,
    identity: Option<Identity>,
}

impl Store {
    /// Creates a store without opening it.
    pub fn new(place: StorePlace) -> Self {
        let was_there = AtomicBool::new(false);
        Self { place, schema: schema::NEWEST_VERSION, opened: Mutex::default(), was_there }
    }

    /// Creates the store of an earlier version.
    #[cfg(test)]
    pub(crate) fn of_schema(place: StorePlace, schema: i64) -> Self {
        Self { schema, ..Self::new(place) }
    }

    /// Returns `SQLite` or `PostgreSQL`.
    pub fn kind(&self) -> &'static str {
        match self.place {
            StorePlace::File(_) => "SQLite",
            StorePlace::Postgres(_) => "PostgreSQL",
        }
    }

    pub fn file(&self) -> Option<&Path> {
        match &self.place {
            StorePlace::File(file) => Some(file),
            StorePlace::Postgres(_) => None,
        }
    }

    pub(crate) fn postgres(&self) -> Option<&str> {
        match &self.place {
            StorePlace::File(_) => None,
            StorePlace::Postgres(url) => Some(url),
        }
    }

    /// Opens an existing database for changes, and migrates its schema. A missing file is not
    /// created.
    ///
    /// # Errors
    /// [`StoreError`]; reading may be possible nevertheless.
    pub async fn prepare(&self) -> Result<()> {
        match self.file() {
            Some(file) if file::judge(file)? == FileState::Empty => Ok(()),
            _ => self.pool().await.map(drop),
        }
    }

    /// Returns the connections for changes. Creates and migrates the database as necessary, and
    /// opens new connections if the file was replaced.
    #[inline(never)]
    pub(crate) fn pool(&self) -> Boxed<'_, Result<Arc<Pool>>> {
        Box::pin(async move {
            let mut opened = self.opened.lock().await;
            let identity = self.identify()?;
            if let Some(known) = &*opened
                && known.identity == identity
            {
                return Ok(Arc::clone(&known.pool));
            }
            let pool = self.open_in_time().await?;
            *opened = Some(Opened { pool: Arc::clone(&pool), identity: self.identify()? });
            Ok(pool)
        })
    }

    /// Returns the rows of a query; none if nothing has been stored yet.
    pub(crate) async fn rows(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>> {
        if !self.exists()? {
            return Ok(Vec::new());
        }
        within(async { Ok(self.pool().await?.query(sql, values).await?.rows) }).await
    }

    /// Runs a statement, and returns the number of changed rows. Opening the database has no time
    /// limit.
    pub(crate) async fn execute(&self, sql: &str, values: &[Value]) -> Result<u64> {
        let pool = self.pool().await?;
        Ok(within(pool.query(sql, values)).await?.affected)
    }

    /// Returns whether there is a database. The first change or counted call creates a SQLite file.
    ///
    /// # Errors
    /// [`StoreError`] if the file was removed.
    pub fn exists(&self) -> Result<bool> {
        Ok(self.file().is_none() || self.identify()?.is_some())
    }

    /// Returns the identity of the SQLite file. A file that has disappeared is an error: a new file
    /// in its place would erase the state of running gateways.
    pub(crate) fn identify(&self) -> Result<Option<Identity>> {
        let Some(file) = self.file() else { return Ok(None) };
        let identity = file::identify(file);
        if identity.is_some() {
            self.was_there.store(true, Ordering::Relaxed);
        } else if self.was_there.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable(format!(
                "{} was removed; put it back, or restart the gateway to begin with an empty store",
                file.display()
            )));
        }
        Ok(identity)
    }

    /// Opens a read-only connection outside the pool, and returns the schema version too. Returns
    /// `None` if nothing has been stored yet.
    #[inline(never)]
    pub(crate) fn look(&self) -> Boxed<'_, Result<Option<(Connection, i64)>>> {
        Box::pin(async move {
            if let Some(file) = self.file()
                && file::judge(file)? == FileState::Empty
            {
                return Ok(None);
            }
            within(async {
                let mut connection = self.connect(Access::Read).await?;
                let found = schema::read_version(&mut connection).await?;
                schema::refuse_newer(found)?;
                if found > 0 { Ok(Some((connection, found))) } else { Ok(None) }
            })
            .await
        })
    }

    /// Opens a connection outside the pool.
    pub(crate) async fn connect(&self, access: Access) -> Result<Connection> {
        Connection::open(&self.place, access).await
    }

    /// Opens the pool. Retries while other programs open the database, because SQLite does not wait
    /// for a lock when it switches to WAL mode.
    async fn open_in_time(&self) -> Result<Arc<Pool>> {
        let began = Instant::now();
        loop {
            match self.open().await {
                Err(StoreError::Busy(_)) if began.elapsed() < REQUEST_TIMEOUT => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                opened => return opened,
            }
        }
    }

    async fn open(&self) -> Result<Arc<Pool>> {
        if let Some(file) = self.file() {
            self.claim(file).await?;
        }
        let mut connection = within(self.connect(Access::Write)).await?;
        self.bring_up(&mut connection).await?;
        connection.close().await;
        Ok(Pool::new(self.place.clone()))
    }

    /// Creates a missing file, and marks an empty file as ours before the first other write. After
    /// an interruption, the next start recognises the file.
    async fn claim(&self, file: &Path) -> Result<()> {
        if file::judge(file)? == FileState::Ours {
            return Ok(());
        }
        file::make(file)?;
        let connection = SqliteConnection::open(file, Access::Write).await?;
        connection.run(file::CLAIM).await?;
        connection.close().await;
        Ok(())
    }

    /// Rejects a damaged database, and migrates the schema.
    async fn bring_up(&self, connection: &mut Connection) -> Result<()> {
        match self.file() {
            // A full check is slow, so it is limited to files of a program that may have been
            // killed.
            Some(file) if file::has_wal(file) => {
                refuse_damaged(connection, file, "PRAGMA quick_check(1)").await?;
            }
            Some(_) => {}
            None => {
                for sql in [MIGRATING, MAKE_SCHEMA] {
                    connection.run(sql).await?;
                }
            }
        }
        schema::migrate(connection, self.schema).await
    }

    pub async fn close(&self) {
        if let Some(opened) = &*self.opened.lock().await {
            opened.pool.close().await;
        }
    }
}

/// Applies the deadline to a request.
pub(crate) async fn within<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    bounded(REQUEST_TIMEOUT, work).await
}

/// Limits the time of background work, for which no caller waits.
pub(crate) async fn within_background<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    bounded(BACKGROUND_TIMEOUT, work).await
}

async fn bounded<T>(deadline: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(deadline, work).await.unwrap_or_else(|_| Err(StoreError::no_answer()))
}

/// Rejects a file that does not pass this check of SQLite.
pub(crate) async fn refuse_damaged(
    connection: &mut Connection,
    file: &Path,
    check: &str,
) -> Result<()> {
    let reason: String = connection.scalar(check, &[]).await?;
    if reason == "ok" { Ok(()) } else { Err(StoreError::Damaged { file: file.to_owned(), reason }) }
}
