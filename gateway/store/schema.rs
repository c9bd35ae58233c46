//! Migrations: forward only, in a single transaction under a lock. Programs that start at the same
//! time run each migration once, and a killed program leaves none half done. A schema newer than
//! this program is rejected.

use std::ops::RangeInclusive;
use std::path::Path;

use sqlx::{AnyConnection, Connection};

use crate::clock::now;
use crate::error::{self, StoreError};

/// The SQL dialect, for statements that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// A step to the next schema version.
struct Migration {
    sqlite: &'static str,
    postgres: &'static str,
}

/// In order; the first creates schema 1. Published migrations never change.
const MIGRATIONS: [Migration; 5] = [
    Migration {
        sqlite: include_str!("migrations/sqlite/0001.sql"),
        postgres: include_str!("migrations/postgres/0001.sql"),
    },
    Migration {
        sqlite: include_str!("migrations/sqlite/0002.sql"),
        postgres: include_str!("migrations/postgres/0002.sql"),
    },
    Migration {
        sqlite: include_str!("migrations/sqlite/0003.sql"),
        postgres: include_str!("migrations/postgres/0003.sql"),
    },
    Migration {
        sqlite: include_str!("migrations/sqlite/0004.sql"),
        postgres: include_str!("migrations/postgres/0004.sql"),
    },
    Migration {
        sqlite: include_str!("migrations/sqlite/0005.sql"),
        postgres: include_str!("migrations/postgres/0005.sql"),
    },
];

/// The schema version of this program.
pub(crate) const NEWEST_VERSION: i64 = MIGRATIONS.len() as i64;

/// An arbitrary number that no other program uses for its lock.
const TAKE_LOCK: &str = "DO $$ BEGIN PERFORM pg_advisory_xact_lock(7236582913462); END $$";
const HISTORY: &str = "CREATE TABLE IF NOT EXISTS schema_history (
    version BIGINT PRIMARY KEY,
    applied_at BIGINT NOT NULL
)";

/// Writes nothing, but fails on a read-only database. SQLite permits a transaction even there.
const PROBE: &str = "UPDATE clock SET revision = revision WHERE id = 0";

/// Migrates the database to a schema version, which is [`NEWEST_VERSION`] except in tests.
pub(crate) async fn migrate(
    connection: &mut AnyConnection,
    dialect: Dialect,
    file: Option<&Path>,
    to: i64,
) -> Result<(), StoreError> {
    let begin = match dialect {
        Dialect::Sqlite => "BEGIN IMMEDIATE",
        Dialect::Postgres => "BEGIN",
    };
    let mut transaction = error::answer(connection.begin_with(begin).await, file)?;
    let found = error::answer(lock_version(&mut transaction, dialect).await, file)?;
    refuse_newer(found)?;
    error::answer(apply(&mut transaction, dialect, found + 1..=to).await, file)?;
    error::answer(sqlx::raw_sql(PROBE).execute(&mut *transaction).await, file)?;
    error::answer(transaction.commit().await, file)
}

/// Rejects a schema of a newer program.
pub(crate) fn refuse_newer(found: i64) -> Result<(), StoreError> {
    if found > NEWEST_VERSION {
        return Err(StoreError::Newer { found, known: NEWEST_VERSION });
    }
    Ok(())
}

/// Returns the schema version without changing anything; 0 without a schema.
pub(crate) async fn read_version(
    connection: &mut AnyConnection,
    dialect: Dialect,
) -> sqlx::Result<i64> {
    let history = match dialect {
        Dialect::Sqlite => "SELECT COUNT(*) FROM sqlite_master WHERE name = 'schema_history'",
        Dialect::Postgres => {
            "SELECT COUNT(*) FROM pg_catalog.pg_tables WHERE schemaname = 'lockgate' \
                AND tablename = 'schema_history'"
        }
    };
    let is_there: i64 = sqlx::query_scalar(history).fetch_one(&mut *connection).await?;
    if is_there == 0 {
        return Ok(0);
    }
    newest_version(connection).await
}

/// Locks the schema and returns its version.
async fn lock_version(connection: &mut AnyConnection, dialect: Dialect) -> sqlx::Result<i64> {
    if dialect == Dialect::Postgres {
        sqlx::raw_sql(TAKE_LOCK).execute(&mut *connection).await?;
    }
    sqlx::raw_sql(HISTORY).execute(&mut *connection).await?;
    newest_version(connection).await
}

async fn newest_version(connection: &mut AnyConnection) -> sqlx::Result<i64> {
    let newest = "SELECT COALESCE(MAX(version), 0) FROM schema_history";
    sqlx::query_scalar(newest).fetch_one(connection).await
}

/// Runs the migrations to these schema versions.
async fn apply(
    connection: &mut AnyConnection,
    dialect: Dialect,
    schemas: RangeInclusive<i64>,
) -> sqlx::Result<()> {
    for (version, migration) in (1..).zip(&MIGRATIONS) {
        if !schemas.contains(&version) {
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
