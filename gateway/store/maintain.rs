//! Operator maintenance: checking, backing up and restoring the database. Gateways can keep
//! running. Checks and backups are read-only and never migrate the schema.

use std::path::Path;

use serde::Serialize;

use crate::config::StorePlace;
use crate::connection::Connection;
use crate::database::{Store, refuse_damaged};
use crate::error::{Result, StoreError};
use crate::file::{self, Access, Draft};
use crate::schema::NEWEST_VERSION;
use crate::value::Value;

/// The content of an intact database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Inventory {
    /// The schema version; 0 if nothing has been stored yet.
    pub schema: i64,
    pub organisations: i64,
    pub integrations: i64,
    pub agents: i64,
    pub assignments: i64,
}

/// The content of the store before and after a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    pub before: Inventory,
    pub after: Inventory,
}

/// Replaces the data by those of a copy. The new epoch makes gateways read everything. The versions
/// of integrations and agents become the clock's new revision, which exceeds every earlier version,
/// so that no version is reused for other content. Existing grants are kept: the refresh
/// tokens of a backup may have been replaced since.
const REPLACE: &str = "
    UPDATE clock SET revision = MAX(revision, (SELECT revision FROM copy.clock)) + 1,
        epoch = lower(hex(randomblob(16)));
    DELETE FROM main.outcomes;
    DELETE FROM main.agent_hidden_tools;
    DELETE FROM main.agent_servers;
    DELETE FROM main.assignments;
    DELETE FROM main.agents;
    DELETE FROM main.integrations;
    DELETE FROM main.organisations;
    INSERT INTO main.organisations SELECT * FROM copy.organisations;
    INSERT INTO main.integrations SELECT * FROM copy.integrations;
    INSERT INTO main.agents SELECT * FROM copy.agents;
    INSERT INTO main.assignments SELECT * FROM copy.assignments;
    INSERT INTO main.agent_servers SELECT * FROM copy.agent_servers;
    INSERT INTO main.agent_hidden_tools SELECT * FROM copy.agent_hidden_tools;
    DELETE FROM main.integration_calls;
    INSERT INTO main.integration_calls SELECT * FROM copy.integration_calls;
    DELETE FROM main.call_usage;
    INSERT INTO main.call_usage SELECT * FROM copy.call_usage;
    UPDATE main.grant_clock
        SET revision = MAX(revision, (SELECT revision FROM copy.grant_clock)) + 1;
    INSERT OR IGNORE INTO main.grants SELECT * FROM copy.grants;
    INSERT OR IGNORE INTO main.account_records SELECT * FROM copy.account_records;
    UPDATE main.grants SET revision = (SELECT revision FROM main.grant_clock);
    UPDATE main.organisations SET revision = (SELECT revision FROM main.clock);
    UPDATE main.integrations SET version = (SELECT revision FROM main.clock);
    UPDATE main.agents SET version = (SELECT revision FROM main.clock);
";
const COUNTS: [&str; 4] = [
    "SELECT COUNT(*) FROM organisations",
    "SELECT COUNT(*) FROM integrations",
    "SELECT COUNT(*) FROM agents",
    "SELECT COUNT(*) FROM assignments",
];

impl Store {
    /// Checks that the database is intact, and counts its rows.
    ///
    /// # Errors
    /// [`StoreError`], for a damaged database [`StoreError::Damaged`].
    pub async fn check(&self) -> Result<Inventory> {
        let Some((mut connection, schema)) = self.look().await? else {
            return Ok(Inventory::default());
        };
        if let Some(file) = self.file() {
            refuse_damaged(&mut connection, file, "PRAGMA integrity_check(1)").await?;
        }
        let mut counts = [0; COUNTS.len()];
        for (count, sql) in counts.iter_mut().zip(COUNTS) {
            *count = connection.scalar(sql, &[]).await?;
        }
        if schema == NEWEST_VERSION {
            self.check_rows(&mut connection).await?;
        }
        connection.close().await;
        let [organisations, integrations, agents, assignments] = counts;
        Ok(Inventory { schema, organisations, integrations, agents, assignments })
    }

