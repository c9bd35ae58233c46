//! Opens the database: a file of SQLite that is made when the first change wants it, or PostgreSQL.
//! Whatever it is asked ends within a bound.

use std::path::Path;
use std::time::Duration;

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{AnyConnection, AnyPool, ConnectOptions, Connection, Executor, Row};
use tokio::sync::OnceCell;
use url::Url;

use crate::config::Place;
use crate::error::StoreError;
use crate::schema::{self, Dialect};

/// How long one request to the database may take, with the way there.
const DEADLINE: Duration = Duration::from_secs(8);
/// How long to wait for a connection.
const ACQUIRE: Duration = Duration::from_secs(4);
const IDLE: Duration = Duration::from_secs(300);
const CONNECTIONS: u32 = 4;
/// What every connection of SQLite is told. FULL: what was answered survives a power cut.
const SQLITE: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
    PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 4000; PRAGMA trusted_schema = OFF";
/// What every connection of PostgreSQL is told: its tables are in a schema of their own.
const POSTGRES: &str = "SET search_path TO lockgate; SET statement_timeout = 6000; \
    SET lock_timeout = 4000; SET idle_in_transaction_session_timeout = 10000";
const MAKE_SCHEMA: &str = "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace \
    WHERE nspname = 'lockgate') THEN CREATE SCHEMA lockgate; END IF; \
    EXCEPTION WHEN unique_violation OR duplicate_schema THEN NULL; END $$";

/// The database. Nothing is opened before it is asked for something.
pub struct Store {
    place: Place,
    pub(crate) dialect: Dialect,
    pool: OnceCell<AnyPool>,
}

impl Store {
    /// A store at this place; does nothing yet.
    #[must_use]
    pub fn new(place: Place) -> Self {
        let dialect = match place {
            Place::File(_) => Dialect::Sqlite,
            Place::Postgres(_) => Dialect::Postgres,
        };
        Self { place, dialect, pool: OnceCell::new() }
    }

    /// `SQLite` or `PostgreSQL`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.dialect {
            Dialect::Sqlite => "SQLite",
            Dialect::Postgres => "PostgreSQL",
        }
    }

    /// The file of SQLite.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match &self.place {
            Place::File(file) => Some(file),
            Place::Postgres(_) => None,
        }
    }

    pub(crate) fn postgres(&self) -> Option<&str> {
        match &self.place {
            Place::File(_) => None,
            Place::Postgres(url) => Some(url),
        }
    }

    /// The connections, with the newest schema behind them; makes what is missing.
    pub(crate) async fn pool(&self) -> Result<&AnyPool, StoreError> {
        self.pool.get_or_try_init(|| within(self.open())).await
    }

    /// The same, or none where nothing has been stored yet.
    pub(crate) async fn existing_pool(&self) -> Result<Option<&AnyPool>, StoreError> {
        match self.file() {
            Some(file) if self.pool.get().is_none() && !file.exists() => Ok(None),
            _ => self.pool().await.map(Some),
        }
    }

    pub(crate) fn error(&self, error: &sqlx::Error) -> StoreError {
        StoreError::of(error, self.file())
    }

    /// A connection of its own, to what is there already.
    pub(crate) async fn connect(&self) -> Result<AnyConnection, StoreError> {
        self.connect_to(&self.options()?).await
    }

    fn options(&self) -> Result<AnyConnectOptions, StoreError> {
        sqlx::any::install_default_drivers();
        let url = match &self.place {
            Place::File(file) => prepare_file(file)?,
            Place::Postgres(url) => Url::parse(url).map_err(|_| no_url())?,
        };
        let options = AnyConnectOptions::from_url(&url).map_err(|error| self.error(&error))?;
        // Statements hold no values, but slow ones would be in the log a line each.
        Ok(options.disable_statement_logging())
    }

    fn settings(&self) -> &'static str {
        match self.dialect {
            Dialect::Sqlite => SQLITE,
            Dialect::Postgres => POSTGRES,
        }
    }

    async fn connect_to(&self, options: &AnyConnectOptions) -> Result<AnyConnection, StoreError> {
        let connected = options.connect().await;
        let mut connection = connected.map_err(|error| self.error(&error))?;
        let told = connection.execute(self.settings()).await;
        told.map_err(|error| self.error(&error))?;
        Ok(connection)
    }

    async fn open(&self) -> Result<AnyPool, StoreError> {
        let options = self.options()?;
        let settings = self.settings();
        // By itself first: a pool would try again until its time is over, and not say why.
        let mut connection = self.connect_to(&options).await?;
        self.prepare(&mut connection).await?;
        let closed = connection.close().await;
        closed.map_err(|error| self.error(&error))?;
        let pool = AnyPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(ACQUIRE)
            .idle_timeout(IDLE)
            .after_connect(move |connection, _| {
                Box::pin(async move { connection.execute(settings).await.map(|_| ()) })
            });
        Ok(pool.connect_lazy_with(options))
    }

    /// Refuses what is not ours, and brings the schema up to date.
    async fn prepare(&self, connection: &mut AnyConnection) -> Result<(), StoreError> {
        match self.file() {
            Some(file) => refuse_damaged(connection, file).await?,
            None => {
                let made = connection.execute(MAKE_SCHEMA).await;
                made.map_err(|error| self.error(&error))?;
            }
        }
        schema::migrate(connection, self.dialect, self.file()).await
    }

    /// Ends its connections.
    pub async fn close(&self) {
        if let Some(pool) = self.pool.get() {
            pool.close().await;
        }
    }
}

/// Gives a request to the database its deadline.
pub(crate) async fn within<T>(
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::Unavailable("it does not answer".into())),
    }
}

fn no_url() -> StoreError {
    StoreError::Unavailable("`store.url` is no URL".into())
}

/// Makes folder and file for their owner alone, and gives the file's URL.
fn prepare_file(file: &Path) -> Result<Url, StoreError> {
    make_file(file).map_err(|_| StoreError::ReadOnly(file.to_owned()))?;
    let path = Url::from_file_path(file).map_err(|()| StoreError::ReadOnly(file.to_owned()))?;
    Url::parse(&format!("sqlite://{}?mode=rw", path.path())).map_err(|_| no_url())
}

#[allow(clippy::disallowed_methods, reason = "the database's folder and file, as configured")]
pub(crate) fn make_file(file: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    if let Some(folder) = file.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).open(file).map(|_| ())
}

async fn refuse_damaged(connection: &mut AnyConnection, file: &Path) -> Result<(), StoreError> {
    let checked = connection.fetch_one("PRAGMA quick_check(1)").await;
    let row = checked.map_err(|error| StoreError::of(&error, Some(file)))?;
    let said: String = row.try_get(0).map_err(|error| StoreError::of(&error, Some(file)))?;
    if said == "ok" {
        return Ok(());
    }
    Err(StoreError::Damaged { file: file.to_owned(), reason: said })
}
