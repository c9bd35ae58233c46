//! What an operator does with the database: looks whether it is whole, copies it, brings a copy
//! back. Gateways may work meanwhile.

use std::path::{Path, PathBuf};

use sqlx::{AnyConnection, Connection, Executor, Row};

use crate::config::Place;
use crate::database::{Store, make_file};
use crate::error::StoreError;
use crate::schema;

/// What is stored, of a database that is whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The number of its schema; 0 where nothing has been stored yet.
    pub schema: i64,
    pub organisations: i64,
    pub integrations: i64,
    pub agents: i64,
    pub assignments: i64,
}

/// Puts what a copy holds in the place of what there is. Organisations stay, and get a new revision
/// each, by which gateways notice that everything may be another.
const REPLACE: &str = "
    UPDATE clock SET revision = revision + 1;
    INSERT INTO organisations (id, revision, created_at)
        SELECT id, 0, created_at FROM copy.organisations WHERE true ON CONFLICT (id) DO NOTHING;
    UPDATE organisations SET revision = (SELECT revision FROM clock);
    DELETE FROM main.outcomes;
    DELETE FROM main.assignments;
    DELETE FROM main.agents;
    DELETE FROM main.integrations;
    INSERT INTO main.integrations SELECT * FROM copy.integrations;
    INSERT INTO main.agents SELECT * FROM copy.agents;
    INSERT INTO main.assignments SELECT * FROM copy.assignments;
";
const COUNTS: [&str; 4] = [
    "SELECT COUNT(*) FROM organisations",
    "SELECT COUNT(*) FROM integrations",
    "SELECT COUNT(*) FROM agents",
    "SELECT COUNT(*) FROM assignments",
];

impl Store {
    /// Looks whether the database is whole, and what is in it.
    ///
    /// # Errors
    /// [`StoreError`]; of a damaged one [`StoreError::Damaged`].
    pub async fn check(&self) -> Result<Inventory, StoreError> {
        let Some(pool) = self.existing_pool().await? else { return Ok(Inventory::default()) };
        if let Some(file) = self.file() {
            // More than what is looked at when it is opened: indexes against their tables.
            let said = pool.fetch_one("PRAGMA integrity_check(1)").await;
            let said = said.map_err(|error| self.error(&error))?;
            let said: String = said.try_get(0).map_err(|error| self.error(&error))?;
            if said != "ok" {
                return Err(StoreError::Damaged { file: file.to_owned(), reason: said });
            }
        }
        let mut counts = [0; COUNTS.len()];
        for (count, sql) in counts.iter_mut().zip(COUNTS) {
            let counted = sqlx::query_scalar(sql).fetch_one(pool).await;
            *count = counted.map_err(|error| self.error(&error))?;
        }
        let [organisations, integrations, agents, assignments] = counts;
        let schema = schema::NEWEST;
        Ok(Inventory { schema, organisations, integrations, agents, assignments })
    }

    /// Copies everything, as of one moment, to a new file for its owner alone.
    ///
    /// # Errors
    /// [`StoreError`]; PostgreSQL is copied with its own tools.
    pub async fn back_up(&self, to: &Path) -> Result<Inventory, StoreError> {
        self.own_file()?;
        if to.exists() {
            return Err(StoreError::Refused(format!("{} is there already", to.display())));
        }
        let Some(pool) = self.existing_pool().await? else {
            return Err(StoreError::Refused("nothing has been stored yet".into()));
        };
        make_file(to).map_err(|_| StoreError::ReadOnly(to.to_owned()))?;
        let copied = sqlx::query("VACUUM INTO $1").bind(to.display().to_string());
        copied.execute(pool).await.map_err(|error| StoreError::of(&error, Some(to)))?;
        let copy = Store::new(Place::File(to.to_owned()));
        let inventory = copy.check().await;
        copy.close().await;
        inventory
    }

    /// Puts what a copy holds in the place of what there is, all of it or nothing. Running gateways
    /// go by it within seconds.
    ///
    /// # Errors
    /// [`StoreError`]; a copy that is damaged, foreign or newer changes nothing.
    pub async fn restore(&self, from: &Path) -> Result<Inventory, StoreError> {
        let file = self.own_file()?;
        if !from.is_file() {
            return Err(StoreError::Refused(format!("there is no file {}", from.display())));
        }
        self.pool().await?;
        // Of an older schema it is brought up to date, and the backup itself stays as it is.
        let copy = file.with_extension("restoring");
        take_away(&copy);
        let restored = self.restore_copy(from, &copy).await;
        take_away(&copy);
        restored?;
        self.check().await
    }

    async fn restore_copy(&self, from: &Path, copy: &Path) -> Result<(), StoreError> {
        duplicate(from, copy).map_err(|_| StoreError::ReadOnly(copy.to_owned()))?;
        let source = Store::new(Place::File(copy.to_owned()));
        source.check().await?;
        source.close().await;
        let mut connection = self.connect().await?;
        let replaced = replace(&mut connection, copy).await;
        replaced.map_err(|error| self.error(&error))?;
        connection.close().await.map_err(|error| self.error(&error))
    }

    fn own_file(&self) -> Result<&Path, StoreError> {
        self.file().ok_or_else(|| {
            StoreError::Refused(
                "PostgreSQL is copied with its own tools: pg_dump --schema=lockgate, and psql"
                    .into(),
            )
        })
    }
}

async fn replace(connection: &mut AnyConnection, copy: &Path) -> sqlx::Result<()> {
    let attach = sqlx::query("ATTACH DATABASE $1 AS copy").bind(copy.display().to_string());
    attach.execute(&mut *connection).await?;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::raw_sql(REPLACE).execute(&mut *transaction).await?;
    transaction.commit().await
}

#[allow(clippy::disallowed_methods, reason = "the backup that the operator named")]
fn duplicate(from: &Path, to: &Path) -> std::io::Result<()> {
    make_file(to)?;
    std::fs::copy(from, to).map(|_| ())
}

/// Takes a copy away, with what SQLite keeps beside it.
#[allow(clippy::disallowed_methods, reason = "a copy that was made here")]
fn take_away(copy: &Path) {
    for end in ["", "-wal", "-shm"] {
        let mut name = copy.as_os_str().to_owned();
        name.push(end);
        // What is not there needs not go.
        let _ = std::fs::remove_file(PathBuf::from(name));
    }
}
