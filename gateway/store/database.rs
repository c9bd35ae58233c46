//! Opens the database: a SQLite file that the first change creates, or PostgreSQL. `look` changes
//! nothing, and every operation is bounded in time.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{AnyConnection, AnyPool, ConnectOptions, Connection, Executor, Row};
use tokio::sync::Mutex;
use url::Url;

use crate::config::StorePlace;
use crate::error::{self, StoreError};
use crate::file::{self, Access, FileState, Identity};
use crate::schema::{self, Dialect};

/// Timeout of a request to the database, including the connection. Short, because a caller waits.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of a background request, which may write many rows.
const BACKGROUND_TIMEOUT: Duration = Duration::from_secs(8);
/// Timeout of waiting for a pooled connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
const MAX_CONNECTIONS: u32 = 4;
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
/// Migrations may take long, but a hanging server must not block them forever.
const MIGRATING: &str = "SET statement_timeout = '15min'; SET lock_timeout = '60s'";
const MAKE_SCHEMA: &str = "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace \
    WHERE nspname = 'lockgate') THEN CREATE SCHEMA lockgate; END IF; \
    EXCEPTION WHEN unique_violation OR duplicate_schema THEN NULL; END $$";

/// The database, which is opened on first use.
pub struct Store {
    place: StorePlace,
    pub(crate) dialect: Dialect,
    /// The schema version to migrate to.
    schema: i64,
    opened: Mutex<Option<Opened>>,
    /// Whether the database has existed. If so, an empty file is a lost database.
    was_there: AtomicBool,
}

/// The connections for changes, and the file that they belong to.
struct Opened {
    pool: AnyPool,
    identity: Option<Identity>,
}

impl Store {
    /// Creates a store without opening it.
    #[must_use]
    pub fn new(place: StorePlace) -> Self {
        sqlx::any::install_default_drivers();
        let dialect = match place {
            StorePlace::File(_) => Dialect::Sqlite,
            StorePlace::Postgres(_) => Dialect::Postgres,
        };
        let was_there = AtomicBool::new(false);
        Self { place, dialect, schema: schema::NEWEST_VERSION, opened: Mutex::default(), was_there }
    }

    /// Creates the store of an earlier version.
    #[cfg(test)]
    pub(crate) fn of_schema(place: StorePlace, schema: i64) -> Self {
        Self { schema, ..Self::new(place) }
    }

