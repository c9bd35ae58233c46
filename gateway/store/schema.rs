//! Migrations: forward only, in one transaction under a lock, so that programs that start together
//! run each of them once and a killed one leaves none half done. It refuses a database of others
//! and a schema that is newer than this program.

use std::path::Path;

use sqlx::{AnyConnection, Connection};

use crate::clock::now;
use crate::error::StoreError;

/// In which SQL a statement is written, where it has to differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// One step from a schema to the next.
struct Migration {
    sqlite: &'static str,
    postgres: &'static str,
}

/// In order; the first makes schema 1. Those that were published never change.
const MIGRATIONS: [Migration; 1] = [Migration {
    sqlite: include_str!("migrations/sqlite/0001.sql"),
    postgres: include_str!("migrations/postgres/0001.sql"),
}];

/// The schema that this program works with.
pub(crate) const NEWEST: i64 = MIGRATIONS.len() as i64;

/// Any number that no other program uses for its lock.
const TAKE_LOCK: &str = "DO $$ BEGIN PERFORM pg_advisory_xact_lock(7236582913462); END $$";
const HISTORY: &str = "CREATE TABLE IF NOT EXISTS schema_history (
    version BIGINT PRIMARY KEY,
    applied_at BIGINT NOT NULL
)";

/// Brings the database to [`NEWEST`].
pub(crate) async fn migrate(
    connection: &mut AnyConnection,
    dialect: Dialect,
    file: Option<&Path>,
) -> Result<(), StoreError> {
    let begin = match dialect {
        Dialect::Sqlite => "BEGIN IMMEDIATE",
        Dialect::Postgres => "BEGIN",
    };
    let begun = connection.begin_with(begin).await;
    let mut transaction = begun.map_err(|error| StoreError::of(&error, file))?;
    if let Some(file) = file {
        refuse_foreign(&mut transaction, file).await?;
    }
    let found = find_version(&mut transaction, dialect).await;
    let found = found.map_err(|error| StoreError::of(&error, file))?;
    if found > NEWEST {
        return Err(StoreError::Newer { found, known: NEWEST });
    }
    let applied = apply_after(&mut transaction, dialect, found).await;
    applied.map_err(|error| StoreError::of(&error, file))?;
    transaction.commit().await.map_err(|error| StoreError::of(&error, file))
}

/// The schema that is there, with nobody else at work on it.
async fn find_version(connection: &mut AnyConnection, dialect: Dialect) -> sqlx::Result<i64> {
    if dialect == Dialect::Postgres {
        sqlx::raw_sql(TAKE_LOCK).execute(&mut *connection).await?;
    }
    sqlx::raw_sql(HISTORY).execute(&mut *connection).await?;
    let newest = "SELECT COALESCE(MAX(version), 0) FROM schema_history";
    sqlx::query_scalar(newest).fetch_one(connection).await
}

/// Runs the migrations that come after a schema.
async fn apply_after(
    connection: &mut AnyConnection,
    dialect: Dialect,
    found: i64,
) -> sqlx::Result<()> {
    for (version, migration) in (1..).zip(&MIGRATIONS) {
        if version <= found {
            continue;
        }
        let script = match dialect {
            Dialect::Sqlite => migration.sqlite,
            Dialect::Postgres => migration.postgres,
        };
        sqlx::raw_sql(script).execute(&mut *connection).await?;
        let applied = "INSERT INTO schema_history (version, applied_at) VALUES ($1, $2)";
        let applied = sqlx::query(applied).bind(version).bind(now());
        applied.execute(&mut *connection).await?;
    }
    Ok(())
}
/// A file with tables of somebody else's stays as it is.
async fn refuse_foreign(connection: &mut AnyConnection, file: &Path) -> Result<(), StoreError> {
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let tables: Vec<String> = sqlx::query_scalar(tables)
        .fetch_all(connection)
        .await
        .map_err(|error| StoreError::of(&error, Some(file)))?;
    if tables.is_empty() || tables.iter().any(|table| table == "schema_history") {
        return Ok(());
    }
    Err(StoreError::Foreign(file.to_owned()))
}
