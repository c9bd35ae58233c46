//! Migrations: forward only, in a single transaction under a lock. Programs that start at the same
//! time run each migration once, and a killed program leaves none half done. A schema newer than
//! this program is rejected.

use std::ops::RangeInclusive;

use crate::connection::Connection;
use crate::error::{Result, StoreError};
use lockgate_text::date::now_ms;

/// A step to the next schema version.
struct Migration {
    sqlite: &'static str,
    postgres: &'static str,
}

macro_rules! migration {
    ($number:literal) => {
        Migration {
            sqlite: include_str!(concat!("migrations/sqlite/", $number, ".sql")),
            postgres: include_str!(concat!("migrations/postgres/", $number, ".sql")),
        }
    };
}

/// In order; the first creates schema 1. Published migrations never change.
const MIGRATIONS: [Migration; 9] = [
    migration!("0001"),
    migration!("0002"),
    migration!("0003"),
    migration!("0004"),
    migration!("0005"),
    migration!("0006"),
    migration!("0007"),
    migration!("0008"),
    migration!("0009"),
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
pub(crate) async fn migrate(connection: &mut Connection, to: i64) -> Result<()> {
    connection.run(if connection.is_postgres() { "BEGIN" } else { "BEGIN IMMEDIATE" }).await?;
    let found = lock_version(connection).await?;
    refuse_newer(found)?;
    apply(connection, found + 1..=to).await?;
    connection.run(PROBE).await?;
    connection.run("COMMIT").await
}

/// Rejects a schema of a newer program.
pub(crate) fn refuse_newer(found: i64) -> Result<()> {
    if found > NEWEST_VERSION {
        return Err(StoreError::Newer { found, known: NEWEST_VERSION });
    }
    Ok(())
}

/// Returns the schema version without changing anything; 0 without a schema.
pub(crate) async fn read_version(connection: &mut Connection) -> Result<i64> {
    let history = if connection.is_postgres() {
        "SELECT COUNT(*) FROM pg_catalog.pg_tables WHERE schemaname = 'lockgate' \
            AND tablename = 'schema_history'"
    } else {
        "SELECT COUNT(*) FROM sqlite_master WHERE name = 'schema_history'"
    };
    let is_there: i64 = connection.scalar(history, &[]).await?;
    if is_there == 0 { Ok(0) } else { newest_version(connection).await }
}

/// Locks the schema and returns its version.
async fn lock_version(connection: &mut Connection) -> Result<i64> {
    if connection.is_postgres() {
        connection.run(TAKE_LOCK).await?;
    }
    connection.run(HISTORY).await?;
    newest_version(connection).await
}

async fn newest_version(connection: &mut Connection) -> Result<i64> {
    let newest = "SELECT COALESCE(MAX(version), 0) FROM schema_history";
    connection.scalar(newest, &[]).await
}

/// Runs the migrations to these schema versions.
async fn apply(connection: &mut Connection, schemas: RangeInclusive<i64>) -> Result<()> {
    for (version, migration) in (1..).zip(&MIGRATIONS) {
        if !schemas.contains(&version) {
            continue;
        }
        let Migration { sqlite, postgres } = migration;
        connection.run(if connection.is_postgres() { postgres } else { sqlite }).await?;
        let applied = "INSERT INTO schema_history (version, applied_at) VALUES ($1, $2)";
        connection.execute(applied, &[version.into(), now_ms().into()]).await?;
    }
    Ok(())
}