    /// Returns `SQLite` or `PostgreSQL`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.dialect {
            Dialect::Sqlite => "SQLite",
            Dialect::Postgres => "PostgreSQL",
        }
    }

    #[must_use]
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
    pub async fn prepare(&self) -> Result<(), StoreError> {
        match self.file() {
            Some(file) if file::judge(file)? == FileState::Empty => Ok(()),
            _ => {
                self.pool().await?;
                Ok(())
            }
        }
    }

    /// Returns the connections for changes. Creates and migrates the database as necessary, and
    /// opens new connections if the file was replaced.
    pub(crate) async fn pool(&self) -> Result<AnyPool, StoreError> {
        let mut opened = self.opened.lock().await;
        let identity = self.identify()?;
        if let Some(known) = &*opened
            && known.identity == identity
        {
            return Ok(known.pool.clone());
        }
        let pool = self.open_in_time().await?;
        *opened = Some(Opened { pool: pool.clone(), identity: self.identify()? });
        Ok(pool)
    }

    /// Returns the identity of the SQLite file. A file that has disappeared is an error: a new file
    /// in its place would erase the state of running gateways.
    pub(crate) fn identify(&self) -> Result<Option<Identity>, StoreError> {
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

    /// Returns the cause of a pool timeout: the pool does not report whether all connections were
    /// busy or none could be opened.
    pub(crate) async fn explain_waiting(&self) -> StoreError {
        match self.connect(Access::Read).await {
            Err(error) => error,
            Ok(_) => StoreError::Busy("no connection within the time limit"),
        }
    }

    /// Maps the error of a database result to [`StoreError`].
    pub(crate) fn answer<T>(&self, answer: sqlx::Result<T>) -> Result<T, StoreError> {
        error::answer(answer, self.file())
    }

    /// Opens a read-only connection outside the pool, and returns the schema version too. Returns
    /// `None` if nothing has been stored yet.
    pub(crate) async fn look(&self) -> Result<Option<(AnyConnection, i64)>, StoreError> {
        if let Some(file) = self.file()
            && file::judge(file)? == FileState::Empty
        {
            return Ok(None);
        }
        within(async {
            let mut connection = self.connect(Access::Read).await?;
            let found = self.answer(schema::read_version(&mut connection, self.dialect).await)?;
            schema::refuse_newer(found)?;
            if found > 0 { Ok(Some((connection, found))) } else { Ok(None) }
        })
        .await
    }

    /// Opens a connection outside the pool.
    pub(crate) async fn connect(&self, access: Access) -> Result<AnyConnection, StoreError> {
        let options = self.options(access)?;
        let mut connection = self.answer(options.connect().await)?;
        self.answer(connection.execute(self.settings(access)).await)?;
        Ok(connection)
    }

    fn options(&self, access: Access) -> Result<AnyConnectOptions, StoreError> {
        let url = match &self.place {
            StorePlace::File(file) => file::url(file, access)?,
            StorePlace::Postgres(url) => match Url::parse(url) {
                Ok(url) => url,
                Err(_) => return Err(no_url()),
            },
        };
        let options = self.answer(AnyConnectOptions::from_url(&url))?;
        // Statements contain no values, but each slow statement would be a line in the log.
        Ok(options.disable_statement_logging())
    }

    fn settings(&self, access: Access) -> &'static str {
        match (self.dialect, access) {
            (Dialect::Sqlite, Access::Write) => SQLITE,
            (Dialect::Sqlite, Access::Read) => SQLITE_READER,
            (Dialect::Postgres, Access::Write) => POSTGRES,
            (Dialect::Postgres, Access::Read) => POSTGRES_READER,
        }
    }

    /// Opens the pool. Retries while other programs open the database, because SQLite does not wait
    /// for a lock when it switches to WAL mode.
    async fn open_in_time(&self) -> Result<AnyPool, StoreError> {
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

    async fn open(&self) -> Result<AnyPool, StoreError> {
        if let Some(file) = self.file() {
            claim(file).await?;
        }
        let options = self.options(Access::Write)?;
        let settings = self.settings(Access::Write);
        // The first connection is outside the pool, which would retry until its timeout and hide
        // the cause.
        let mut connection = within(self.connect(Access::Write)).await?;
        self.bring_up(&mut connection).await?;
        self.answer(connection.close().await)?;
        let pool = AnyPoolOptions::new()
            .max_connections(MAX_CONNECTIONS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .idle_timeout(IDLE_TIMEOUT)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    connection.execute(settings).await?;
                    Ok(())
                })
            });
        Ok(pool.connect_lazy_with(options))
    }

    /// Rejects a damaged database, and migrates the schema.
    async fn bring_up(&self, connection: &mut AnyConnection) -> Result<(), StoreError> {
        match self.file() {
            // A full check is slow, so it is limited to files of a program that may have been
            // killed.
            Some(file) if file::has_wal(file) => refuse_damaged(connection, file).await?,
            Some(_) => {}
            None => {
                for sql in [MIGRATING, MAKE_SCHEMA] {
                    self.answer(connection.execute(sql).await)?;
                }
            }
        }
        schema::migrate(connection, self.dialect, self.file(), self.schema).await
    }

    pub async fn close(&self) {
        if let Some(opened) = &*self.opened.lock().await {
            opened.pool.close().await;
        }
    }
}

/// Applies the deadline to a request.
pub(crate) async fn within<T>(
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    bounded(REQUEST_TIMEOUT, work).await
}

/// Limits the time of background work, for which no caller waits.
pub(crate) async fn within_background<T>(
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    bounded(BACKGROUND_TIMEOUT, work).await
}

async fn bounded<T>(
    deadline: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(deadline, work).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::no_answer()),
    }
}

fn no_url() -> StoreError {
    StoreError::Unavailable("`store.url` is not a URL".into())
}

/// Creates a missing file, and marks an empty file as ours before the first other write. After an
/// interruption, the next start recognises the file.
async fn claim(path: &Path) -> Result<(), StoreError> {
    if file::judge(path)? == FileState::Ours {
        return Ok(());
    }
    file::make(path)?;
    let options = AnyConnectOptions::from_url(&file::url(path, Access::Write)?);
    let claimed = async {
        let mut connection = options?.disable_statement_logging().connect().await?;
        connection.execute(SQLITE_READER).await?;
        connection.execute(file::CLAIM).await?;
        connection.close().await
    };
    error::answer(claimed.await, Some(path))
}

async fn refuse_damaged(connection: &mut AnyConnection, file: &Path) -> Result<(), StoreError> {
    let row = error::answer(connection.fetch_one("PRAGMA quick_check(1)").await, Some(file))?;
    let said: String = error::answer(row.try_get(0), Some(file))?;
    if said == "ok" {
        return Ok(());
    }
    Err(StoreError::Damaged { file: file.to_owned(), reason: said })
}
