//! A connection to either engine. Parameters are `$1`, `$2`, … in both.

use std::pin::Pin;

use crate::config::StorePlace;
use crate::error::StoreError;
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
    pub(crate) async fn open(place: &StorePlace, access: Access) -> Result<Self, StoreError> {
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

    /// Runs statements without parameters and rows, separated by semicolons.
    #[inline(never)]
    pub(crate) fn run<'a>(&'a mut self, sql: &'a str) -> Boxed<'a, Result<(), StoreError>> {
        Box::pin(async move {
            match self {
                Self::Sqlite(sqlite) => sqlite.run(sql).await,
                Self::Postgres(postgres) => postgres.run(sql).await,
            }
        })
    }

    /// Runs a statement, and returns the number of changed rows.
    pub(crate) async fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, StoreError> {
        Ok(self.query(sql, values).await?.affected)
    }

    /// Runs a statement with each of the given rows of parameters.
    pub(crate) async fn execute_each(
        &mut self,
        sql: &str,
        rows: Vec<Vec<Value>>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.execute_each(sql, rows).await,
            Self::Postgres(postgres) => postgres.execute_each(sql, &rows).await,
        }
    }

    /// Runs a statement, and returns all its rows.
    pub(crate) async fn list(
        &mut self,
        sql: &str,
        values: &[Value],
    ) -> Result<Vec<Row>, StoreError> {
        Ok(self.query(sql, values).await?.rows)
    }

    /// Runs a statement, and returns its first row.
    pub(crate) async fn find(
        &mut self,
        sql: &str,
        values: &[Value],
    ) -> Result<Option<Row>, StoreError> {
        Ok(self.list(sql, values).await?.into_iter().next())
    }

    /// Runs a statement, and returns the first column of its only row.
    pub(crate) async fn scalar<T: FromValue>(
        &mut self,
        sql: &str,
        values: &[Value],
    ) -> Result<T, StoreError> {
        match self.find(sql, values).await? {
            Some(row) => row.first(),
            None => Err(StoreError::Refused("a row is missing".into())),
        }
    }

    #[inline(never)]
    fn query<'a>(
        &'a mut self,
        sql: &'a str,
        values: &'a [Value],
    ) -> Boxed<'a, Result<Outcome, StoreError>> {
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