    /// Copies the database as of a single moment to a new file with access for its owner alone. The
    /// file receives its name when it is complete and on disk.
    ///
    /// # Errors
    /// [`StoreError`], also for PostgreSQL, which has its own tools.
    pub async fn back_up(&self, to: &Path) -> Result<Inventory> {
        self.own_file()?;
        if to.exists() {
            return Err(StoreError::Refused(format!("{} already exists", to.display())));
        }
        let Some((mut connection, _)) = self.look().await? else {
            return Err(StoreError::Refused("nothing has been stored yet".into()));
        };
        let draft = Draft::new(to, ".part")?;
        copy_into(&mut connection, draft.path()).await?;
        connection.close().await;
        let inventory = at(draft.path()).check().await?;
        draft.keep_as(to)?;
        Ok(inventory)
    }

    /// Replaces the data by those of a copy, entirely or not at all. Running gateways apply the
    /// result within seconds.
    ///
    /// # Errors
    /// [`StoreError`]. A damaged, foreign or newer copy, or a copy without a store, changes
    /// nothing.
    pub async fn restore(&self, from: &Path) -> Result<Restored> {
        let file = self.own_file()?;
        if !from.is_file() {
            return Err(StoreError::Refused(format!("there is no file {}", from.display())));
        }
        if file::is_same(from, file) {
            return Err(StoreError::Refused(format!(
                "{} is the store itself; specify a backup",
                from.display()
            )));
        }
        let mut source = open_backup(from).await?;
        file::make(file)?;
        // A copy with an older schema is migrated in the draft, so that the backup remains
        // unchanged.
        let draft = Draft::new(file, ".restoring")?;
        copy_into(&mut source, draft.path()).await?;
        source.close().await;
        let copy = at(draft.path());
        copy.pool().await?;
        copy.close().await;
        copy.check().await?;
        self.pool().await?;
        let before = self.check().await?;
        let mut connection = self.connect(Access::Write).await?;
        replace(&mut connection, draft.path()).await?;
        connection.close().await;
        Ok(Restored { before, after: self.check().await? })
    }

    /// Rejects a schema that this program would migrate: gateways of an older version may still use
    /// it.
    pub async fn require_newest_schema(&self) -> Result<()> {
        match self.look().await? {
            Some((_, found)) if found < NEWEST_VERSION => Err(StoreError::Refused(format!(
                "its schema is {found}, this program requires {NEWEST_VERSION}; start a \
                 gateway of this version first"
            ))),
            _ => Ok(()),
        }
    }

    fn own_file(&self) -> Result<&Path> {
        match self.file() {
            Some(file) => Ok(file),
            None => Err(StoreError::Refused(
                "for PostgreSQL, use its own tools: pg_dump --schema=lockgate, and psql".into(),
            )),
        }
    }
}

fn at(file: &Path) -> Store {
    Store::new(StorePlace::File(file.to_owned()))
}

/// Opens a backup with its WAL, and rejects a file without a store, which would replace everything
/// by nothing.
async fn open_backup(from: &Path) -> Result<Connection> {
    let found = match at(from).look().await {
        Err(StoreError::Foreign(_)) => return Err(no_store(from)),
        found => found?,
    };
    let Some((mut connection, _)) = found else { return Err(no_store(from)) };
    // A main file copied without its WAL may lack every change.
    let changes = "SELECT COALESCE(MAX(revision), 0) FROM clock";
    let changes: i64 = connection.scalar(changes, &[]).await?;
    if changes > 0 { Ok(connection) } else { Err(no_store(from)) }
}

fn no_store(from: &Path) -> StoreError {
    StoreError::Refused(format!(
        "{} is not a store of Lockgate, or is incomplete; create a backup with `lockgate store \
        backup`",
        from.display()
    ))
}

/// Copies all data visible to a connection into an empty file.
async fn copy_into(connection: &mut Connection, to: &Path) -> Result<()> {
    connection.execute("VACUUM INTO $1", &[path_value(to)]).await.map(drop)
}

async fn replace(connection: &mut Connection, copy: &Path) -> Result<()> {
    connection.execute("ATTACH DATABASE $1 AS copy", &[path_value(copy)]).await?;
    connection.run("BEGIN IMMEDIATE").await?;
    connection.run(REPLACE).await?;
    connection.run("COMMIT").await
}

fn path_value(path: &Path) -> Value {
    path.display().to_string().as_str().into()
}
